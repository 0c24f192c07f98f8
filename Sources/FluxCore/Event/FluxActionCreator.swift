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
    @usableFromInline let conversions: FluxConversions<Converter>

    @usableFromInline
    init(conversions: FluxConversions<Converter>) {
        self.conversions = conversions
    }

    // MARK: - Creating

    /// Makes a creator whose actions go to all stores of a dispatcher that take them.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - rules: Which events run at once, wait, replace others or are tried again, in their order.
    ///   - clock: What durations of rules are measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable
    public convenience init(
        dependency: Converter.Dependency,
        dispatcher: FluxDispatcher = .shared,
        rules: [FluxRule<Converter.Event>] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil
    ) {
        self.init(
            conversions: FluxConversions(dependency: dependency, rules: rules, clock: clock, onFailure: onFailure) {
                dispatcher.chainIfWatched
            } send: {
                dispatcher.dispatch(action: $0)
            } run: {
                Converter._convert($1, by: $0, &$2)
            })
    }

    /// Makes a creator whose actions go to what takes the place of a dispatcher: a queue, a log or a network.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - rules: Which events run at once, wait, replace others or are tried again, in their order.
    ///   - clock: What durations of rules are measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable
    public convenience init(
        dependency: Converter.Dependency,
        dispatcher: some FluxDispatching,
        rules: [FluxRule<Converter.Event>] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil
    ) {
        // Watched events are told of where it is a dispatcher after all.
        let known = dispatcher as? FluxDispatcher
        self.init(
            conversions: FluxConversions(dependency: dependency, rules: rules, clock: clock, onFailure: onFailure) {
                known?.chainIfWatched
            } send: {
                dispatcher.dispatch(action: $0)
            } run: {
                Converter._convert($1, by: $0, &$2)
            })
    }

    /// Makes a creator whose actions go straight to one store.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - store: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - rules: Which events run at once, wait, replace others or are tried again, in their order.
    ///   - clock: What durations of rules are measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable
    public convenience init<State>(
        dependency: Converter.Dependency,
        store: FluxStore<State>,
        rules: [FluxRule<Converter.Event>] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil
    ) where State.Action == Converter.Action {
        self.init(
            conversions: FluxConversions(dependency: dependency, rules: rules, clock: clock, onFailure: onFailure) {
                store.core.chainIfWatched
            } send: {
                store.dispatch(action: $0)
            } run: {
                Converter._convert($1, by: $0, &$2)
            })
    }

    /// Makes a creator that needs no dependency, whose actions go to all stores of a dispatcher that take them.
    ///
    /// - Parameters:
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - rules: Which events run at once, wait, replace others or are tried again, in their order.
    ///   - clock: What durations of rules are measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable
    public convenience init(
        dispatcher: FluxDispatcher = .shared,
        rules: [FluxRule<Converter.Event>] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil
    ) where Converter.Dependency == Void {
        self.init(dependency: (), dispatcher: dispatcher, rules: rules, clock: clock, onFailure: onFailure)
    }

    /// Makes a creator that needs no dependency, whose actions go to what takes the place of a dispatcher.
    ///
    /// - Parameters:
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - rules: Which events run at once, wait, replace others or are tried again, in their order.
    ///   - clock: What durations of rules are measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable
    public convenience init(
        dispatcher: some FluxDispatching,
        rules: [FluxRule<Converter.Event>] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil
    ) where Converter.Dependency == Void {
        self.init(dependency: (), dispatcher: dispatcher, rules: rules, clock: clock, onFailure: onFailure)
    }

    /// Makes a creator that needs no dependency, whose actions go straight to one store.
    ///
    /// - Parameters:
    ///   - store: Where the actions go; kept alive by the creator and by its events in flight.
    ///   - rules: Which events run at once, wait, replace others or are tried again, in their order.
    ///   - clock: What durations of rules are measured with.
    ///   - onFailure: Gets each error that a conversion ended with, and its event.
    @inlinable
    public convenience init<State>(
        store: FluxStore<State>,
        rules: [FluxRule<Converter.Event>] = [],
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ error: any Error, _ event: Converter.Event) -> Void)? = nil
    ) where Converter.Dependency == Void, State.Action == Converter.Action {
        self.init(dependency: (), store: store, rules: rules, clock: clock, onFailure: onFailure)
    }

    // MARK: - Firing

    /// Converts an event and dispatches its actions, soon and on another thread.
    ///
    /// Inside `handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameters:
    ///   - event: What happened.
    ///   - executionQueue: Where to convert instead of on the creator's own serial queue. Events on different queues may
    ///     overtake each other, and on a concurrent queue those of one queue too.
    /// - Returns: The work, to be awaited, watched or cancelled; letting go of it cancels nothing.
    /// - Complexity: O(log *n*) of the events in flight.
    @inlinable @discardableResult
    public func fire(_ event: Converter.Event, executionQueue: DispatchQueue? = nil) -> FluxTask {
        conversions.fire(event, on: executionQueue)
    }

    /// Converts events in their order, with one hop to the queue for all.
    ///
    /// Rules see each event by itself.
    ///
    /// - Parameters:
    ///   - events: What happened, first things first; with none it does nothing.
    ///   - executionQueue: Where to convert instead of on the creator's own serial queue.
    /// - Returns: The work of all of them.
    /// - Complexity: O(1) without rules; the array is not copied. With rules as for one event, for each.
    @inlinable @discardableResult @_disfavoredOverload
    public func fire(_ events: [Converter.Event], executionQueue: DispatchQueue? = nil) -> FluxTask {
        conversions.fire(events, on: executionQueue)
    }

    // MARK: - Overseeing

    /// How many events are in flight: fired, and not ended.
    ///
    /// - Complexity: O(*n*) for *n* events in flight.
    public var inFlight: Int { conversions.control.inFlight }

    /// Cancels all events in flight, as ``FluxTask/cancel()`` does each.
    ///
    /// - Complexity: O(*n*) for *n* events in flight.
    public func cancelAll() {
        conversions.control.cancelAll()
    }

    /// Waits until every event fired before the call has ended.
    ///
    /// An event has ended when the converter has returned and, in the callback form, has released its action handler; its
    /// actions have been applied then. One that was cancelled or dropped has ended too. It returns early when the task is
    /// cancelled. A converter that never releases the handler, or an execution queue that never runs, keeps it waiting.
    public func flush() async {
        await conversions.control.flush()
    }

    /// Ends the work of the creator: no new events, a while for those in flight, then the rest is cancelled.
    ///
    /// An event fired from now on is dropped. Returns as soon as all have ended, at the deadline at the latest; where an
    /// action is being dispatched then, once that is applied, two seconds after the deadline at the latest (C9). An
    /// `onFailure` that is being called at the deadline may go on after it.
    ///
    /// - Parameter duration: How long those in flight may take, by the clock of the creator.
    /// - Returns: What became of all events that were ever fired on the creator.
    @discardableResult
    public func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        fluxRequire(duration >= .zero, "shutdown(within:) was given a negative duration, \(duration).")
        return await conversions.control.shutdown(within: duration)
    }
}
