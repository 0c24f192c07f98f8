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
/// Releasing the creator loses no event that was fired (C10).
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters.
nonisolated public final class FluxActionCreator<Converter: FluxActionConverter>: Sendable {
    @usableFromInline let account: FluxCreatorAccount
    /// Passes events through the schedulers; nil: events run at once and in order.
    @usableFromInline let funnel: FluxSchedulerFunnel?
    @usableFromInline let dependency: Converter.Dependency
    @usableFromInline let destination: FluxCall<Converter.Action>
    @usableFromInline let onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)?
    /// Returns the observers to notify of events: those of the store or dispatcher that the actions go to.
    @usableFromInline let observers: @Sendable () -> [any FluxEventObserver]
    @usableFromInline let inbox = FluxLock(FluxInbox<FluxDueEvent<Converter.Event>?>())
    /// Converts the given event or, given nil, drains the inbox, in code that the client's module has specialised.
    @usableFromInline let work: @Sendable (FluxActionCreator, FluxDueEvent<Converter.Event>?) -> Void

    // MARK: - Creating

    /// Creates an action creator that sends its actions with a closure.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion receives it.
    ///   - schedulers: Decide when an event runs; an event passes them in this order.
    ///   - clock: Measures the duration of a shutdown.
    ///   - onFailure: Receives each error that ended a conversion, with its event.
    ///   - observers: Returns the observers to notify of events, such as instrumentation: `{ dispatcher.interceptors }`
    ///     for a dispatcher, `{ store.handle.eventObservers }` for a store. By default there are none.
    ///   - send: Sends an action to where it is applied, and returns once it has been applied (C2).
    @inlinable public init(
        dependency: Converter.Dependency,
        schedulers: [any FluxScheduler] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil,
        observers: @escaping @Sendable () -> [any FluxEventObserver] = { [] },
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

    /// Creates an action creator for the stores of a dispatcher that take its actions, or for a queue, log or network.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion receives it.
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight. Only the
    ///     interceptors of a ``FluxDispatcher`` are notified of the events.
    ///   - schedulers: Decide when an event runs; an event passes them in this order.
    ///   - clock: Measures the duration of a shutdown.
    ///   - onFailure: Receives each error that ended a conversion, with its event.
    @inlinable public convenience init(
        dependency: Converter.Dependency,
        dispatcher: some FluxDispatching = FluxDispatcher.shared,
        schedulers: [any FluxScheduler] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) {
        // Events are observed only if this is a `FluxDispatcher`.
        let known = dispatcher as? FluxDispatcher
        self.init(
            dependency: dependency, schedulers: schedulers, clock: clock, onFailure: onFailure,
            observers: { known?.eventObservers ?? [] }, sending: { dispatcher.dispatch(action: $0) })
    }

    /// Creates an action creator whose actions go straight to one store.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion receives it.
    ///   - store: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - schedulers: Decide when an event runs; an event passes them in this order.
    ///   - clock: Measures the duration of a shutdown.
    ///   - onFailure: Receives each error that ended a conversion, with its event.
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

    /// Creates an action creator without a dependency, for a dispatcher or for a queue, log or network.
    ///
    /// - Parameters:
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight. Only the
    ///     interceptors of a ``FluxDispatcher`` are notified of the events.
    ///   - schedulers: Decide when an event runs; an event passes them in this order.
    ///   - clock: Measures the duration of a shutdown.
    ///   - onFailure: Receives each error that ended a conversion, with its event.
    @inlinable public convenience init(
        dispatcher: some FluxDispatching = FluxDispatcher.shared,
        schedulers: [any FluxScheduler] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) where Converter.Dependency == Void {
        self.init(
            dependency: (), dispatcher: dispatcher, schedulers: schedulers, clock: clock, onFailure: onFailure)
    }

    /// Creates an action creator without a dependency, whose actions go straight to one store.
    ///
    /// - Parameters:
    ///   - store: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - schedulers: Decide when an event runs; an event passes them in this order.
    ///   - clock: Measures the duration of a shutdown.
    ///   - onFailure: Receives each error that ended a conversion, with its event.
    @inlinable public convenience init<State>(
        store: FluxStore<State>,
        schedulers: [any FluxScheduler] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Swift.Error, _ event: Converter.Event) -> Void)? = nil
    ) where Converter.Dependency == Void, State.Action == Converter.Action {
        self.init(dependency: (), store: store, schedulers: schedulers, clock: clock, onFailure: onFailure)
    }

    // MARK: - Firing

    /// Enqueues an event to convert it and dispatch its actions; a converter may start conversions at once.
    ///
    /// Inside `handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - queue: The queue to convert on instead of the creator's own serial queue. Events on different queues may
    ///     overtake each other, and so may events on one concurrent queue. If ``FluxActionConverter/startsAtOnce`` is
    ///     true, a conversion that no scheduler has held back still begins on the calling thread; what it then starts
    ///     on ``FluxConversion/queue`` runs on this queue.
    /// - Returns: The task, which can be awaited, watched or cancelled; releasing it cancels nothing.
    /// - Complexity: O(1), amortised, plus that of the schedulers. Besides, O(*o*) for the *o* observers of the store,
    ///   or interceptors of the dispatcher, that the actions go to.
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

    /// Converts several events in order.
    ///
    /// Schedulers and event observers see each event separately. Without schedulers and observers, events of the
    /// callback form share one conversion and one hop to the queue. They start together and end together, once the last
    /// of them has ended. A cancel counts all of them as cancelled, even those whose actions have been applied. To tell
    /// events apart, fire them one by one.
    ///
    /// - Parameters:
    ///   - events: The events in order; an empty array does nothing.
    ///   - queue: The queue to convert on instead of the creator's own serial queue.
    /// - Returns: One task for all of them.
    /// - Complexity: That of one event if the events share a conversion; the array is not copied. Otherwise that of
    ///   each event.
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
    ///   - event: The event.
    ///   - executionQueue: The queue to convert on.
    /// - Returns: The task.
    @inlinable @discardableResult
    public func fire(_ event: Converter.Event, executionQueue: DispatchQueue?) -> FluxTask {
        fire(event, on: executionQueue)
    }

    /// Converts events on a queue: the same as `fire(_:on:)`.
    ///
    /// - Parameters:
    ///   - events: The events in order.
    ///   - executionQueue: The queue to convert on.
    /// - Returns: One task for all of them.
    @inlinable @discardableResult @_disfavoredOverload
    public func fire(_ events: [Converter.Event], executionQueue: DispatchQueue?) -> FluxTask {
        fire(events, on: executionQueue)
    }

    // MARK: - Overseeing

    /// The number of events in flight: fired and not yet ended.
    ///
    /// Events that share a conversion are all in flight until the last of them has ended.
    ///
    /// - Complexity: O(1).
    public var inFlight: Int { account.inFlight }

    /// Cancels each event in flight, as ``FluxTask/cancel()`` does.
    ///
    /// - Complexity: O(*n*) for *n* events in flight.
    public func cancelAll() { account.cancelAll() }

    /// Waits until every event fired before the call has ended.
    ///
    /// An event has ended when the converter has returned and, in the callback form, has released its action handler.
    /// Its actions have been applied by then. A cancelled or dropped event has ended too. The call returns early when
    /// the task is cancelled. It keeps waiting if a converter never releases the handler, if an execution queue never
    /// runs, or if a conversion awaits this call itself.
    ///
    /// - Complexity: O(*n*) for *n* events in flight.
    public func flush() async { await account.flush(upTo: account.newest) }

    /// Waits as ``flush()`` does, but no longer than a duration.
    ///
    /// On a clock of the system, the call leaves some 700 bytes until the duration has passed, because Swift keeps a
    /// cancelled sleep.
    ///
    /// - Parameter duration: The longest time to wait, by the creator's clock. A negative one stops the program.
    /// - Returns: Whether every event fired before the call has ended.
    public func flush(within duration: Swift.Duration) async -> Bool {
        await fluxWithin(duration, on: account.clock) { [account, newest = account.newest] in
            await account.flush(upTo: newest)
        }
    }

    /// Shuts the creator down: refuses new events, gives those in flight a limited time, and then cancels the rest.
    ///
    /// An event fired from now on is dropped. The call returns as soon as all events have ended, and at the deadline at
    /// the latest, apart from the time that cancellation handlers and event observers take then. An event counts as
    /// unfinished if its action is being dispatched at the deadline, or its end or retry is being reported; it ends
    /// after that. If the calling task is cancelled, the events in flight are cancelled at once.
    ///
    /// - Parameter duration: How long the events in flight may take, by the creator's clock. A negative one stops the
    ///   program.
    /// - Returns: The number of all events ever fired on the creator, by outcome.
    @discardableResult public func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        await account.shutdown(within: duration)
    }

    // MARK: - Converting

    /// Passes an event to the schedulers, if there are any; returns it if the caller must begin it now.
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
        // Moved into the inbox: a copy would retain everything in it.
        var taken = Optional(due)
        if inbox.withLock({ $0.put(Swift.exchange(&taken, with: nil)) }) { startDrain() }
    }

    @usableFromInline func startDrain() { account.queue.async { self.work(self, nil) } }

    @inlinable func drain() {
        var batch: ContiguousArray<FluxDueEvent<Converter.Event>?> = []
        for _ in 0..<FluxLimits.batchesInARow {
            guard inbox.withLock({ $0.take(&batch) }) else { return }
            // Taken out one by one: each event is released when it has ended, not together with those fired after it.
            for index in batch.indices { if let due = Swift.exchange(&batch[index], with: nil) { begin(consume due) } }
            batch.removeAll(keepingCapacity: true)
        }
        // By way of the global pool: if enqueued on its own serial queue, the drain would continue on this thread and
        // never give it back.
        DispatchQueue.global().async { self.startDrain() }
    }

    @inlinable func begin(_ due: consuming FluxDueEvent<Converter.Event>) {
        if due.task.start() { Converter.start(FluxConversion(self, due)) }
    }

    // MARK: - Reporting

    @usableFromInline
    func tellFired(_ event: Converter.Event, _ task: FluxTask, _ observers: [any FluxEventObserver]) {
        let event = Converter.shown(event)
        for observer in observers { observer.fired(event, task) }
        task.onEnd { outcome in
            for observer in observers { observer.ended(event, outcome, task) }
        }
    }

    func tellRetried(_ event: Converter.Event, _ attempt: Int, _ error: any Swift.Error, _ task: FluxTask) {
        for observer in observers() { observer.retried(Converter.shown(event), attempt: attempt, error, task) }
    }

    /// Reports an error to `onFailure`; without one, an unhandled error is written to the standard error output.
    @usableFromInline func report(_ error: any Swift.Error, _ event: Converter.Event, isHandled: Bool = false) {
        if let onFailure { return onFailure(error, event) }
        if !isHandled { fluxWarn("\(Converter.self) failed, and its creator has no onFailure: \(error)") }
    }
}
