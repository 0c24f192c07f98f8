#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxDispatcher {
    /// Lets somebody look at what happens on this dispatcher.
    ///
    /// Of what a child sees, that child tells.
    ///
    /// - Parameter instrumentation: Who is told.
    /// - Returns: What to end it by; letting go of that ends nothing.
    @discardableResult
    public func instrument(_ instrumentation: some FluxInstrumentation) -> FluxRegistration {
        // At the front it is told what was dispatched, and at the back what became of that. Of those with the same priority the one
        // that was added first comes first. The front is there for longer, so that nothing is applied that was not dispatched.
        let front = add(FluxDispatchedInstrument(instrumentation: instrumentation), priority: .max)
        let back = add(FluxAppliedInstrument(instrumentation: instrumentation), priority: .min)
        return FluxRegistration {
            back.remove()
            front.remove()
        }
    }
}

nonisolated extension FluxStore {
    /// Lets somebody look at what this store applies, wherever it comes from, and at the events of creators that send here.
    ///
    /// - Parameter instrumentation: Who is told.
    /// - Returns: What to end it by; letting go of that ends nothing. Until then it keeps the state in memory, and the store not.
    @inlinable @discardableResult
    public func instrument(_ instrumentation: some FluxInstrumentation) -> FluxRegistration {
        let observer = FluxStoreInstrument(handle, instrumentation)
        handle.withAccess { $0.observe(observer) }
        let kept = FluxLock<(handle: FluxStoreHandle<State>, observer: FluxStoreInstrument<State>)?>((handle, observer))
        return FluxRegistration {
            let gone = kept.withLock { Swift.exchange(&$0, with: nil) }
            if let (handle, observer) = gone { handle.withAccess { $0.remove(observer) } }
        }
    }
}

// MARK: - Events

/// Tells of the events of creators.
@usableFromInline nonisolated protocol FluxEventInstrument: FluxEventObserver {
    var instrumentation: any FluxInstrumentation { get }
}

nonisolated extension FluxEventInstrument {
    @usableFromInline func fired(_ event: any FluxEvent, _ task: FluxTask) {
        instrumentation.fired(event, origin: FluxOrigin(task))
    }

    @usableFromInline func retried(_ event: any FluxEvent, attempt: Int, _ error: any Swift.Error, _ task: FluxTask) {
        instrumentation.retried(event, attempt: attempt, error: error, origin: FluxOrigin(task))
    }

    @usableFromInline func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask) {
        if let error = outcome.error { instrumentation.failed(event, error: error, origin: FluxOrigin(task)) }
    }
}

// MARK: - A dispatcher

/// Tells of each action that is dispatched.
nonisolated private struct FluxDispatchedInstrument: FluxDispatchInterceptor, FluxEventInstrument {
    let instrumentation: any FluxInstrumentation

    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        instrumentation.dispatched(action, origin: next.origin.map { FluxOrigin($0) })
        return next(action)
    }
}

/// Tells what became of each action in the stores, with what middleware made of it.
nonisolated private struct FluxAppliedInstrument: FluxDispatchInterceptor {
    let instrumentation: any FluxInstrumentation

    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        // Noted under the locks, and told once none is held.
        let times = FluxTimes()
        let announced = next.telling { store, revision, _ in times.note(store, revision) }(action)
        times.each { applied in
            // Where this is a child, those behind come up as well. One that has left or moved by now is told of by each on the way.
            // The place is looked at last: one that moves in between is told of.
            let current = applied.store.dispatcher
            if let current, current !== dispatcher, applied.store.place == applied.place { return }
            instrumentation.applied(
                action, to: applied.store, revision: applied.revision, in: .nanoseconds(Int64(applied.duration)))
        }
        return announced
    }
}

/// What the stores of one dispatch took.
nonisolated private final class FluxTimes: Sendable {
    /// The first is kept by itself, for there is often one alone, and an array would have to be allocated.
    private let noted = FluxLock((last: fluxNow(), first: FluxApplied?.none, more: ContiguousArray<FluxApplied>()))

    func note(_ store: FluxStoreInfo, _ revision: UInt64?) {
        noted.withLock { noted in
            // With the lock held: of two stores whose dispatchers apply it at once the later one has the later time.
            let now = fluxNow()
            let applied = FluxApplied(store: store, place: store.place, revision: revision, duration: now &- noted.last)
            if noted.first == nil { noted.first = applied } else { noted.more.append(applied) }
            noted.last = now
        }
    }

    func each(_ body: (FluxApplied) -> Void) {
        let noted = noted.withLock { $0 }
        if let first = noted.first { body(first) }
        noted.more.forEach(body)
    }
}

/// How long a store took for the action of one dispatch, in nanoseconds, and what came of it.
nonisolated private struct FluxApplied {
    let store: FluxStoreInfo
    /// Where it was then.
    let place: UInt64
    let revision: UInt64?
    let duration: UInt64
}
