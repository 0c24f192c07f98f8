import Dispatch

/// What the lock of a store guards, in the hands of who has that lock: see ``FluxStoreHandle/withAccess(_:)``.
///
/// Thread safety: belongs to the closure that it is given to.
nonisolated public struct FluxStoreAccess<State: FluxState> {
    /// What came of a change.
    @usableFromInline struct Applied {
        /// The new revision; nil if nothing is announced.
        @usableFromInline let revision: UInt64?
        /// Whom to settle outside the lock.
        @usableFromInline let wakes: FluxWakes

        @inlinable init(revision: UInt64?, wakes: FluxWakes) {
            self.revision = revision
            self.wakes = wakes
        }
    }

    @usableFromInline var current: State
    @usableFromInline var mailboxes = FluxMailboxes<FluxStoreHandle<State>>()
    /// How many changes were applied and not announced.
    @usableFromInline var silent: UInt64 = 0
    /// Those who look on; nil if there are none: all that the hot path looks at.
    @usableFromInline var observing: FluxObserving<State>?

    @usableFromInline init(state: State) { current = state }

    /// The state.
    @inlinable public var state: State { current }

    /// The number of the newest announced change; 0 before the first.
    @inlinable public var revision: UInt64 { mailboxes.newest }

    /// Grows with each change that was applied, announced or not.
    @inlinable public var stamp: UInt64 { mailboxes.newest &+ silent }

    /// Whether the store was let go, and all that was due has been done.
    public var isEnded: Bool { mailboxes.isEnded }

    /// Whether somebody decides on each change, and so may hold some back.
    public var isHeld: Bool { observing?.gate != nil }

    // MARK: - Applying

    /// Applies an action and puts the change, if it is announced, into all mailboxes.
    @inlinable @inline(__always) mutating func apply(_ action: State.Action) -> Applied {
        if observing != nil { return applyObserved(.action(action)) }
        guard let next = current.handle(action: action) else {
            silent &+= 1
            return Applied(revision: nil, wakes: .none)
        }
        current = next
        return announce()
    }

    @inlinable @inline(__always) mutating func announce() -> Applied {
        mailboxes.newest &+= 1
        var wakes = FluxWakes.none
        if !mailboxes.entries.isEmpty { mailboxes.announce(current, &wakes) }
        return Applied(revision: mailboxes.newest, wakes: wakes)
    }

    /// Applies a change that observers are told of, unless the gate holds it back.
    @inlinable @inline(never)
    mutating func applyObserved(_ change: FluxChange<State>, pastGate: Bool = false) -> Applied {
        if !pastGate, let gate = observing?.gate, !gate.admit(change) { return Applied(revision: nil, wakes: .none) }
        if let observers = observing?.observers { for entry in observers { entry.applying(change) } }
        if change.apply(to: &current) { return tell(change, announce()) }
        guard case .action = change else { return Applied(revision: nil, wakes: .none) }
        silent &+= 1
        return tell(change, Applied(revision: nil, wakes: .none))
    }

    @inlinable @inline(__always)
    mutating func tell(_ change: FluxChange<State>, _ applied: consuming Applied) -> Applied {
        guard let observers = observing?.observers else { return applied }
        var wakes = applied.wakes
        for entry in observers {
            if let due = entry.applied(change, current, applied.revision) { wakes.append(due) }
        }
        return Applied(revision: applied.revision, wakes: wakes)
    }

    /// Applies a change, as a dispatch to the store would.
    ///
    /// - Parameters:
    ///   - change: What to apply; `replaced` announces the state as it is.
    ///   - pastGate: True for whoever holds changes back and applies one now.
    /// - Returns: The revision; nil if it was held back or there is nothing to announce.
    @inlinable @discardableResult
    public mutating func apply(_ change: FluxChange<State>, pastGate: Bool = false) -> UInt64? {
        let applied = applyObserved(change, pastGate: pastGate)
        settleLater(applied.wakes)
        return applied.revision
    }

    /// Puts another state in the place of the one that is there, and announces it.
    ///
    /// - Parameters:
    ///   - state: The state.
    ///   - action: Says why, to those who look on.
    ///   - revision: What to announce it as, higher than the revision so far; nil for the next.
    /// - Returns: The revision.
    @discardableResult public mutating func replace(
        with state: State, by action: some FluxAction, revision: UInt64? = nil
    ) -> UInt64 {
        letGo(of: current)
        current = state
        if let revision { mailboxes.newest = Swift.max(mailboxes.newest, revision &- 1) }
        let applied = tell(.replaced(by: action), announce())
        settleLater(applied.wakes)
        return mailboxes.newest
    }

    // MARK: - Looking on

    /// Tells somebody of every change from now on.
    ///
    /// - Parameter observer: Who is told, behind those that were added before.
    @inlinable public mutating func observe<Observer: FluxStoreObserver<State>>(_ observer: Observer) {
        makeObserving().observers.append(FluxObserverEntry(observer))
    }

    /// Tells somebody of no change from now on.
    ///
    /// - Parameter observer: Who was told.
    public mutating func remove(_ observer: AnyObject) {
        guard let observing else { return }
        for entry in observing.observers where entry.observer === observer { letGo(of: entry) }
        observing.observers.removeAll { $0.observer === observer }
    }

    /// Has somebody decide on each change before it is applied; of several the last.
    ///
    /// - Parameter gate: Who decides; nil for nobody.
    public mutating func hold(by gate: (any FluxStoreGate<State>)?) {
        if let old = observing?.gate { letGo(of: old) }
        makeObserving().gate = gate
    }

    var observers: ContiguousArray<FluxObserverEntry<State>> { observing?.observers ?? [] }

    @usableFromInline mutating func makeObserving() -> FluxObserving<State> {
        let known = observing ?? FluxObserving()
        observing = known
        return known
    }

    // MARK: - Once the lock is free

    /// Lets go of something once the lock is free: it may be the last reference to what a `deinit` of the user's is in.
    ///
    /// - Parameter value: What is to go.
    public mutating func letGo(of value: Any) { makeObserving().gone.append(value) }

    @usableFromInline mutating func settleLater(_ wakes: consuming FluxWakes) {
        if case .none = wakes { return }
        makeObserving().wakes.append(wakes)
    }

    /// Hands out whom to settle and what to let go of.
    @usableFromInline mutating func takeRest() -> (FluxWakes, [Any]) {
        guard let observing else { return (.none, []) }
        let rest = (observing.wakes, observing.gone)
        (observing.wakes, observing.gone) = (.none, [])
        if observing.observers.isEmpty && observing.gate == nil { self.observing = nil }
        return rest
    }
}

/// Those who look on at a store, and what is due to them once its lock is free; changed under that lock alone.
@usableFromInline nonisolated final class FluxObserving<State: FluxState> {
    @usableFromInline var observers: ContiguousArray<FluxObserverEntry<State>> = []
    @usableFromInline var gate: (any FluxStoreGate<State>)?
    var wakes = FluxWakes.none
    var gone: [Any] = []

    init() {}
}
