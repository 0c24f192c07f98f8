#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxActionCreator {
    /// Creates an action creator with rules that sends its actions through a closure.
    ///
    /// - Parameters:
    ///   - dependency: The dependency that the converter needs from outside. Every conversion gets it.
    ///   - rules: The rules that decide which events wait, replace others or are retried. They apply in this order.
    ///   - clock: The clock that measures durations, including those of the rules. Its `now` is read while a lock is
    ///     held and must not use a store.
    ///   - onFailure: Receives each error that a conversion ended with, and its event.
    ///   - observers: Returns the observers of events, such as instrumentation; none by default. Give
    ///     `{ dispatcher.interceptors }` for those of a dispatcher, `{ store.handle.eventObservers }` for a store's.
    ///   - send: Takes an action to where it is applied, and returns once it has been applied (C2).
    @inlinable
    public convenience init(
        dependency: Converter.Dependency,
        rules: [FluxRule<Converter.Event>],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil,
        observers: @escaping @Sendable () -> [any FluxEventObserver] = { [] },
        sending send: @escaping @Sendable (Converter.Action) -> Void
    ) {
        self.init(
            dependency: dependency, schedulers: Converter.schedulers(rules, clock), clock: clock, onFailure: onFailure,
            observers: observers, sending: send)
    }

    /// Creates an action creator with rules that sends its actions to a dispatcher or another `FluxDispatching`.
    ///
    /// - Parameters:
    ///   - dependency: The dependency that the converter needs from outside. Every conversion gets it.
    ///   - dispatcher: The destination of the actions. The creator and its events in flight keep it alive. Only the
    ///     interceptors of a `FluxDispatcher` are notified of the events.
    ///   - rules: The rules that decide which events wait, replace others or are retried. They apply in this order.
    ///   - clock: The clock that measures durations, including those of the rules. Its `now` is read while a lock is
    ///     held and must not use a store.
    ///   - onFailure: Receives each error that a conversion ended with, and its event.
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

    /// Creates an action creator with rules that sends its actions straight to one store.
    ///
    /// - Parameters:
    ///   - dependency: The dependency that the converter needs from outside. Every conversion gets it.
    ///   - store: The destination of the actions. The creator and its events in flight keep it alive.
    ///   - rules: The rules that decide which events wait, replace others or are retried. They apply in this order.
    ///   - clock: The clock that measures durations, including those of the rules. Its `now` is read while a lock is
    ///     held and must not use a store.
    ///   - onFailure: Receives each error that a conversion ended with, and its event.
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

    /// Creates an action creator with rules and no dependency that sends to a dispatcher or another `FluxDispatching`.
    ///
    /// - Parameters:
    ///   - dispatcher: The destination of the actions. The creator and its events in flight keep it alive. Only the
    ///     interceptors of a `FluxDispatcher` are notified of the events.
    ///   - rules: The rules that decide which events wait, replace others or are retried. They apply in this order.
    ///   - clock: The clock that measures durations, including those of the rules. Its `now` is read while a lock is
    ///     held and must not use a store.
    ///   - onFailure: Receives each error that a conversion ended with, and its event.
    @inlinable
    public convenience init(
        dispatcher: some FluxDispatching = FluxDispatcher.shared,
        rules: [FluxRule<Converter.Event>],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) where Converter.Dependency == Void {
        self.init(dependency: (), dispatcher: dispatcher, rules: rules, clock: clock, onFailure: onFailure)
    }

    /// Creates an action creator with rules and no dependency that sends its actions straight to one store.
    ///
    /// - Parameters:
    ///   - store: The destination of the actions. The creator and its events in flight keep it alive.
    ///   - rules: The rules that decide which events wait, replace others or are retried. They apply in this order.
    ///   - clock: The clock that measures durations, including those of the rules. Its `now` is read while a lock is
    ///     held and must not use a store.
    ///   - onFailure: Receives each error that a conversion ended with, and its event.
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
    /// Returns the scheduler that applies rules to the events of a creator; none if there are no rules.
    @usableFromInline
    static func schedulers(
        _ rules: [FluxRule<Event>], _ clock: any _Concurrency.Clock<Swift.Duration>
    ) -> [any FluxScheduler] {
        // Only converters of the callback form, which cannot throw, share conversions.
        fluxEffectsRequire(
            !sharesConversions || !rules.contains(where: \.form.isRetry),
            """
            a creator of \(Self.self) has a rule .retry, but a converter of the callback form cannot throw. Make it a \
            FluxAsyncActionConverter, or remove the rule.
            """)
        return rules.isEmpty ? [] : [FluxRules(rules, clock: clock)]
    }
}
