import Dispatch

/// Turns the events fired on it into actions, asynchronously and in order, and dispatches them.
///
/// ```swift
/// let creator = FluxActionCreator<SearchConverter>(dependency: index)
/// creator.fire(.search("milk"))
/// creator.fire([.search("eggs"), .search("bread")])
/// ```
///
/// Events start converting in the order fired, one after the other, on a serial queue that belongs to the creator (C3).
/// Letting go of the creator loses no event that was fired (C10).
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters.
nonisolated public final class FluxActionCreator<Converter: FluxActionConverter>: Sendable {
    @usableFromInline let account: FluxCreatorAccount
    /// What decides when an event is run; nil: at once and in order.
    @usableFromInline let funnel: FluxSchedulerFunnel?
    @usableFromInline let dependency: Converter.Dependency
    @usableFromInline let destination: FluxCall<Converter.Action>
    @usableFromInline let onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)?
    /// Those who are told of events where the actions go.
    @usableFromInline let observers: @Sendable () -> ContiguousArray<any FluxEventObserver>
    @usableFromInline let inbox = FluxLock(FluxInbox<FluxDueEvent<Converter.Event>?>())
    /// Begins a conversion, or else drains the inbox, as the client's module has specialised it.
    @usableFromInline let work: @Sendable (FluxActionCreator, FluxDueEvent<Converter.Event>?) -> Void

    // MARK: - Creating

    /// Makes a creator whose actions go wherever a closure takes them.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - schedulers: Who decides when an event is run, one behind the other.
    ///   - clock: What the duration of a shutdown is measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    ///   - observers: Who is told of events, such as instrumentation: of a store `{ store.handle.eventObservers }`; by default nobody.
    ///   - send: Takes an action to where it is to be applied, and returns when it is (C2).
    @inlinable public init(
        dependency: Converter.Dependency,
        schedulers: [any FluxScheduler] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil,
        observers: @escaping @Sendable () -> ContiguousArray<any FluxEventObserver> = { [] },
        sending send: @escaping @Sendable (Converter.Action) -> Void
    ) {
        account = FluxCreatorAccount(clock: clock)
        funnel = schedulers.isEmpty ? nil : FluxSchedulerFunnel(schedulers)
        (self.dependency, self.onFailure, self.observers) = (dependency, onFailure, observers)
        destination = FluxCall(send)
        work = { creator, due in
            if let due { creator.begin(due) } else { creator.drain() }
        }
    }

    /// Makes a creator whose actions go to all stores of a dispatcher that take them, or to what takes its place: a queue, a
    /// log or a network.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - schedulers: Who decides when an event is run, one behind the other.
    ///   - clock: What the duration of a shutdown is measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable public convenience init(
        dependency: Converter.Dependency,
        dispatcher: some FluxDispatching = FluxDispatcher.shared,
        schedulers: [any FluxScheduler] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) {
        // Watched events are told of where it is a dispatcher after all.
        let known = dispatcher as? FluxDispatcher
        self.init(
            dependency: dependency, schedulers: schedulers, clock: clock, onFailure: onFailure,
            observers: { known?.eventObservers ?? [] }, sending: { dispatcher.dispatch(action: $0) })
    }

    /// Makes a creator whose actions go straight to one store.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - store: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - schedulers: Who decides when an event is run, one behind the other.
    ///   - clock: What the duration of a shutdown is measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable public convenience init<State>(
        dependency: Converter.Dependency,
        store: FluxStore<State>,
        schedulers: [any FluxScheduler] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) where State.Action == Converter.Action {
        self.init(
            dependency: dependency, schedulers: schedulers, clock: clock, onFailure: onFailure,
            observers: { store.handle.eventObservers }, sending: { store.dispatch(action: $0) })
    }

    /// Makes a creator that needs no dependency, whose actions go to a dispatcher or to what takes its place.
    ///
    /// - Parameters:
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - schedulers: Who decides when an event is run, one behind the other.
    ///   - clock: What the duration of a shutdown is measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable public convenience init(
        dispatcher: some FluxDispatching = FluxDispatcher.shared,
        schedulers: [any FluxScheduler] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) where Converter.Dependency == Void {
        self.init(
            dependency: (), dispatcher: dispatcher, schedulers: schedulers, clock: clock, onFailure: onFailure)
    }

    /// Makes a creator that needs no dependency, whose actions go straight to one store.
    ///
    /// - Parameters:
    ///   - store: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - schedulers: Who decides when an event is run, one behind the other.
    ///   - clock: What the duration of a shutdown is measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable public convenience init<State>(
        store: FluxStore<State>,
        schedulers: [any FluxScheduler] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) where Converter.Dependency == Void, State.Action == Converter.Action {
        self.init(dependency: (), store: store, schedulers: schedulers, clock: clock, onFailure: onFailure)
    }

    // MARK: - Firing

    /// Converts an event and dispatches its actions, soon and on another thread.
    ///
    /// Inside `handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameters:
    ///   - event: What happened.
    ///   - queue: Where to convert instead of on the creator's own serial queue. Events on different queues may
    ///     overtake each other, and on a concurrent queue those of one queue too.
    /// - Returns: The work, to be awaited, watched or cancelled; letting go of it cancels nothing.
    /// - Complexity: O(1), amortised, and that of the schedulers.
    @inlinable @discardableResult
    public func fire(_ event: Converter.Event, on queue: DispatchQueue? = nil) -> FluxTask {
        FluxPureCode.forbid("fire")
        let task = account.admit(1)
        let observers = observers()
        if !observers.isEmpty { tellFired(event, task, observers) }
        let due = FluxDueEvent(task, event, on: queue)
        if funnel == nil && !Converter.startsAtOnce { enqueue(due) } else if let due = schedule(due) { begin(due) }
        return task
    }

    /// Converts events in their order.
    ///
    /// Schedulers see each event by itself, and so does who looks at events. With neither, those of the callback form share one
    /// conversion, and one hop to the queue: they start as one and end as one, once the last has ended, and a cancel counts all of
    /// them as cancelled, also those whose actions have been applied. Fire them one by one where each has to be told from the others.
    ///
    /// - Parameters:
    ///   - events: What happened, first things first; with none it does nothing.
    ///   - queue: Where to convert instead of on the creator's own serial queue.
    /// - Returns: The work of all of them.
    /// - Complexity: O(1) where they share a conversion; the array is not copied. Else as for one event, for each.
    @inlinable @discardableResult @_disfavoredOverload
    public func fire(_ events: [Converter.Event], on queue: DispatchQueue? = nil) -> FluxTask {
        FluxPureCode.forbid("fire")
        if events.count == 1 { return fire(events[0], on: queue) }
        if Converter.sharesConversions, !Converter.startsAtOnce, !events.isEmpty, funnel == nil, observers().isEmpty {
            let task = account.admit(events.count)
            enqueue(FluxDueEvent(task, events[0], sharedBy: events, on: queue))
            return task
        }
        return FluxTask(nil, count: events.count, parts: events.map { fire($0, on: queue) })
    }

    /// Converts an event on a queue: the same as `fire(_:on:)`.
    ///
    /// - Parameters:
    ///   - event: What happened.
    ///   - executionQueue: Where to convert.
    /// - Returns: The work.
    @inlinable @discardableResult
    public func fire(_ event: Converter.Event, executionQueue: DispatchQueue?) -> FluxTask {
        fire(event, on: executionQueue)
    }

    /// Converts events on a queue: the same as `fire(_:on:)`.
    ///
    /// - Parameters:
    ///   - events: What happened, first things first.
    ///   - executionQueue: Where to convert.
    /// - Returns: The work of all of them.
    @inlinable @discardableResult @_disfavoredOverload
    public func fire(_ events: [Converter.Event], executionQueue: DispatchQueue?) -> FluxTask {
        fire(events, on: executionQueue)
    }

    // MARK: - Overseeing

    /// How many events are in flight: fired, and not ended.
    ///
    /// Those that were fired together and share a conversion all are until the last of them has ended.
    ///
    /// - Complexity: O(1).
    public var inFlight: Int { account.inFlight }

    /// Cancels all events in flight, as ``FluxTask/cancel()`` does each.
    ///
    /// - Complexity: O(*n*) for *n* events in flight.
    public func cancelAll() { account.cancelAll() }

    /// Waits until every event fired before the call has ended.
    ///
    /// An event has ended when the converter has returned and, in the callback form, has released its action handler; its
    /// actions have been applied then. One that was cancelled or dropped has ended too. It returns early when the task is
    /// cancelled. A converter that never releases the handler, or an execution queue that never runs, keeps it waiting; so does
    /// a conversion that awaits it itself.
    public func flush() async { await account.flush() }

    /// Waits as ``flush()`` does, for so long at most.
    ///
    /// - Parameter duration: How long, by the clock of the creator.
    /// - Returns: Whether every event fired before the call has ended.
    public func flush(within duration: Swift.Duration) async -> Bool {
        await fluxWithin(duration, on: account.clock) { [account] in await account.flush() }
    }

    /// Ends the work of the creator: no new events, a while for those in flight, then the rest is cancelled.
    ///
    /// An event fired from now on is dropped. Returns as soon as all have ended, at the deadline at the latest; one whose
    /// action is being dispatched then, or whose end or retry is being told, is counted as unfinished, and ends soon. Where the task
    /// that calls it is cancelled the while is over.
    ///
    /// - Parameter duration: How long those in flight may take, by the clock of the creator.
    /// - Returns: What became of all events that were ever fired on the creator.
    @discardableResult public func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        await account.shutdown(within: duration)
    }

    // MARK: - Converting

    /// Takes an event through the schedulers, if there are any; returns what the caller has to begin now.
    @inlinable
    func schedule(_ due: FluxDueEvent<Converter.Event>) -> FluxDueEvent<Converter.Event>? {
        guard let funnel else { return due }
        let ticket = FluxTicket(Converter.shown(due.first), due.task, funnel, isBegunByFire: Converter.startsAtOnce) {
            [self] ticket in enqueue(FluxDueEvent(due.task, due.first, on: due.queue, ticket))
        }
        return funnel.fired(ticket) ? FluxDueEvent(due.task, due.first, on: due.queue, ticket) : nil
    }

    @inlinable func enqueue(_ due: consuming FluxDueEvent<Converter.Event>) {
        if let queue = due.queue { return queue.async { [due] in self.work(self, due) } }
        // Moved into the inbox: a copy would retain all that is in it.
        var taken = Optional(due)
        if inbox.withLock({ $0.put(Swift.exchange(&taken, with: nil)) }) { startDrain() }
    }

    @usableFromInline func startDrain() { account.queue.async { self.work(self, nil) } }

    @inlinable func drain() {
        var batch: ContiguousArray<FluxDueEvent<Converter.Event>?> = []
        for _ in 0..<FluxLimits.batchesInARow {
            guard inbox.withLock({ $0.take(&batch) }) else { return }
            // Taken out one by one: an event goes when it has ended, and not with those that were fired after it.
            for index in batch.indices { if let due = Swift.exchange(&batch[index], with: nil) { begin(consume due) } }
            batch.removeAll(keepingCapacity: true)
        }
        // By way of the pool: the thread would go on with what is put on its own serial queue, and never be given back.
        DispatchQueue.global().async { self.startDrain() }
    }

    @inlinable func begin(_ due: consuming FluxDueEvent<Converter.Event>) {
        if due.task.start() { Converter.start(FluxConversion(self, due)) }
    }

    // MARK: - Telling

    @usableFromInline
    func tellFired(_ event: Converter.Event, _ task: FluxTask, _ observers: ContiguousArray<any FluxEventObserver>) {
        let event = Converter.shown(event)
        for observer in observers { observer.fired(event, task) }
        task.onEnd { outcome in
            for observer in observers { observer.ended(event, outcome, task) }
        }
    }

    func tellRetried(_ event: Converter.Event, _ attempt: Int, _ error: any Swift.Error, _ task: FluxTask) {
        for observer in observers() { observer.retried(Converter.shown(event), attempt: attempt, error, task) }
    }

    /// Tells of an error; one that nobody would get to know is written to the standard error output.
    @usableFromInline func report(_ error: any Swift.Error, _ event: Converter.Event, isHandled: Bool = false) {
        if let onFailure { return onFailure(error, event) }
        if !isHandled { fluxWarn("\(Converter.self) failed, and its creator has no onFailure: \(error)") }
    }
}
