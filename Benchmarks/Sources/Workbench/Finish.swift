import Dispatch
import Synchronization

/// Lets one thread wait until all of many parties have arrived.
///
/// One for all tallies of a cell: were each waited for by itself, the waiting thread would be woken and put to sleep
/// once for each, at the expense of whoever delivers on another thread.
public final class Finish: Sendable {
    private let left = Atomic<Int>(0)
    private let reached = DispatchSemaphore(value: 0)

    /// Makes one with no party to wait for.
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
