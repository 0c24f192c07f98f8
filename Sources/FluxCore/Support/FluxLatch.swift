/// Lets one task wait until as many parties as entered have left.
///
/// It starts with its maker inside, so that it cannot open before all parties are in.
@usableFromInline
nonisolated final class FluxLatch: Sendable {
    private struct Gate {
        var inside = 1
        var isOpen = false
        var continuation: FluxContinuation?
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
            await sleep()
        } onCancel: {
            release { _ in true }
        }
        seeTheEnd()
    }

    /// Leaves as the maker and suspends until the latch is open, also in a task that is cancelled.
    func waitToTheEnd() async {
        leave()
        await sleep()
        seeTheEnd()
    }

    @inline(__always)
    private func sleep() async {
        await fluxSuspend { continuation in
            let isOpen = gate.withLock { gate in
                if !gate.isOpen { gate.continuation = continuation }
                return gate.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }

    /// Nothing to do, but ThreadSanitizer sees by it that what the parties and the handler of a cancellation did is over.
    private func seeTheEnd() {
        gate.withLock { _ in }
    }

    private func release(_ opens: (inout Gate) -> Bool) {
        let continuation = gate.withLock { gate -> FluxContinuation? in
            guard opens(&gate), !gate.isOpen else { return nil }
            gate.isOpen = true
            return fluxTake(&gate.continuation)
        }
        continuation?.resume()
    }
}
