/// Lets one task wait until as many parties as entered have left.
///
/// It starts with its maker inside, so that it cannot open before all parties are in.
@usableFromInline
nonisolated final class FluxLatch: Sendable {
    private struct Gate {
        var inside = 1
        var isOpen = false
        var continuation: UnsafeContinuation<Void, Never>?
    }

    private let gate = FluxLock(Gate())

    @usableFromInline
    init() {}

    /// Adds parties to wait for.
    @usableFromInline
    func enter(_ parties: Int = 1) {
        gate.withLock { $0.inside += parties }
    }

    /// Takes a party out; the last one opens the latch.
    @usableFromInline
    func leave() {
        release { gate in
            gate.inside -= 1
            return gate.inside == 0
        }
    }

    /// Leaves as the maker and suspends until the latch is open, or the task is cancelled.
    @usableFromInline
    func wait() async {
        leave()
        await withTaskCancellationHandler {
            await withUnsafeContinuation { continuation in
                let isOpen = gate.withLock { gate in
                    if !gate.isOpen { gate.continuation = continuation }
                    return gate.isOpen
                }
                if isOpen { continuation.resume() }
            }
        } onCancel: {
            release { _ in true }
        }
        // Nothing to do, but ThreadSanitizer sees by it that what happened before the last party left is over.
        gate.withLock { _ in }
    }

    private func release(_ opens: (inout Gate) -> Bool) {
        let continuation = gate.withLock { gate -> UnsafeContinuation<Void, Never>? in
            guard opens(&gate), !gate.isOpen else { return nil }
            gate.isOpen = true
            return fluxTake(&gate.continuation)
        }
        continuation?.resume()
    }
}
