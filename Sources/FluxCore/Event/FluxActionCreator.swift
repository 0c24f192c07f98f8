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
    @usableFromInline let core: FluxCreatorCore<Converter>

    @usableFromInline init(core: FluxCreatorCore<Converter>) { self.core = core }

    // MARK: - Creating

    /// Makes a creator whose actions go wherever a closure takes them.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - schedulers: Who decides when an event is run, one behind the other.
    ///   - clock: What the duration of a shutdown is measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    ///   - observers: Who is told of events.
    ///   - send: Takes an action to where it is to be applied, and returns when it is (C2).
    @inlinable public init(
        dependency: Converter.Dependency,
        schedulers: [any FluxScheduler] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil,
        observers: @escaping @Sendable () -> ContiguousArray<any FluxEventObserver> = { [] },
        sending send: @escaping @Sendable (Converter.Action) -> Void
    ) {
        core = FluxCreatorCore(dependency, schedulers, clock, onFailure, observers: observers, send: send) {
            core, conversion in
            if let conversion { core.begin(conversion) } else { core.drain() }
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
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil
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
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil
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
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil
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
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil
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
        return core.fire(event, on: queue)
    }

    /// Converts events in their order, with one hop to the queue for all.
    ///
    /// Schedulers see each event by itself.
    ///
    /// - Parameters:
    ///   - events: What happened, first things first; with none it does nothing.
    ///   - queue: Where to convert instead of on the creator's own serial queue.
    /// - Returns: The work of all of them.
    /// - Complexity: O(1) without schedulers; the array is not copied. Else as for one event, for each.
    @inlinable @discardableResult @_disfavoredOverload
    public func fire(_ events: [Converter.Event], on queue: DispatchQueue? = nil) -> FluxTask {
        FluxPureCode.forbid("fire")
        return core.fire(events, on: queue)
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
    /// - Complexity: O(1).
    public var inFlight: Int { core.account.inFlight }

    /// Cancels all events in flight, as ``FluxTask/cancel()`` does each.
    ///
    /// - Complexity: O(*n*) for *n* events in flight.
    public func cancelAll() { core.account.cancelAll() }

    /// Waits until every event fired before the call has ended.
    ///
    /// An event has ended when the converter has returned and, in the callback form, has released its action handler; its
    /// actions have been applied then. One that was cancelled or dropped has ended too. It returns early when the task is
    /// cancelled. A converter that never releases the handler, or an execution queue that never runs, keeps it waiting; so does
    /// a conversion that awaits it itself.
    public func flush() async { await core.account.flush() }

    /// Ends the work of the creator: no new events, a while for those in flight, then the rest is cancelled.
    ///
    /// An event fired from now on is dropped. Returns as soon as all have ended, at the deadline at the latest; where an
    /// action is being dispatched then, it is counted as unfinished, and is applied soon.
    ///
    /// - Parameter duration: How long those in flight may take, by the clock of the creator.
    /// - Returns: What became of all events that were ever fired on the creator.
    @discardableResult public func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        await core.account.shutdown(within: duration)
    }
}
