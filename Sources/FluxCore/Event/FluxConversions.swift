import Dispatch

/// What the events of a creator are converted with.
@usableFromInline
nonisolated final class FluxConversions<Converter: FluxActionConverter>: Sendable {
    @usableFromInline let control: FluxControl
    private let onFailure: (@Sendable (any Error, Converter.Event) -> Void)?
    @usableFromInline let rules: [FluxRule<Converter.Event>]
    @usableFromInline let send: @Sendable (Converter.Action) -> Void
    /// Calls the converter, as the client's module has specialised it.
    let run: @Sendable (FluxConversion<Converter>, DispatchQueue) -> Void
    @usableFromInline let isAsync: Bool
    @usableFromInline let dependency: Converter.Dependency

    @usableFromInline
    init(
        dependency: Converter.Dependency,
        rules: [FluxRule<Converter.Event>],
        clock: any _Concurrency.Clock<Swift.Duration>,
        onFailure: (@Sendable (any Error, Converter.Event) -> Void)?,
        send: @escaping @Sendable (Converter.Action) -> Void,
        run: @escaping @Sendable (FluxConversion<Converter>, DispatchQueue) -> Void
    ) {
        self.dependency = dependency
        self.rules = rules
        self.onFailure = onFailure
        self.send = send
        let runAsync = fluxAsyncRun(Converter.self)
        self.run = runAsync ?? run
        isAsync = runAsync != nil
        if !isAsync && rules.contains(where: { $0.isRetry }) {
            fatalError(
                """
                FluxCore: a rule .retry was given to a creator of \(Converter.self), which cannot throw: a callback \
                converter reports failures as actions. Make it a FluxAsyncActionConverter, or leave the rule out.
                """)
        }
        control = FluxControl(rules: rules.map { $0.erased(Converter.self) }, clock: clock)
    }

    @inlinable
    func fire(_ event: Converter.Event, on queue: DispatchQueue?, parent: FluxTask? = nil) -> FluxTask {
        // Asked for before any lock is taken: keys are the user's code.
        let keys = rules.isEmpty ? [] : rules.map { rule in rule.key(event).map { AnyHashable($0) } }
        let task = control.makeTask(count: 1, parent: parent)
        control.fire(FluxConversion(self, task, event, []), task, keys, on: queue)
        return task
    }

    @inlinable
    func fire(_ events: [Converter.Event], on queue: DispatchQueue?) -> FluxTask {
        if !events.isEmpty && rules.isEmpty && !isAsync {
            let task = control.makeTask(count: events.count, parent: nil)
            control.fire(FluxConversion(self, task, events[0], events), task, [], on: queue)
            return task
        }
        let whole = FluxTask(of: events.count)
        for event in events { whole.add(fire(event, on: queue, parent: whole)) }
        return whole
    }

    deinit {
        control.letGo()
    }

    /// Tells of an error; one that nobody would get to know is written to the standard error output.
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
