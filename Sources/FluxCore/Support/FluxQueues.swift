import Dispatch

/// Returns whether two references are to one queue; on Linux, `DispatchQueue.main` is a new object at each use.
@usableFromInline nonisolated func fluxIsSame(_ one: DispatchQueue?, _ other: DispatchQueue?) -> Bool {
    one === other || one?.getSpecific(key: fluxMainMark) == true && other?.getSpecific(key: fluxMainMark) == true
}

nonisolated private let fluxMainMark: DispatchSpecificKey<Bool> = {
    let key = DispatchSpecificKey<Bool>()
    DispatchQueue.main.setSpecific(key: key, value: true)
    return key
}()

/// Creates a serial queue that targets a global queue instead of the overcommitting default.
///
/// So thousands of busy stores share a few threads.
nonisolated func fluxQueue(_ label: String) -> DispatchQueue {
    DispatchQueue(label: label, autoreleaseFrequency: .workItem, target: .global())
}

/// The limits that all drains and their buffers share.
@usableFromInline nonisolated enum FluxLimits {
    /// After this many batches a drain gives its thread back, so that no store or creator keeps it from the others.
    @usableFromInline static var batchesInARow: Int { 16 }
    /// Returns the largest capacity, half a megabyte, that a buffer keeps for the next burst; a larger buffer is freed.
    @inlinable static func keptCapacity<Element>(_: Element.Type) -> Int { (1 << 19) / MemoryLayout<Element>.stride }
}

/// Waits about two microseconds, or *n* times five nanoseconds.
///
/// In a burst of changes, the thread that makes them then meets the lock of a drain less often, and does not have to
/// wake its queue again and again.
///
/// The loop calls something that the compiler cannot see through; otherwise the compiler would remove the loop. It does
/// not call `sched_yield()`: when there is more work than the cores can do, each yield costs the thread some
/// milliseconds. `FluxObservation` has a copy of this for its deliveries.
@usableFromInline nonisolated func fluxLinger(_ n: Int = 400) { for _ in 0..<n { _ = _Concurrency.Task.isCancelled } }
