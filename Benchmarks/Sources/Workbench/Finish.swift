import Dispatch
import Synchronization

/// Lets one thread wait until all of many parties have arrived.
///
/// All tallies of a cell share one. Waiting for each tally separately would wake the waiting thread and put it to sleep
/// once for each, at the expense of the thread that delivers.
public final class Finish: Sendable {
    private let left = Atomic<Int>(0)
    private let reached = DispatchSemaphore(value: 0)

    /// Creates an instance with no party to wait for.
    public init() {}

    /// Waits for the last party.
    public func wait() {
        reached.wait()
    }

    func enter() {
        left.add(1, ordering: .sequentiallyConsistent)
    }

    @usableFromInline
    func arrive() {
        if left.subtract(1, ordering: .sequentiallyConsistent).newValue == 0 { reached.signal() }
    }
}
