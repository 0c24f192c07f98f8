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
    @inlinable
    public convenience init(dependency: Converter.Dependency, dispatcher: FluxDispatcher = .shared) {
        self.init(
            conversions: FluxConversions(dependency: dependency) {
                dispatcher.chainIfWatched
            } send: { action in
                dispatcher.dispatch(action: action)
            })
    }

    /// Makes a creator whose actions go to what takes the place of a dispatcher: a queue, a log or a network.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - dispatcher: Where the actions go; kept alive by the creator and by its events in flight.
    @inlinable
    public convenience init(dependency: Converter.Dependency, dispatcher: some FluxDispatching) {
        self.init(conversions: FluxConversions(dependency: dependency) { dispatcher.dispatch(action: $0) })
    }

    /// Makes a creator whose actions go straight to one store.
    ///
    /// - Parameters:
    ///   - dependency: What the converter needs from outside; every conversion gets it.
    ///   - store: Where the actions go; kept alive by the creator and by its events in flight.
    @inlinable
    public convenience init<State>(dependency: Converter.Dependency, store: FluxStore<State>)
    where State.Action == Converter.Action {
        self.init(
            conversions: FluxConversions(dependency: dependency) {
                store.core.chainIfWatched
            } send: { action in
                store.dispatch(action: action)
            })
    }

    /// Makes a creator that needs no dependency, whose actions go to all stores of a dispatcher that take them.
    ///
    /// - Parameter dispatcher: Where the actions go; kept alive by the creator and by its events in flight.
    @inlinable
    public convenience init(dispatcher: FluxDispatcher = .shared) where Converter.Dependency == Void {
        self.init(dependency: (), dispatcher: dispatcher)
    }

    /// Makes a creator that needs no dependency, whose actions go straight to one store.
    ///
    /// - Parameter store: Where the actions go; kept alive by the creator and by its events in flight.
    @inlinable
    public convenience init<State>(store: FluxStore<State>)
    where Converter.Dependency == Void, State.Action == Converter.Action {
        self.init(dependency: (), store: store)
    }

    // MARK: - Firing

    /// Converts an event and dispatches its actions, soon and on another thread.
    ///
    /// - Parameters:
    ///   - event: What happened.
    ///   - executionQueue: Where to convert instead of on the creator's own serial queue. Events on different queues may
    ///     overtake each other, and on a concurrent queue those of one queue too.
    /// - Complexity: O(1).
    @inlinable
    public func fire(_ event: Converter.Event, executionQueue: DispatchQueue? = nil) {
        conversions.fire(.one(event), on: executionQueue)
    }

    /// Converts events in their order, with one hop to the queue for all.
    ///
    /// - Parameters:
    ///   - events: What happened, first things first; with none it does nothing.
    ///   - executionQueue: Where to convert instead of on the creator's own serial queue.
    /// - Complexity: O(1); the array is not copied.
    @inlinable
    public func fire(_ events: [Converter.Event], executionQueue: DispatchQueue? = nil) {
        if !events.isEmpty { conversions.fire(.many(events), on: executionQueue) }
    }

    /// Waits until every event fired before the call has finished converting.
    ///
    /// An event has finished when the converter has returned and has released its action handler; its actions have been
    /// applied then. It returns early when the task is cancelled. A converter that never releases the handler, or an
    /// execution queue that never runs, keeps it waiting.
    public func flush() async {
        await conversions.flush()
    }
}
