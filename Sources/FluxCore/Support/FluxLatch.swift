/// Lets one task wait until the latch is opened; a cancelled wait leaves nothing behind.
///
/// ```swift
/// await FluxLatch.wait { latch in
///     lock.withLock { table in table.isDone ? nil : table.join(latch) }  // keeps it, and opens it once it is done
/// } withdrawing: { place in
///     lock.withLock { table in table.withdraw(place) }
/// }
/// ```
///
/// Thread safety: all of it may be used from any thread; only one task may wait.
nonisolated public final class FluxLatch: Sendable {
    private struct Gate {
        var isOpen = false
        var continuation: FluxWaiter?
    }

    private let gate = FluxLock(Gate())

    /// Creates a closed latch.
    public init() {}

    /// Opens the latch permanently.
    public func open() {
        let continuation = gate.withLock { gate in
            gate.isOpen = true
            return Swift.exchange(&gate.continuation, with: nil)
        }
        continuation?.resume()
    }

    /// Suspends until the latch is open or the task is cancelled; stops the program if another task already waits.
    ///
    /// A cancelled wait opens the latch permanently.
    public func wait() async {
        await withTaskCancellationHandler {
            await fluxSuspend { continuation in
                let isOpen = gate.withLock { gate in
                    fluxRequire(gate.continuation == nil, "a FluxLatch is for one task. Create one for each.")
                    if !gate.isOpen { gate.continuation = continuation }
                    return gate.isOpen
                }
                if isOpen { continuation.resume() }
            }
        } onCancel: {
            open()
        }
        // For ThreadSanitizer only: the lock shows it that what came before the opening or the cancellation is over.
        gate.withLock { _ in }
    }

    /// Waits in a list until the latch is opened or the task is cancelled; cancelled waits do not stay in the list.
    ///
    /// - Parameters:
    ///   - join: Puts the latch into a list and returns its place; nil if there is nothing to wait for.
    ///   - withdraw: Takes the latch out of the list, by the place that `join` returned; called after every wait.
    /// - Returns: False if the task has been cancelled by the end of the wait, even if the latch was opened first. True
    ///   if there was nothing to wait for.
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

// The continuation of the waiting task. An unsafe one is safe here: the first `open()` takes it out while holding the
// lock, and so resumes it once.
#if FLUX_TSAN
    // The `resume()` of an unsafe continuation is compiled into its caller. The sanitizer would see it read the memory
    // of a task that already runs again.
    private typealias FluxWaiter = _Concurrency.CheckedContinuation<Void, Swift.Never>
    nonisolated private func fluxSuspend(_ body: (FluxWaiter) -> Void) async { await withCheckedContinuation(body) }
#else
    private typealias FluxWaiter = _Concurrency.UnsafeContinuation<Void, Swift.Never>
    nonisolated private func fluxSuspend(_ body: (FluxWaiter) -> Void) async { await withUnsafeContinuation(body) }
#endif
