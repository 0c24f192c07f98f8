/// Actions held back until a load has ended, and those who wait for that: a pure state machine.
///
/// | input   | loading                    | ended                  |
/// |---------|----------------------------|------------------------|
/// | `keep`  | kept                       | refused: apply it now  |
/// | `wait`  | told by `end`              | nothing to wait for    |
/// | `close` | put off: `end` says so     | at once                |
/// | `end`   | all that was kept, in order | nothing: it was before |
@usableFromInline
nonisolated struct FluxHold<Action, Waiter> {
    /// What the end of the load sets free, to be dealt with in this order.
    @usableFromInline
    struct Release {
        @usableFromInline var actions: ContiguousArray<Action> = []
        /// To be told outside the lock.
        @usableFromInline var waiters: ContiguousArray<Waiter> = []
        /// Whether the store was let go in the meantime.
        @usableFromInline var isClosed = false

        @inlinable
        init() {}
    }

    /// How the load ended.
    @usableFromInline var restoration = FluxRestoration.loading
    @usableFromInline var release = Release()
    @usableFromInline var waiters = FluxSlots<Waiter>()
    @usableFromInline var lastID: UInt64 = 0

    @inlinable
    init() {}

    @inlinable var isLoading: Bool { if case .loading = restoration { true } else { false } }

    /// Keeps an action; false: it is to be applied now.
    @inlinable
    mutating func keep(_ action: Action) -> Bool {
        guard isLoading else { return false }
        release.actions.append(action)
        return true
    }

    /// Adds somebody who waits for the end; nil: that was before.
    @inlinable
    mutating func wait(_ waiter: Waiter) -> UInt64? {
        guard isLoading else { return nil }
        lastID += 1
        waiters.insert(waiter, id: lastID)
        return lastID
    }

    /// Removes one who waits no longer.
    @inlinable
    mutating func withdraw(_ id: UInt64) {
        _ = waiters.remove(id: id)
    }

    /// Lets go of the store; false: only after the end.
    @inlinable
    mutating func close() -> Bool {
        if isLoading { release.isClosed = true }
        return !isLoading
    }

    /// Ends the load, once, and hands out what it has held back.
    @inlinable
    mutating func end(_ restoration: FluxRestoration) -> Release {
        guard isLoading else { return Release() }
        self.restoration = restoration
        var result = Release()
        swap(&result, &release)
        result.waiters = waiters.removeAll()
        return result
    }
}
