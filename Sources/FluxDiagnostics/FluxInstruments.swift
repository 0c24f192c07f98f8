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
        // Before all middleware it is told what was dispatched, behind all what became of that.
        let back = add(FluxAppliedInstrument(instrumentation: instrumentation), priority: .min)
        let front = add(FluxDispatchedInstrument(instrumentation: instrumentation), priority: .max)
        return FluxRegistration {
            front.remove()
            back.remove()
        }
    }
}

nonisolated extension FluxStore {
    /// Lets somebody look at what this store applies, wherever it comes from, and at the events of creators that send here.
    ///
    /// - Parameter instrumentation: Who is told.
    /// - Returns: What to end it by; letting go of that ends nothing.
    @inlinable @discardableResult
    public func instrument(_ instrumentation: some FluxInstrumentation) -> FluxRegistration {
        let observer = FluxStoreInstrument(handle, instrumentation)
        handle.withAccess { $0.observe(observer) }
        return FluxRegistration { [handle] in handle.withAccess { $0.remove(observer) } }
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

    @usableFromInline func retried(_ event: any FluxEvent, attempt: Int, _ error: any Error, _ task: FluxTask) {
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
        let times = FluxLock(FluxDispatchTimes())
        let telling = next.telling { store, revision, _ in times.withLock { $0.note(store, revision) } }
        let announced = telling(action)
        var applied = times.withLock { $0.applied }
        applied.updateEach { time in
            // Where this is a child, those behind come up as well.
            if time.store.dispatcher !== dispatcher { return }
            instrumentation.applied(
                action, to: time.store, revision: time.revision, in: .nanoseconds(Int64(time.duration)))
        }
        return announced
    }
}

/// When each store has applied the action of one dispatch.
nonisolated private struct FluxDispatchTimes {
    private var last = fluxNow()
    private(set) var applied = FluxList<(store: FluxStoreInfo, revision: UInt64?, duration: UInt64)>()

    init() {}

    mutating func note(_ store: FluxStoreInfo, _ revision: UInt64?) {
        let now = fluxNow()
        applied.insert((store, revision, now &- last), id: UInt64(applied.count + 1))
        last = now
    }
}
