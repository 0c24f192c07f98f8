/// The events of one `fire` being converted: they have finished once nobody holds this any longer.
@usableFromInline
nonisolated final class FluxConversion<Converter: FluxActionConverter>: FluxConverting {
    @usableFromInline let conversions: FluxConversions<Converter>
    @usableFromInline let task: FluxTask
    /// The event; the first of several. No enum and no optional: the end of each conversion would have to look up its
    /// metadata, for a third of the whole cost.
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
    func begin() {
        guard task.start() else { return }
        if let runAsync = conversions.runAsync { runAsync(self) } else { conversions.run(self) }
    }

    /// Calls a converter of the callback form; the handler is this object, which lives as long as the converter keeps it.
    @inlinable
    func run() {
        if events.isEmpty { return convert(event) }
        for event in events { convert(event) }
    }

    @inlinable
    func convert(_ event: Converter.Event) {
        Converter.convert(event: event, dependency: conversions.dependency) { self.send($0) }
    }

    @usableFromInline
    func send(_ action: Converter.Action) {
        if task.send({ conversions.send(action) }) || task.isCancelled { return }
        conversions.onFailure?(FluxLateAction(action: "\(action)"), event)
    }
}

/// How to call a converter if it is asynchronous; nil if it is not.
nonisolated func fluxAsyncRun<Converter: FluxActionConverter>(
    _ type: Converter.Type
) -> (@Sendable (FluxConversion<Converter>) -> Void)? {
    guard let type = type as? any FluxAsyncActionConverter.Type else { return nil }
    func open<Async: FluxAsyncActionConverter>(
        _ type: Async.Type
    ) -> @Sendable (FluxConversion<Converter>) -> Void {
        // The same type under the name that tells more of it.
        { conversion in unsafeDowncast(conversion, to: FluxConversion<Async>.self).runAsync() }
    }
    return open(type)
}

nonisolated extension FluxConversion where Converter: FluxAsyncActionConverter {
    /// Calls the converter, again and again where a rule says so, in a Swift task that starts at once.
    func runAsync() {
        let work = fluxStartTask(nil) {
            let outcome =
                self.conversions.rules.isEmpty
                ? await self.attempts() : await FluxTask.$current.withValue(self.task) { await self.attempts() }
            if case .failed(let error) = outcome {
                if let action = Converter.action(for: error, event: self.event) { self.send(action) }
                self.conversions.onFailure?(error, self.event)
            }
            self.task.end(outcome)
        }
        if !task.lock.withLock({ $0.begin(work) }) && task.isCancelled { work.cancel() }
    }

    private func attempts() async -> FluxTask.Outcome {
        var attempt = 1
        while true {
            do {
                try await Converter.convert(event: event, dependency: conversions.dependency) { self.send($0) }
                return .completed
            } catch {
                if _Concurrency.Task.isCancelled { return .cancelled }
                guard let delay = conversions.delay(after: attempt, event) else { return .failed(error) }
                task.retry(after: attempt, error)
                do { try await conversions.control.clock.sleep(for: delay) } catch { return .cancelled }
                attempt += 1
            }
        }
    }
}
