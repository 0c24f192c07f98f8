import Synchronization

/// One thing that changes a state.
@usableFromInline
nonisolated enum FluxStep<State: FluxState>: Sendable {
    /// An action of its own, for its `handle`.
    case action(State.Action)
    /// An action of another type, and what the store does about it.
    case reaction(any FluxAction, @Sendable (inout State) -> Void)

    @inlinable var action: any FluxAction {
        switch self {
        case .action(let action): action
        case .reaction(let action, _): action
        }
    }
}

/// A core of any type of state.
@usableFromInline
nonisolated protocol FluxResiding: AnyObject, Sendable {
    var residentIfAny: FluxResident? { get }
}

nonisolated extension FluxStoreCore {
    @usableFromInline var residentIfAny: FluxResident? { lazyExtras.withLoaded { $0.residentIfAny } }

    @usableFromInline var chain: FluxChain? { lazyExtras.withLoaded { $0.withResident { $0.chain } } }

    @usableFromInline
    func stamp(_ revision: UInt64, at moment: UInt64) {
        _ = lazyExtras.withLoaded { $0.withResident { $0.stamp(revision, at: moment) } }
    }

    /// What to tell; nil if nobody watches.
    @usableFromInline var chainIfWatched: FluxChain? {
        detours.load(ordering: .relaxed) & FluxDetours.hooks == 0 ? nil : chain
    }

    /// Dispatches with middleware in the way, or with somebody looking on.
    @inlinable @inline(never)
    func dispatchInDetail(_ action: State.Action, on thread: UnsafeMutablePointer<FluxThread>) -> UInt64? {
        let detours = detours.load(ordering: .relaxed)
        if detours & FluxDetours.middleware != 0, let residentIfAny { return residentIfAny.dispatch(action, to: self) }
        if detours & FluxDetours.hooks != 0, let chain {
            chain.tellDispatched(action, on: thread)
            if detours == FluxDetours.hooks { return dispatch(action, watchedBy: chain, on: thread) }
        }
        var wakes = FluxWakes<FluxWake>.none
        var passage = FluxPassage()
        let revision = applyInDetail(.action(action), waking: &wakes, through: &passage)
        passage.finish(wakes)
        return revision == 0 ? nil : revision
    }

    /// Dispatches with hooks and nothing else, which is to be quick.
    @inlinable @inline(__always)
    func dispatch(
        _ action: State.Action, watchedBy chain: FluxChain,
        on thread: UnsafeMutablePointer<FluxThread>
    ) -> UInt64? {
        let start = fluxNow()
        let (applied, isDelivered) = lock.withLock { machine in
            thread.pointee.handling = UnsafeRawPointer(fluxIdentity: self)
            defer { thread.pointee.handling = nil }
            return (machine.apply(action), !machine.entries.isEmpty)
        }
        let end = fluxNow()
        if isDelivered, let revision = applied.revision { stamp(revision, at: end) }
        applied.wakes.forEach { $0.wake() }
        let info = FluxStoreInfo(core: self, stateType: State.self)
        chain.tellApplied(action, to: info, revision: applied.revision, in: end - start)
        return applied.revision
    }

    /// Applies a step, records it for the histories and keeps a note of it for those who look on.
    @inlinable @inline(never)
    func applyInDetail(
        _ step: FluxStep<State>, waking wakes: inout FluxWakes<FluxWake>, through passage: inout FluxPassage
    ) -> UInt64 {
        let detours = detours.load(ordering: .relaxed)
        let resident = residentIfAny
        let chain = detours & FluxDetours.hooks == 0 ? nil : resident?.chain
        let histories = detours & FluxDetours.history == 0 ? [] : resident?.histories ?? []
        let thread = threads.current
        let isTimed = passage.isWatched || chain != nil
        let start = isTimed ? fluxNow() : 0
        // What a history forgets is the user's: it is let go of outside the lock.
        var forgotten: ContiguousArray<FluxHistoryMachine<State>.Forgotten> = []
        let (applied, state) = lock.withLock { machine in
            thread.pointee.handling = UnsafeRawPointer(fluxIdentity: self)
            defer { thread.pointee.handling = nil }
            let applied = machine.apply(step)
            for history in histories {
                let book = unsafeDowncast(history, to: FluxHistoryBook<State>.self)
                forgotten.append(book.record(step, machine.state, machine.revision))
            }
            return (applied, passage.wantsStates && applied.revision != nil ? machine.state : nil)
        }
        let end = isTimed ? fluxNow() : 0
        applied.wakes.forEach { wakes.append($0) }
        if isTimed {
            if chain != nil, let revision = applied.revision { resident?.stamp(revision, at: end) }
            passage.note = FluxNote(
                action: step.action, store: FluxStoreInfo(core: self, stateType: State.self),
                revision: applied.revision ?? 0, duration: end - start, state: state, chain: chain,
                previous: fluxTake(&passage.note))
        }
        return applied.revision ?? 0
    }

    /// Tells those who look on that the subscriptions on one queue got some changes.
    @inlinable @inline(__always)
    func tellDelivered(_ count: Int, from first: UInt64) {
        if count == 0 || detours.load(ordering: .relaxed) & FluxDetours.hooks == 0 { return }
        residentIfAny?.tellDelivered(self, revision: first &+ UInt64(count - 1), count: count)
    }

    /// Tells those who look on that a subscription lost some changes.
    @inlinable @inline(__always)
    func tellDropped(_ count: Int) {
        if count == 0 || detours.load(ordering: .relaxed) & FluxDetours.hooks == 0 { return }
        residentIfAny?.tellDropped(self, count: count)
    }
}

nonisolated extension FluxStoreMachine {
    @inlinable
    mutating func apply(_ step: FluxStep<State>) -> Applied {
        switch step {
        case .action(let action): apply(action)
        case .reaction(_, let body): change(body)
        }
    }
}
