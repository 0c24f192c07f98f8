import FluxCore

/// Creates tokens, and counts those that are still alive.
final class Tokens: Sendable {
    private struct Weak { weak var token: Token? }

    private let made = FluxLock<[Weak]>([])

    func make() -> Token {
        let token = Token()
        made.withLock { $0.append(Weak(token: token)) }
        return token
    }

    var alive: Int { made.withLock { $0.count { $0.token != nil } } }
}
