/// Lets one task wait until somebody opens it, and leaves no trace of one that was cancelled.
///
/// ```swift
/// await FluxLatch.wait { latch in
///     lock.withLock { table in table.isDone ? nil : table.join(latch) }  // keeps it, and opens it once it is done
/// } withdrawing: { id in
///     lock.withLock { table in table.withdraw(id) }
/// }
/// ```
///
/// Thread safety: all of it may be used from any thread; one task waits.
nonisolated public final class FluxLatch: Sendable {
    private struct Gate {
        var isOpen = false
        var continuation: FluxWaiter?
    }

    private let gate = FluxLock(Gate())

    /// Makes a latch that is closed.
    public init() {}

    /// Opens the latch for good.
    public func open() {
        let continuation = gate.withLock { gate in
            gate.isOpen = true
            return Swift.exchange(&gate.continuation, with: nil)
        }
        continuation?.resume()
    }

    /// Suspends until the latch is open or the task is cancelled; stops the program where another task waits already.
    public func wait() async {
        await withTaskCancellationHandler {
            await fluxSuspend { continuation in
                let isOpen = gate.withLock { gate in
                    fluxRequire(gate.continuation == nil, "a FluxLatch is for one task that waits. Make one for each.")
                    if !gate.isOpen { gate.continuation = continuation }
                    return gate.isOpen
                }
                if isOpen { continuation.resume() }
            }
        } onCancel: {
            open()
        }
        // Nothing to do, but ThreadSanitizer sees by it that what came before the opening, or with the cancellation, is over.
        gate.withLock { _ in }
    }

    /// Waits in a list until somebody opens the latch, or the task is cancelled; a list does not grow by those who gave up.
    ///
    /// - Parameters:
    ///   - join: Puts the latch into a list; nil: there is nothing to wait for.
    ///   - withdraw: Takes it out, by what `join` returned; called after every wait.
    /// - Returns: False where the task was cancelled while it waited.
    @inlinable @discardableResult public static func wait<Place>(
        joining join: (FluxLatch) -> Place?, withdrawing withdraw: (Place) -> Void
    ) async -> Bool {
        let latch = FluxLatch()
        guard let place = join(latch) else { return true }
        await latch.wait()
        withdraw(place)
        return !_Concurrency.Task.isCancelled
    }
}

// The continuation of one who waits. An unsafe one is safe here: whoever opens the latch first takes it out, with the lock held.
#if FLUX_TSAN
    // The sanitizer would see the `resume()` of an unsafe one, compiled into its caller, read the memory of a task that goes on.
    private typealias FluxWaiter = _Concurrency.CheckedContinuation<Void, Swift.Never>
    nonisolated private func fluxSuspend(_ body: (FluxWaiter) -> Void) async { await withCheckedContinuation(body) }
#else
    private typealias FluxWaiter = _Concurrency.UnsafeContinuation<Void, Swift.Never>
    nonisolated private func fluxSuspend(_ body: (FluxWaiter) -> Void) async { await withUnsafeContinuation(body) }
#endif
