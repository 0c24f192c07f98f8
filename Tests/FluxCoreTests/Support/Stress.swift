import Dispatch
import Testing

/// One at a time: a stress test has the machine to itself but for the small ones.
///
/// Together they would take as long and make each other wait, until a guard against a hang takes that for one. A time
/// limit would count the wait for the turn, so the guard is in here.
struct StressTrait: TestTrait, TestScoping {
    func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        await Turns.all.take()
        let limit = DispatchWorkItem { fatalError("\(test.name) has not ended after five minutes") }
        DispatchQueue.global().asyncAfter(deadline: .now() + 300, execute: limit)
        defer { limit.cancel() }
        do {
            try await function()
            Turns.all.giveBack()
        } catch {
            Turns.all.giveBack()
            throw error
        }
    }
}

extension Trait where Self == StressTrait {
    static var stress: Self { StressTrait() }
}

/// Who waits for a turn, first come first served.
private final class Turns: Sendable {
    static let all = Turns()

    private let state = Locked((isTaken: false, waiting: [CheckedContinuation<Void, Never>]()))

    func take() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.isTaken { state.waiting.append(continuation) }
                defer { state.isTaken = true }
                return !state.isTaken
            }
            if isFree { continuation.resume() }
        }
        state.withLock { _ in }
    }

    func giveBack() {
        let next = state.withLock { state in
            if state.waiting.isEmpty { state.isTaken = false }
            return state.waiting.isEmpty ? nil : state.waiting.removeFirst()
        }
        next?.resume()
    }
}
