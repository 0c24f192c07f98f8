import Dispatch

/// The events of one `fire` being converted: they have finished once nobody holds this any longer.
@usableFromInline
nonisolated final class FluxConversion<Converter: FluxActionConverter>: FluxConverting {
    @usableFromInline let conversions: FluxConversions<Converter>
    @usableFromInline let task: FluxTask
    /// The event; the first of several.
    ///
    /// No enum and no optional: the end of each conversion would have to look up its metadata, for a third of all.
    @usableFromInline let event: Converter.Event
    /// All of them if there are several.
    @usableFromInline let events: [Converter.Event]

    @inlinable
    init(
        _ conversions: FluxConversions<Converter>,
        _ task: FluxTask,
        _ event: Converter.Event,
        _ events: [Converter.Event]
    ) {
        self.conversions = conversions
        self.task = task
        self.event = event
        self.events = events
    }

    deinit {
        task.end(.completed)
    }

    @usableFromInline
    func begin(on queue: DispatchQueue) {
        if task.start() { conversions.run(self, queue) }
    }

    /// Calls a converter of the callback form; the handler is this object, which lives as long as the converter keeps it.
    @inlinable
    func run() {
        if events.isEmpty { return convert(event) }
        for event in events where !task.hasEnded { convert(event) }
    }

    @inlinable
    func convert(_ event: Converter.Event) {
        Converter.convert(event: event, dependency: conversions.dependency) { self.send($0) }
    }

    @usableFromInline
    func send(_ action: Converter.Action) {
        if task.send({ conversions.send(action) }) || task.isCancelled { return }
        conversions.report(FluxLateAction(action: "\(action)"), event)
    }

    @usableFromInline
    func report(_ error: any Error) {
        conversions.report(error, event)
    }
}

/// How to call a converter if it is asynchronous; nil if it is not.
nonisolated func fluxAsyncRun<Converter: FluxActionConverter>(
    _ type: Converter.Type
) -> (@Sendable (FluxConversion<Converter>, DispatchQueue) -> Void)? {
    guard let type = type as? any FluxAsyncActionConverter.Type else { return nil }
    func open<Async: FluxAsyncActionConverter>(
        _ type: Async.Type
    ) -> @Sendable (FluxConversion<Converter>, DispatchQueue) -> Void {
        // The same type under the name that tells more of it.
        { conversion, queue in unsafeDowncast(conversion, to: FluxConversion<Async>.self).runAsync(on: queue) }
    }
    return open(type)
}

nonisolated extension FluxConversion where Converter: FluxAsyncActionConverter {
    /// Calls the converter, again and again where a rule says so, in a Swift task that starts at once.
    func runAsync(on queue: DispatchQueue) {
        let work = fluxStartTask(on: queue) {
            let runner = withUnsafeCurrentTask { $0?.hashValue } ?? 0
            await FluxTask.$conversion.withValue(FluxTask.Conversion(task: self.task, runner: runner)) {
                await self.attempts()
            }
        }
        task.begin(work)
    }

    private func attempts() async {
        var attempt = 1
        while true {
            do {
                try await Converter.convert(event: event, dependency: conversions.dependency) { self.send($0) }
                task.end(.completed)
                return
            } catch {
                if task.hasEnded { return }
                guard let delay = conversions.delay(after: attempt, event) else { return fail(error) }
                task.retry(after: attempt, error)
                // Cut short only by the end of the task.
                try? await conversions.control.clock.sleep(for: delay)
                if task.hasEnded { return }
                attempt += 1
            }
        }
    }

    private func fail(_ error: any Error) {
        let action = Converter.action(for: error, event: event)
        if let action { send(action) }
        if task.end(.failed(error)) { conversions.report(error, event, isHandled: action != nil) }
    }
}
