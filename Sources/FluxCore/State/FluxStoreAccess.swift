/// What the lock of a store guards, in the hands of who has that lock: see ``FluxStoreHandle/withAccess(_:)``.
///
/// It cannot be copied, and so not be kept: whoever has it has the lock.
///
/// Thread safety: belongs to the closure that it is given to.
nonisolated public struct FluxStoreAccess<State: FluxState>: ~Copyable {
    /// Those who look on; nil if there are none: all that the hot path looks at, and so beside the lock.
    @usableFromInline var observing: FluxObserving<State>?
    @usableFromInline var current: State
    @usableFromInline var mailboxes = FluxMailboxes<State>()
    /// How many changes were applied and not announced.
    @usableFromInline var silent: UInt64 = 0

    @inlinable init(state: State) { current = state }

    /// The state.
    @inlinable public var state: State { current }

    /// The number of the newest announced change; 0 before the first.
    @inlinable public var revision: UInt64 { mailboxes.newest &+ (observing?.skipped ?? 0) }

    /// Grows with each change that was applied, announced or not.
    @inlinable var stamp: UInt64 { mailboxes.newest &+ silent }

    /// Whether somebody decides on each change, and so may hold some back.
    public var isHeld: Bool { observing?.gate != nil }

    // MARK: - Applying

    /// Applies an action and puts the change, if it is announced, into all mailboxes; returns its revision, and adds whom to
    /// settle once the lock is free.
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

    /// Applies a change that observers are told of, unless the gate holds it back.
    @inlinable @inline(never)
    mutating func apply(_ change: FluxChange<State>, pastGate: Bool, _ wakes: inout FluxWakes) -> UInt64? {
        if !pastGate, let gate = observing?.gate, !gate(change) { return nil }
        // Taken out meanwhile, and called by their positions: nothing is retained for them.
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
    ///   - change: What to apply; `replaced` announces the state as it is.
    ///   - pastGate: True for whoever holds changes back and applies one now.
    ///   - task: The ``FluxTask/current`` of those who look on; nil: that of the thread.
    /// - Returns: The revision; nil if it was held back or there is nothing to announce.
    @inlinable @discardableResult
    public mutating func apply(_ change: FluxChange<State>, pastGate: Bool = false, of task: FluxTask? = nil) -> UInt64?
    {
        var wakes = FluxWakes.none
        if let observing { swap(&wakes, &observing.rest.wakes) }
        defer { if case .none = wakes {} else { makeObserving().rest.wakes = wakes } }
        if let task { return FluxThreads.shared.current.sending(task) { apply(change, pastGate: pastGate, &wakes) } }
        return apply(change, pastGate: pastGate, &wakes)
    }

    /// Puts another state in the place of the one that is there, and announces it.
    ///
    /// - Parameters:
    ///   - state: The state.
    ///   - action: Says why, to those who look on.
    ///   - revision: What to announce it as, higher than the revision so far and at most `Int64.max`; nil for the next.
    /// - Returns: The revision.
    @discardableResult public mutating func replace(
        with state: State, by action: some FluxAction, revision: UInt64? = nil
    ) -> UInt64 {
        fluxRequire(revision ?? 0 <= Int64.max, "\(revision ?? 0) is no revision: too few could come after it.")
        letGo(of: current)
        current = state
        if let revision, revision > self.revision { makeObserving().skipped &+= revision &- 1 &- self.revision }
        return apply(.replaced(by: action), pastGate: true) ?? self.revision
    }

    // MARK: - Looking on

    /// Tells somebody of every change from now on; of a store that has ended of none.
    ///
    /// - Parameters:
    ///   - observer: Who is told, behind those that were added before.
    ///   - settlesFirst: True if whom it returns only schedules work, and it is to be told of no events: a subscription. All who may
    ///     take longer, or wait for somebody, are settled after those, or they would hold up subscriptions (C8).
    @inlinable
    public mutating func observe<Observer: FluxStoreObserver<State>>(_ observer: Observer, settlesFirst: Bool = false) {
        // Nothing would take it out any more.
        if mailboxes.isEnded { return letGo(of: observer) }
        let observing = makeObserving()
        observing.observers.append(FluxObserverEntry(observer, settlesFirst: settlesFirst))
        observing.ids.append(ObjectIdentifier(observer))
    }

    /// Tells somebody of no change from now on.
    ///
    /// - Parameter observer: Who was told.
    @inlinable public mutating func remove(_ observer: AnyObject) {
        while let observing, let index = observing.ids.firstIndex(of: ObjectIdentifier(observer)) {
            observing.ids.remove(at: index)
            letGo(of: observing.observers.remove(at: index))
        }
    }

    /// Holds changes back, to apply them later: what loads a state does.
    ///
    /// - Parameter admits: Decides on each change that is about to be applied, in the place of whoever did so far; called under
    ///   the lock of the store, quick, and pure. With false the change is held back, and the holder applies it later. Nil: nobody
    ///   decides any more. There is one holder at a time, and while a state is being loaded that is who loads it.
    public mutating func hold(by admits: (@Sendable (FluxChange<State>) -> Bool)?) {
        if let old = observing?.gate { letGo(of: old) }
        makeObserving().gate = admits
    }

    @inlinable var observers: ContiguousArray<FluxObserverEntry<State>> { observing?.observers ?? [] }

    @usableFromInline mutating func makeObserving() -> FluxObserving<State> {
        let known = observing ?? FluxObserving()
        observing = known
        return known
    }

    // MARK: - Once the lock is free

    /// Lets go of something once the lock is free: it may be the last reference to what a `deinit` of the user's is in.
    ///
    /// - Parameter value: What is to go.
    @inlinable public mutating func letGo(of value: Any) { makeObserving().rest.gone.append(value) }

    /// Hands out whom to settle and what to let go of.
    @inlinable mutating func takeRest(_ rest: inout (wakes: FluxWakes, gone: [Any])) {
        guard let observing else { return }
        swap(&rest, &observing.rest)
        if observing.observers.isEmpty && observing.gate == nil && observing.skipped == 0 { self.observing = nil }
    }
}
