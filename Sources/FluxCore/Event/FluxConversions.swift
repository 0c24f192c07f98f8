import Dispatch

/// What the events of a creator are converted with.
@usableFromInline
nonisolated final class FluxConversions<Converter: FluxActionConverter>: FluxConverting {
    @usableFromInline typealias Failure = @Sendable (_ error: any Error, _ event: Converter.Event) -> Void
    /// Calls the converter with what a task has loaded.
    @usableFromInline typealias Run = @Sendable (FluxConversions, Unmanaged<FluxTask>, inout AnyObject?) -> Void

    @usableFromInline let control: FluxControl
    private let onFailure: Failure?
    @usableFromInline let rules: [FluxRule<Converter.Event>]
    /// The hooks where the actions go; nil if nobody watches.
    @usableFromInline let watchers: @Sendable () -> FluxChain?
    @usableFromInline let send: FluxCall<Converter.Action>
    private let run: Run
    @usableFromInline let isAsync: Bool
    private let isOfRuns: Bool
    @usableFromInline let dependency: Converter.Dependency

    /// - Parameters:
    ///   - dependency: What the converter needs from outside.
    ///   - rules: Which events run, wait or go.
    ///   - clock: What durations are measured with.
    ///   - onFailure: Gets each error.
    ///   - watchers: Who looks on where the actions go.
    ///   - send: Dispatches an action.
    ///   - run: Calls the converter, as the client's module has specialised it.
    @usableFromInline
    init(
        dependency: Converter.Dependency,
        rules: [FluxRule<Converter.Event>],
        clock: any _Concurrency.Clock<Swift.Duration>,
        onFailure: Failure?,
        watchers: @escaping @Sendable () -> FluxChain?,
        send: @escaping @Sendable (Converter.Action) -> Void,
        run: @escaping Run
    ) {
        self.dependency = dependency
        self.rules = rules
        self.onFailure = onFailure
        self.watchers = watchers
        self.send = FluxCall(send)
        self.run = run
        isAsync = Converter.self is any FluxAsyncActionConverter.Type
        isOfRuns = Converter.Event.self is any FluxRun.Type
        control = FluxControl(rules: rules.map { $0.erased() }, clock: clock)
        fluxRequire(
            isAsync || !rules.contains { $0.isRetry },
            """
            a rule .retry was given to a creator of \(Converter.self), whose callback form cannot throw. Make it a \
            FluxAsyncActionConverter, or leave the rule out.
            """)
    }

    deinit {
        control.letGo()
    }

    // MARK: - Firing

    @inlinable
    func fire(_ event: Converter.Event, on queue: DispatchQueue?, parent: FluxTask? = nil) -> FluxTask {
        // Asked for before any lock is taken: keys are the user's code.
        let keys = rules.isEmpty ? [] : rules.map { rule in rule.key(event).map { AnyHashable($0) } }
        let origin = watchers().map { $0.tellFired(shown(event)) } ?? 0
        return control.fire(event, count: 1, parent, keys, self, on: queue, origin: origin)
    }

    @inlinable
    func fire(_ events: [Converter.Event], on queue: DispatchQueue?) -> FluxTask {
        if events.count == 1 { return fire(events[0], on: queue) }
        if !events.isEmpty && rules.isEmpty && !isAsync && watchers() == nil {
            return control.fire(events, count: events.count, nil, [], self, on: queue, origin: 0)
        }
        let whole = FluxTask(of: events.count)
        for event in events { whole.add(fire(event, on: queue, parent: whole)) }
        return whole
    }

    // MARK: - Converting

    @usableFromInline
    func begin(_ task: Unmanaged<FluxTask>, _ spare: inout AnyObject?) {
        run(self, task, &spare)
    }

    /// Calls a callback converter.
    ///
    /// Most have let go of their handler when they return: then the next event gets the same one.
    @inlinable
    func convert(_ task: Unmanaged<FluxTask>, _ spare: inout AnyObject?) {
        let (event, isOne) = task._withUnsafeGuaranteedRef { ($0.unload(), $0.count == 1) }
        var handler = fluxTake(&spare).map { unsafeDowncast($0, to: FluxHandler<Converter>.self) } ?? FluxHandler(self)
        handler.task = task
        if isOne {
            handler.convert(fluxRead(event, as: Converter.Event.self))
        } else {
            for event in fluxRead(event, as: [Converter.Event].self) where !handler.hasEnded { handler.convert(event) }
        }
        if isKnownUniquelyReferenced(&handler) {
            handler.end()
            spare = handler
        }
    }

    /// An event as hooks are told of it: a command rather than a run of it.
    @usableFromInline
    func shown(_ event: Converter.Event) -> any FluxEvent {
        isOfRuns ? (event as? any FluxRun)?.shown ?? event : event
    }

    // MARK: - Failing

    @usableFromInline
    func report(_ error: any Error, on event: any Sendable) {
        report(error, fluxRead(event, as: Converter.Event.self))
    }

    /// Tells of an error; one that nobody would get to know is written to the standard error output.
    @usableFromInline
    func report(_ error: any Error, _ event: Converter.Event, isHandled: Bool = false) {
        if let onFailure { return onFailure(error, event) }
        if !isHandled { fluxWarn("\(Converter.self) failed with \(error), and its creator has no onFailure.") }
    }

    /// How long to wait before an event is tried again; nil: it is not.
    func delay(after attempt: Int, _ event: Converter.Event) -> Swift.Duration? {
        for rule in rules {
            guard case .retry(let limit, let backoff) = rule.kind, rule.key(event) != nil else { continue }
            return attempt <= limit ? backoff.delay(after: attempt, chance: .random(in: 0...1)) : nil
        }
        return nil
    }
}

nonisolated extension FluxConversions where Converter: FluxAsyncActionConverter {
    /// Calls an asynchronous converter.
    @inlinable
    func convertAsync(_ task: Unmanaged<FluxTask>, on executor: AnyObject?) {
        let event = task._withUnsafeGuaranteedRef { $0.unload() }
        FluxAsyncRun(self, task, fluxRead(event, as: Converter.Event.self)).start(on: executor)
    }
}
