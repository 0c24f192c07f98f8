/// Lets one task wait until as many parties as entered have left, and leaves no trace of one that was cancelled.
///
/// It starts with its maker inside, so that it cannot open before all parties are in.
///
/// ```swift
/// await FluxLatch.wait { latch in
///     lock.withLock { table in table.isDone ? nil : table.join(latch) }  // enters it, and leaves it once it is done
/// } withdrawing: { id in
///     lock.withLock { table in table.withdraw(id) }
/// }
/// ```
///
/// Thread safety: all of it may be used from any thread; one task waits.
nonisolated public final class FluxLatch: Sendable {
    private struct Gate {
        var inside = 1
        var isOpen = false
        var continuation: _Concurrency.CheckedContinuation<Void, Swift.Never>?
    }

    private let gate = FluxLock(Gate())

    /// Makes a latch with its maker inside.
    public init() {}

    /// Adds a party to wait for.
    public func enter() { gate.withLock { $0.inside += 1 } }

    /// Takes a party out; the last one opens the latch.
    public func leave() {
        release { gate in
            gate.inside -= 1
            return gate.inside == 0
        }
    }

    /// Opens the latch, whoever is inside.
    public func open() { release { _ in true } }

    /// Leaves as the maker, and suspends until the latch is open or the task is cancelled.
    public func wait() async {
        leave()
        await withTaskCancellationHandler {
            await suspend()
        } onCancel: {
            open()
        }
        seeTheEnd()
    }

    /// Leaves as the maker, and suspends until the latch is open, also in a task that is cancelled.
    public func waitToTheEnd() async {
        leave()
        await suspend()
        seeTheEnd()
    }

    /// Waits in a list until somebody leaves the latch, or the task is cancelled; a list does not grow by those who gave up.
    ///
    /// - Parameters:
    ///   - join: Puts the latch into a list, or several, and enters it once for each; nil: there is nothing to wait for.
    ///   - withdraw: Takes it out, by what `join` returned; called after every wait.
    public static func wait<Place>(
        joining join: (FluxLatch) -> Place?, withdrawing withdraw: (Place) -> Void
    ) async {
        let latch = FluxLatch()
        guard let place = join(latch) else { return }
        await latch.wait()
        withdraw(place)
    }

    private func suspend() async {
        // A checked one: the thread sanitizer would see the `resume()` of an unsafe one, compiled into its caller, read the
        // memory of a task that goes on meanwhile.
        await withCheckedContinuation { continuation in
            let isOpen = gate.withLock { gate in
                if !gate.isOpen { gate.continuation = continuation }
                return gate.isOpen
            }
            if isOpen { continuation.resume() }
        }
    }

    /// Nothing to do, but ThreadSanitizer sees by it that what the parties and the handler of a cancellation did is over.
    private func seeTheEnd() { gate.withLock { _ in } }

    private func release(_ opens: (inout Gate) -> Bool) {
        let continuation = gate.withLock { gate -> _Concurrency.CheckedContinuation<Void, Swift.Never>? in
            guard opens(&gate), !gate.isOpen else { return nil }
            gate.isOpen = true
            return fluxTake(&gate.continuation)
        }
        continuation?.resume()
    }
}
