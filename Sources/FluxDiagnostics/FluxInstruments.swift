#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxDispatcher {
    /// Adds instrumentation for what happens on this dispatcher.
    ///
    /// What a child dispatcher does is not reported here, but by instrumentation of that child.
    ///
    /// - Parameter instrumentation: The instrumentation to add.
    /// - Returns: A registration, to remove the instrumentation. Releasing it removes nothing.
    @discardableResult
    public func instrument(_ instrumentation: some FluxInstrumentation) -> FluxRegistration {
        // The front reports what was dispatched, and the back reports the results. Among interceptors with the same
        // priority, the one that was added first comes first. The front is added first and removed last, so that no
        // action is reported as applied without having been reported as dispatched.
        let front = add(FluxDispatchedInstrument(instrumentation: instrumentation), priority: .max)
        let back = add(FluxAppliedInstrument(instrumentation: instrumentation), priority: .min)
        return FluxRegistration {
            back.remove()
            front.remove()
        }
    }
}

nonisolated extension FluxStore {
    /// Adds instrumentation for the actions that this store applies, whatever the source, and for events of creators
    /// that send here.
    ///
    /// A state that replaces another, such as a loaded one or that of an undo, is not reported.
    ///
    /// - Parameter instrumentation: The instrumentation to add.
    /// - Returns: A registration, to remove the instrumentation. Releasing it removes nothing. It keeps the state
    ///   in memory, but not the store, until `remove()` is called or it is released.
    @inlinable @discardableResult
    public func instrument(_ instrumentation: some FluxInstrumentation) -> FluxRegistration {
        let observer = FluxStoreInstrument<State>(FluxStoreInfo(handle), instrumentation)
        handle.withAccess { $0.observe(observer) }
        let kept = FluxLock<(handle: FluxStoreHandle<State>, observer: FluxStoreInstrument<State>)?>((handle, observer))
        return FluxRegistration {
            let gone = kept.withLock { Swift.exchange(&$0, with: nil) }
            if let (handle, observer) = gone { handle.withAccess { $0.remove(observer) } }
        }
    }
}

// MARK: - Events

/// Reports the events of creators.
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

/// Reports each action that is dispatched.
nonisolated private struct FluxDispatchedInstrument: FluxDispatchInterceptor, FluxEventInstrument {
    let instrumentation: any FluxInstrumentation

    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        instrumentation.dispatched(action, origin: next.origin.map { FluxOrigin($0) })
        return next(action)
    }
}

/// Reports the results of each action in the stores, with the action that middleware made of it.
nonisolated private struct FluxAppliedInstrument: FluxDispatchInterceptor {
    let instrumentation: any FluxInstrumentation

    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        // Recorded while locks are held, and reported once none is held.
        let times = FluxTimes()
        let announced = next.telling { store, revision, _ in times.note(store, revision) }(action)
        times.each { applied in
            // If this is a child, `next` also reaches stores of other dispatchers, which report these themselves. A
            // store that has left or moved by now is reported by every dispatcher on the way. The place is checked
            // last, so that a store that moves during this check is reported.
            let current = applied.store.dispatcher
            if let current, current !== dispatcher, applied.store.place == applied.place { return }
            instrumentation.applied(
                action, to: applied.store, revision: applied.revision, in: .nanoseconds(Int64(applied.duration)))
        }
        return announced
    }
}

/// The times that the stores of one dispatch took.
nonisolated private final class FluxTimes: Sendable {
    /// The first result is kept separately, because it is often the only one, and an array would need an allocation.
    private let noted = FluxLock((last: fluxNow(), first: FluxApplied?.none, more: ContiguousArray<FluxApplied>()))

    func note(_ store: FluxStoreInfo, _ revision: UInt64?) {
        noted.withLock { noted in
            // While the lock is held: if two stores apply the action at once, by different dispatchers, the later one
            // gets the later time.
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

/// The result of one dispatch in a store, and how long the store took, in nanoseconds.
nonisolated private struct FluxApplied {
    let store: FluxStoreInfo
    /// The place of the store at that time.
    let place: UInt64
    let revision: UInt64?
    let duration: UInt64
}
