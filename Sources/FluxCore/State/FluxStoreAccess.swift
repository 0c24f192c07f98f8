/// Access to what a store's lock guards, for code that holds the lock: see ``FluxStoreHandle/withAccess(_:)``.
///
/// It is not copyable and cannot be kept, so code that has an access holds the lock.
///
/// Thread safety: belongs to the closure that receives it.
nonisolated public struct FluxStoreAccess<State: FluxState>: ~Copyable {
    /// The observers, the gate, the skipped revisions and what waits for the unlock; nil if there is none of these.
    ///
    /// It is next to the lock, because the hot path checks only this.
    @usableFromInline var observing: FluxObserving<State>?
    @usableFromInline var current: State
    @usableFromInline var mailboxes = FluxMailboxes<State>()
    /// The number of changes that were applied but not announced.
    @usableFromInline var silent: UInt64 = 0

    @inlinable init(state: State) { current = state }

    /// The state.
    @inlinable public var state: State { current }

    /// The revision of the newest announced change; 0 before the first.
    @inlinable public var revision: UInt64 { mailboxes.newest &+ (observing?.skipped ?? 0) }

    /// Grows with each change that was applied, announced or not.
    @inlinable var stamp: UInt64 { mailboxes.newest &+ silent }

    /// Whether a holder decides on each change, and may hold some back: see ``hold(by:)``.
    public var isHeld: Bool { observing?.gate != nil }

    // MARK: - Applying

    /// Applies an action and puts the change, if it is announced, into all mailboxes.
    ///
    /// Returns the revision, and adds what is to be settled once the lock is free to `wakes`.
    @inlinable @inline(__always) mutating func apply(_ action: State.Action, _ wakes: inout FluxWakes) -> UInt64? {
        if observing != nil { return apply(.action(action), pastGate: false, &wakes) }
        guard let next = current.handle(action: action) else {
            silent &+= 1
            return nil
        }
        current = next
        return announce(&wakes)
    }

    @inlinable @inline(__always) mutating func announce(_ wakes: inout FluxWakes) -> UInt64 {
        mailboxes.newest &+= 1
        if !mailboxes.list.isEmpty { mailboxes.announce(&current, &wakes) }
        return mailboxes.newest
    }

    /// Applies a change and notifies the observers, unless the gate holds it back.
    @inlinable @inline(never)
    mutating func apply(_ change: FluxChange<State>, pastGate: Bool, _ wakes: inout FluxWakes) -> UInt64? {
        if !pastGate, let gate = observing?.gate, !gate(change) { return nil }
        // Moved out meanwhile and called by index, so nothing is retained for the calls.
        var observers: ContiguousArray<FluxObserverEntry<State>> = []
        if let observing { swap(&observers, &observing.observers) }
        defer { if let observing { swap(&observers, &observing.observers) } }
        for index in observers.indices { observers[index].applying(change) }
        let revision = change.apply(to: &current) ? announce(&wakes) &+ (observing?.skipped ?? 0) : nil
        if revision == nil {
            guard case .action = change else { return nil }
            silent &+= 1
        }
        for index in observers.indices {
            let due = observers[index].applied(change, current, revision)
            if case .none = due {} else { wakes.append(due) }
        }
        return revision
    }

    /// Applies a change, as a dispatch to the store would.
    ///
    /// - Parameters:
    ///   - change: What to apply; `replaced` announces the current state.
    ///   - pastGate: True if the holder applies a change that it has held back.
    ///   - task: The value of ``FluxTask/current`` that observers see; nil: that of the thread.
    /// - Returns: The revision; nil if the change was held back or there is nothing to announce.
    @inlinable @discardableResult
    public mutating func apply(_ change: FluxChange<State>, pastGate: Bool = false, of task: FluxTask? = nil) -> UInt64?
    {
        var wakes = FluxWakes.none
        if let observing { swap(&wakes, &observing.rest.wakes) }
        defer { if case .none = wakes {} else { makeObserving().rest.wakes = wakes } }
        if let task { return FluxThreads.shared.current.sending(task) { apply(change, pastGate: pastGate, &wakes) } }
        return apply(change, pastGate: pastGate, &wakes)
    }

    /// Replaces the state and announces the new one.
    ///
    /// - Parameters:
    ///   - state: The new state.
    ///   - action: Says why, for the observers.
    ///   - revision: The revision to announce; one above `Int64.max` stops the program. If it is nil, or not higher
    ///     than the newest, the next one is used.
    /// - Returns: The revision.
    @discardableResult public mutating func replace(
        with state: State, by action: some FluxAction, revision: UInt64? = nil
    ) -> UInt64 {
        fluxRequire(revision ?? 0 <= Int64.max, "\(revision ?? 0) is not a valid revision: give Int64.max at most.")
        letGo(of: current)
        current = state
        if let revision, revision > self.revision { makeObserving().skipped &+= revision &- 1 &- self.revision }
        return apply(.replaced(by: action), pastGate: true) ?? self.revision
    }

    // MARK: - Observing

    /// Adds an observer, which is notified of every change from now on; does nothing if the store has ended.
    ///
    /// - Parameters:
    ///   - observer: The observer, notified after those added before it.
    ///   - settlesFirst: True for an observer like a subscription: what its `applied` returns only schedules work, and
    ///     is settled first; the observer is not notified of events. Use false if settling may take longer or wait:
    ///     it then comes last, and delays no subscription (C8).
    @inlinable
    public mutating func observe<Observer: FluxStoreObserver<State>>(_ observer: Observer, settlesFirst: Bool = false) {
        // Nothing would remove it any more.
        if mailboxes.isEnded { return letGo(of: observer) }
        makeObserving().observers.append(FluxObserverEntry(observer, settlesFirst: settlesFirst))
    }

    /// Removes an observer, which is notified of no further change.
    ///
    /// - Parameter observer: The observer. If it was added more than once, all of these are removed.
    /// - Complexity: O(*o*) for *o* observers, each time that it was added.
    @inlinable public mutating func remove(_ observer: AnyObject) {
        while let observing, let index = observing.observers.firstIndex(where: { $0.observer === observer }) {
            letGo(of: observing.observers.remove(at: index))
        }
    }

    /// Holds changes back, to apply them later, as a persistence does while it loads a state.
    ///
    /// - Parameter admits: Decides on each change that is about to be applied, in place of the previous holder. It is
    ///   called while the store's lock is held, and must be quick and pure. If it returns false, the change is held
    ///   back and the holder applies it later. With nil, changes are no longer held back. There is one holder at a
    ///   time; while a state is being loaded, that is its loader.
    public mutating func hold(by admits: (@Sendable (FluxChange<State>) -> Bool)?) {
        if let old = observing?.gate { letGo(of: old) }
        makeObserving().gate = admits
    }

    @inlinable var observers: ContiguousArray<FluxObserverEntry<State>> { observing?.observers ?? [] }

    @usableFromInline mutating func makeObserving() -> FluxObserving<State> {
        if observing == nil { observing = FluxObserving() }
        return observing!
    }

    // MARK: - Once the lock is free

    /// Releases a value once the lock is free: the release may run a `deinit` of user code.
    ///
    /// - Parameter value: The value to release.
    @inlinable public mutating func letGo(of value: Any) { makeObserving().rest.gone.append(value) }

    /// Moves out what is to be settled and released once the lock is free.
    @inlinable mutating func takeRest(_ rest: inout (wakes: FluxWakes, gone: [Any])) {
        guard let observing else { return }
        swap(&rest, &observing.rest)
        if observing.observers.isEmpty && observing.gate == nil && observing.skipped == 0 { self.observing = nil }
    }
}
