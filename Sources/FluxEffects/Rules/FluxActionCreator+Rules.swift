#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxActionCreator {
    /// Makes a creator with rules, whose actions go wherever a closure takes them.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - rules: Which events wait, replace others or are tried again, in this order.
    ///   - clock: What durations are measured with, those of the rules too; its `now` is read under a lock, and uses no store.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    ///   - observers: Who is told of events, such as instrumentation: of a store `{ store.handle.eventObservers }`; by default nobody.
    ///   - send: Takes an action to where it is to be applied, and returns when it is (C2).
    @inlinable
    public convenience init(
        dependency: Converter.Dependency,
        rules: [FluxRule<Converter.Event>],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil,
        observers: @escaping @Sendable () -> ContiguousArray<any FluxEventObserver> = { [] },
        sending send: @escaping @Sendable (Converter.Action) -> Void
    ) {
        self.init(
            dependency: dependency, schedulers: Converter.schedulers(rules, clock), clock: clock, onFailure: onFailure,
            observers: observers, sending: send)
    }

    /// Makes a creator with rules, whose actions go to a dispatcher or to what takes its place.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - rules: Which events wait, replace others or are tried again, in this order.
    ///   - clock: What durations are measured with, those of the rules too; its `now` is read under a lock, and uses no store.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable
    public convenience init(
        dependency: Converter.Dependency,
        dispatcher: some FluxDispatching = FluxDispatcher.shared,
        rules: [FluxRule<Converter.Event>],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) {
        self.init(
            dependency: dependency, dispatcher: dispatcher, schedulers: Converter.schedulers(rules, clock),
            clock: clock, onFailure: onFailure)
    }

    /// Makes a creator with rules, whose actions go straight to one store.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - store: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - rules: Which events wait, replace others or are tried again, in this order.
    ///   - clock: What durations are measured with, those of the rules too; its `now` is read under a lock, and uses no store.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable
    public convenience init<State>(
        dependency: Converter.Dependency,
        store: FluxStore<State>,
        rules: [FluxRule<Converter.Event>],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) where State.Action == Converter.Action {
        self.init(
            dependency: dependency, store: store, schedulers: Converter.schedulers(rules, clock), clock: clock,
            onFailure: onFailure)
    }

    /// Makes a creator with rules that needs no dependency, whose actions go to a dispatcher or to what takes its place.
    ///
    /// - Parameters:
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - rules: Which events wait, replace others or are tried again, in this order.
    ///   - clock: What durations are measured with, those of the rules too; its `now` is read under a lock, and uses no store.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable
    public convenience init(
        dispatcher: some FluxDispatching = FluxDispatcher.shared,
        rules: [FluxRule<Converter.Event>],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) where Converter.Dependency == Void {
        self.init(dependency: (), dispatcher: dispatcher, rules: rules, clock: clock, onFailure: onFailure)
    }

    /// Makes a creator with rules that needs no dependency, whose actions go straight to one store.
    ///
    /// - Parameters:
    ///   - store: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - rules: Which events wait, replace others or are tried again, in this order.
    ///   - clock: What durations are measured with, those of the rules too; its `now` is read under a lock, and uses no store.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable
    public convenience init<State>(
        store: FluxStore<State>,
        rules: [FluxRule<Converter.Event>],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) where Converter.Dependency == Void, State.Action == Converter.Action {
        self.init(dependency: (), store: store, rules: rules, clock: clock, onFailure: onFailure)
    }
}

nonisolated extension FluxActionConverter {
    /// What applies rules to the events of a creator; without rules nothing has to.
    @usableFromInline
    static func schedulers(
        _ rules: [FluxRule<Event>], _ clock: any _Concurrency.Clock<Swift.Duration>
    ) -> [any FluxScheduler] {
        // Only the callback form, which cannot throw, lets events share a conversion.
        if sharesConversions && rules.contains(where: \.form.isRetry) {
            fatalError(
                """
                FluxCore: a rule .retry was given to a creator of \(Self.self), whose callback form cannot throw. Make it a \
                FluxAsyncActionConverter, or leave the rule out.
                """)
        }
        return rules.isEmpty ? [] : [FluxRules(rules, clock: clock)]
    }
}
