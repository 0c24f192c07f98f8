import Dispatch

/// Whether two references are to one queue; on Linux `DispatchQueue.main` is a new object at each use.
@usableFromInline nonisolated func fluxIsSame(_ one: DispatchQueue?, _ other: DispatchQueue?) -> Bool {
    one === other || one?.getSpecific(key: fluxMainMark) == true && other?.getSpecific(key: fluxMainMark) == true
}

nonisolated private let fluxMainMark: DispatchSpecificKey<Bool> = {
    let key = DispatchSpecificKey<Bool>()
    DispatchQueue.main.setSpecific(key: key, value: true)
    return key
}()

/// A serial queue that targets a global one rather than the overcommitting default, so that thousands of busy stores share
/// a few threads.
nonisolated func fluxQueue(_ label: String) -> DispatchQueue {
    DispatchQueue(label: label, autoreleaseFrequency: .workItem, target: .global())
}

/// The limits that drains and the buffers they empty have in common.
@usableFromInline nonisolated enum FluxLimits {
    /// After this many batches a drain gives its thread back, so that no store and no creator keeps it from the others.
    @usableFromInline static var batchesInARow: Int { 16 }
    /// A buffer with room for more than this, half a megabyte, is given back rather than kept for the next burst.
    @inlinable static func keptCapacity<Element>(_: Element.Type) -> Int { (1 << 19) / MemoryLayout<Element>.stride }
}

/// Waits for about two microseconds, or for as many times five nanoseconds as is said.
///
/// In a burst of changes whoever makes them meets the lock of a drain less often then, and does not have to wake its queue again and
/// again.
///
/// Asks for what the compiler cannot see through, or it would leave out the loop. Not `sched_yield()`: where there is more to do than
/// the cores can, each of those costs the thread some milliseconds. `FluxObservation` has the same for its deliveries.
@usableFromInline nonisolated func fluxLinger(_ n: Int = 400) { for _ in 0..<n { _ = _Concurrency.Task.isCancelled } }
