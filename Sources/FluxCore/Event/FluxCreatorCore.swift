import Dispatch

/// What the events of a creator are converted with; it lives as long as any of them is in flight.
@usableFromInline nonisolated final class FluxCreatorCore<Converter: FluxActionConverter>: Sendable {
    @usableFromInline let account: FluxCreatorAccount
    /// What decides when an event is run; nil: at once and in order.
    @usableFromInline let funnel: FluxSchedulerFunnel?
    /// The creator's own serial queue: `DispatchQueue.main` does not run in every program.
    let queue = fluxQueue("FluxActionCreator")
    @usableFromInline let dependency: Converter.Dependency
    @usableFromInline let destination: FluxCall<Converter.Action>
    private let onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)?
    /// Those who are told of events where the actions go.
    @usableFromInline let observers: @Sendable () -> ContiguousArray<any FluxEventObserver>
    @usableFromInline let inbox = FluxLock(FluxInbox<FluxConversion<Converter>>())
    /// Begins a conversion, or else drains the inbox, as the client's module has specialised it.
    @usableFromInline let work: @Sendable (FluxCreatorCore, FluxConversion<Converter>?) -> Void

    @usableFromInline init(
        _ dependency: Converter.Dependency, _ schedulers: [any FluxScheduler],
        _ clock: any _Concurrency.Clock<Swift.Duration>,
        _ onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)?,
        observers: @escaping @Sendable () -> ContiguousArray<any FluxEventObserver>,
        send: @escaping @Sendable (Converter.Action) -> Void,
        work: @escaping @Sendable (FluxCreatorCore, FluxConversion<Converter>?) -> Void
    ) {
        (self.dependency, self.onFailure) = (dependency, onFailure)
        account = FluxCreatorAccount(clock: clock)
        funnel = schedulers.isEmpty ? nil : FluxSchedulerFunnel(schedulers)
        destination = FluxCall(send)
        (self.observers, self.work) = (observers, work)
    }

    // MARK: - Firing

    @inlinable func fire(_ event: Converter.Event, on queue: DispatchQueue?) -> FluxTask {
        let task = account.admit(1)
        let observers = observers()
        if !observers.isEmpty { tellFired(event, task, observers) }
        if funnel == nil && !Converter.startsAtOnce {
            enqueue(FluxConversion(self, task, event, on: queue))
        } else if let conversion = schedule(event, task, on: queue) {
            begin(conversion)
        }
        return task
    }

    @inlinable func fire(_ events: [Converter.Event], on queue: DispatchQueue?) -> FluxTask {
        if events.count == 1 { return fire(events[0], on: queue) }
        if Converter.sharesConversions && !events.isEmpty && funnel == nil && observers().isEmpty {
            let task = account.admit(events.count)
            enqueue(FluxConversion(self, task, events[0], sharedBy: events, on: queue))
            return task
        }
        return FluxTask(nil, count: events.count, parts: events.map { fire($0, on: queue) })
    }

    /// Takes an event through the schedulers, if there are any; returns what the caller has to begin now.
    @usableFromInline
    func schedule(_ event: Converter.Event, _ task: FluxTask, on queue: DispatchQueue?) -> FluxConversion<Converter>? {
        guard let funnel else { return FluxConversion(self, task, event, on: queue) }
        let ticket = FluxTicket(Converter.shown(event), task, funnel, isBegunByFire: Converter.startsAtOnce) {
            [self] ticket in
            enqueue(FluxConversion(self, task, event, on: queue, ticket))
        }
        return funnel.fired(ticket) ? FluxConversion(self, task, event, on: queue, ticket) : nil
    }

    // MARK: - Converting

    @inlinable func enqueue(_ conversion: FluxConversion<Converter>) {
        if let queue = conversion.firedOn { return queue.async { self.work(self, conversion) } }
        if inbox.withLock({ $0.put(conversion) }) { startDrain() }
    }

    @usableFromInline func startDrain() { queue.async { self.work(self, nil) } }

    @inlinable func drain() {
        var batch: ContiguousArray<FluxConversion<Converter>> = []
        for _ in 0..<FluxLimits.batchesInARow {
            guard inbox.withLock({ $0.take(&batch) }) else { return }
            // Taken out one by one: an event goes when it has ended, and not with those that were fired after it.
            batch.reverse()
            while let conversion = batch.popLast() { begin(conversion) }
        }
        // By way of the pool: the thread would go on with what is put on its own serial queue, and never be given back.
        DispatchQueue.global().async { self.startDrain() }
    }

    @inlinable func begin(_ conversion: FluxConversion<Converter>) {
        if conversion.task.start() { Converter.start(conversion) }
    }

    @inlinable @inline(__always) func send(_ action: Converter.Action) { destination(action) }

    // MARK: - Telling

    @usableFromInline
    func tellFired(_ event: Converter.Event, _ task: FluxTask, _ observers: ContiguousArray<any FluxEventObserver>) {
        let event = Converter.shown(event)
        for observer in observers { observer.fired(event, task) }
        task.onEnd { outcome in
            for observer in observers { observer.ended(event, outcome, task) }
        }
    }

    func tellRetried(_ event: Converter.Event, _ attempt: Int, _ error: any Error, _ task: FluxTask) {
        for observer in observers() { observer.retried(Converter.shown(event), attempt: attempt, error, task) }
    }

    /// Tells of an error; one that nobody would get to know is written to the standard error output.
    @usableFromInline func report(_ error: any Error, _ event: Converter.Event, isHandled: Bool = false) {
        if let onFailure { return onFailure(error, event) }
        if !isHandled { fluxWarn("\(Converter.self) failed with \(error), and its creator has no onFailure.") }
    }
}

/// Who is told of the events whose actions go to a dispatcher or a store.
///
/// Thread safety: called on any thread, on several at once, with no lock held.
nonisolated public protocol FluxEventObserver: Sendable {
    /// An event was fired, and has not begun.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - task: Its work.
    func fired(_ event: any FluxEvent, _ task: FluxTask)

    /// A conversion has failed, and will be tried again.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - attempt: The attempt that failed, counted from 1.
    ///   - error: What it failed with.
    ///   - task: Its work.
    func retried(_ event: any FluxEvent, attempt: Int, _ error: any Error, _ task: FluxTask)

    /// An event has ended.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - outcome: How.
    ///   - task: Its work.
    func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask)
}

nonisolated extension FluxEventObserver {
    /// Does nothing.
    public func fired(_ event: any FluxEvent, _ task: FluxTask) {}

    /// Does nothing.
    public func retried(_ event: any FluxEvent, attempt: Int, _ error: any Error, _ task: FluxTask) {}

    /// Does nothing.
    public func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask) {}
}
