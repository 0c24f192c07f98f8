#if canImport(FluxCore)
    import FluxCore
#endif

/// Changes held back until a load has ended, and those who wait for that: a pure state machine.
///
/// | input   | loading                     | ended                  |
/// |---------|-----------------------------|------------------------|
/// | `keep`  | kept                        | refused: apply it now  |
/// | `wait`  | told by `end`               | nothing to wait for    |
/// | `close` | put off: `end` says so      | at once                |
/// | `end`   | all that was kept, in order | nothing: it was before |
@usableFromInline
nonisolated struct FluxLoadBuffer<Change, Waiter> {
    /// What the end of the load sets free, to be dealt with in this order.
    struct Release {
        var changes: ContiguousArray<Change> = []
        /// To be told outside the lock.
        var waiters: ContiguousArray<Waiter> = []
        /// Ends the store, where that was let go in the meantime.
        var finish: (@Sendable () -> Void)?
    }

    /// How the load ended.
    @usableFromInline var restoration = FluxRestoration.loading
    private var release = Release()
    private var waiters = FluxList<Waiter>()
    private var lastID: UInt64 = 0

    init() {}

    @inlinable var isLoading: Bool { if case .loading = restoration { true } else { false } }

    /// Keeps a change; false: it is to be applied now.
    mutating func keep(_ change: Change) -> Bool {
        if isLoading { release.changes.append(change) }
        return isLoading
    }

    /// Adds somebody who waits for the end; nil: that was before.
    mutating func wait(_ waiter: Waiter) -> UInt64? {
        guard isLoading else { return nil }
        lastID += 1
        waiters.insert(waiter, id: lastID)
        return lastID
    }

    /// Removes one who waits no longer.
    mutating func withdraw(_ id: UInt64) {
        waiters.remove(id: id)
    }

    /// Lets go of the store; false: only after the end.
    mutating func close(_ finish: @escaping @Sendable () -> Void) -> Bool {
        if isLoading { release.finish = finish }
        return !isLoading
    }

    /// Ends the load, once, and hands out what it has held back.
    mutating func end(_ restoration: FluxRestoration) -> Release {
        var result = Release()
        guard isLoading else { return result }
        self.restoration = restoration
        swap(&result, &release)
        result.waiters = waiters.removeAll()
        return result
    }
}
