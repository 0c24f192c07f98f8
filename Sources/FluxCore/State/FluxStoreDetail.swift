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

    /// Applies an action that comes by way of a dispatcher, with somebody looking on, or with more to it.
    @inlinable @inline(never)
    func applyInDetail(
        _ action: State.Action, waking wakes: inout FluxWakes<FluxWake>, through passage: inout FluxPassage
    ) -> UInt64 {
        guard let watch = passage.watch, watch.pointee.hasRoom, detours.load(ordering: .relaxed) == 0 else {
            return applyInDetail(.action(action), waking: &wakes, through: &passage)
        }
        let start = fluxNow()
        let applied = apply(action, on: threads.current)
        let end = fluxNow()
        applied.wakes.forEach { wakes.append($0) }
        let revision = applied.revision ?? 0
        watch.pointee.note(
            FluxStoreInfo(core: self, stateType: State.self), revision: revision, duration: end - start)
        return revision
    }

    /// Applies a step, records it for the histories and keeps a note of it for those who look on.
    @inlinable @inline(never)
    func applyInDetail(
        _ step: FluxStep<State>, waking wakes: inout FluxWakes<FluxWake>, through passage: inout FluxPassage
    ) -> UInt64 {
        let detours = detours.load(ordering: .relaxed)
        let resident = residentIfAny
        let chain = detours & FluxDetours.hooks == 0 ? nil : resident?.chain
        let histories = histories
        let thread = threads.current
        let isTimed = passage.watch != nil || chain != nil
        let start = isTimed ? fluxNow() : 0
        var outcome = FluxStepOutcome<State>()
        let (applied, state) = lock.withLock { machine in
            let applied = take(step, &machine, histories, on: thread, &outcome)
            let isWanted = passage.watch?.pointee.wantsStates == true && applied?.revision != nil
            return (applied, isWanted ? machine.state : nil)
        }
        outcome.startWriter(of: self)
        guard let applied else { return 0 }
        let end = isTimed ? fluxNow() : 0
        applied.wakes.forEach { wakes.append($0) }
        for tap in outcome.taps { wakes.append(FluxWake(tap) { unsafeDowncast($0, to: FluxActionTap.self).wake() }) }
        if isTimed {
            // What is noted apart comes after what has room there.
            passage.watch?.pointee.hasRoom = false
            if chain != nil, let revision = applied.revision { resident?.stamp(revision, at: end) }
            passage.note = FluxNote(
                action: step.action, store: FluxStoreInfo(core: self, stateType: State.self),
                revision: applied.revision ?? 0, duration: end - start, state: state, chain: chain,
                previous: fluxTake(&passage.note))
        }
        return applied.revision ?? 0
    }

    /// Takes a step with the lock held, or holds it back while the state is being loaded: then it returns nil.
    @inlinable
    func take(
        _ step: FluxStep<State>, _ machine: inout Machine, _ histories: FluxHistories,
        on thread: UnsafeMutablePointer<FluxThread>, _ outcome: inout FluxStepOutcome<State>
    ) -> Machine.Applied? {
        guard detours.load(ordering: .relaxed) & FluxDetours.kept != 0, let keeper else {
            return record(step, &machine, histories, on: thread, &outcome)
        }
        return keeper.lock.withLock { kept in
            if kept.hold.keep(step) { return nil }
            return takeAndNote(step, &machine, &kept, histories, on: thread, &outcome)
        }
    }

    /// Takes a step and notes it, with both locks held: what is written is in the order of what was applied.
    @inlinable
    func takeAndNote(
        _ step: FluxStep<State>, _ machine: inout Machine, _ kept: inout FluxKeeper<State>.Machine,
        _ histories: FluxHistories, on thread: UnsafeMutablePointer<FluxThread>,
        _ outcome: inout FluxStepOutcome<State>
    ) -> Machine.Applied {
        let applied = record(step, &machine, histories, on: thread, &outcome)
        let startsWriter =
            switch step {
            // A change that nobody was told of can wait to be saved with the next; a log has to have every action.
            case .action(let action):
                (kept.writing.isLog || applied.revision != nil) && kept.writing.note(action)
            case .reaction: applied.revision != nil && kept.writing.noteChange()
            }
        if startsWriter { outcome.startsWriter = true }
        return applied
    }

    /// Applies a step, with the lock held, and records it for the histories.
    @inlinable
    func record(
        _ step: FluxStep<State>, _ machine: inout Machine, _ histories: FluxHistories,
        on thread: UnsafeMutablePointer<FluxThread>, _ outcome: inout FluxStepOutcome<State>
    ) -> Machine.Applied {
        thread.pointee.handling = UnsafeRawPointer(fluxIdentity: self)
        defer { thread.pointee.handling = nil }
        let applied = machine.apply(step, on: thread)
        // The part of a command that was left alone: there is nothing to take back, and nothing was applied.
        if case .reaction = step, applied.revision == nil { return applied }
        for history in histories {
            let book = unsafeDowncast(history, to: FluxHistoryBook<State>.self)
            outcome.forgotten.append(book.record(step, machine.state, machine.revision))
        }
        if isTapped { tellTaps(step.action, revision: applied.revision, &outcome.taps) }
        return applied
    }

    /// Makes a change that a command makes; it passes no middleware.
    func change(_ step: FluxCommandStep<State>) {
        let thread = threads.current
        if thread.pointee.handling != nil { fluxStopImpureHandle("run") }
        chainIfWatched?.tellDispatched(step, on: thread)
        var wakes = FluxWakes<FluxWake>.none
        var passage = FluxPassage()
        _ = applyInDetail(.reaction(step, step.body), waking: &wakes, through: &passage)
        passage.finish(wakes)
    }

    /// The histories that record what the store applies.
    @usableFromInline var histories: FluxHistories {
        detours.load(ordering: .relaxed) & FluxDetours.history == 0 ? [] : residentIfAny?.histories ?? []
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

@usableFromInline typealias FluxHistories = ContiguousArray<any AnyObject & Sendable>

/// What steps leave to be done once no lock is held.
@usableFromInline
nonisolated struct FluxStepOutcome<State: FluxState> {
    /// What a history forgets is the user's: it is let go of outside the lock.
    @usableFromInline var forgotten: ContiguousArray<FluxHistoryMachine<State>.Forgotten> = []
    @usableFromInline var startsWriter = false
    /// Those who were told of the action, and are to be woken.
    @usableFromInline var taps: ContiguousArray<FluxActionTap> = []

    @inlinable
    init() {}

    /// By way of a queue: the lock of a dispatcher may be held, and under that no task is made.
    @inlinable
    func startWriter(of core: FluxStoreCore<State>) {
        if startsWriter { core.startWriterSoon() }
    }
}

nonisolated extension FluxStoreMachine {
    @inlinable
    mutating func apply(_ step: FluxStep<State>, on thread: UnsafeMutablePointer<FluxThread>) -> Applied {
        switch step {
        case .action(let action): return apply(action)
        case .reaction(_, let body):
            thread.pointee.changedNothing = false
            return change(body) { !thread.pointee.changedNothing }
        }
    }
}
