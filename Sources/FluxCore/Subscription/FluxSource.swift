import Dispatch

/// A state that can be read and watched: a store, a view of stores, or a part of your program that hands on one of them.
///
/// ```swift
/// struct Badge { let cart: any FluxSource<Cart> }  // needs to know a cart, and not whose store it is in
/// ```
///
/// Every way to watch is written once, here, for all of them. A type of yours conforms by handing on the feed of
/// another: `var feed: FluxFeed<Cart> { store.feed }`.
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters.
nonisolated public protocol FluxSource<State>: Sendable {
    /// What is read and watched.
    associatedtype State: Sendable

    /// The state at this moment.
    var state: State { get }

    /// What all ways to watch are made from.
    ///
    /// - Complexity: O(1).
    var feed: FluxFeed<State> { get }
}

/// What all ways to watch a source are made from: it can be handed on, and that is all.
///
/// It keeps what it feeds from readable, but a store that is let go ends its subscriptions all the same.
///
/// Thread safety: a value.
nonisolated public struct FluxFeed<State: Sendable>: Sendable {
    @usableFromInline let origin: any FluxFeeding<State>
    /// The dispatcher that a store is attached to at the moment; those of a view are known to its origin.
    private let home: @Sendable () -> FluxDispatcher?

    @usableFromInline
    init(_ origin: any FluxFeeding<State>, home: @escaping @Sendable () -> FluxDispatcher? = { nil }) {
        self.origin = origin
        self.home = home
    }

    /// The dispatchers whose actions may change the state; one may be among them more than once.
    var dispatchers: [FluxDispatcher] {
        home().map { [$0] } ?? origin.dispatchers
    }
}

/// A source by its feed alone: it keeps neither the store nor the view.
nonisolated struct FluxFed<State: Sendable>: FluxSource {
    let feed: FluxFeed<State>
}

/// Where a feed comes from: the core of a store or of a view.
@usableFromInline
nonisolated protocol FluxFeeding<Element>: AnyObject, Sendable {
    associatedtype Element: Sendable

    /// Adds a subscriber; whoever gets it answers for its end.
    func enroll(_ wish: FluxWish, handler: @escaping @Sendable (Element) -> Void) -> any FluxCancellable

    /// The state, and a number that differs if an announced change lies between.
    func stamped() -> (state: Element, stamp: UInt64)

    /// The serial queue that iterators are told on: no handler of a user runs there.
    var relay: DispatchQueue { get }

    /// The dispatchers that a view reads under; a store's own is in its feed.
    var dispatchers: [FluxDispatcher] { get }

    /// Takes what the state follows from, with the locks of all dispatchers held.
    func capture(in cut: FluxCut) -> FluxCapture<Element>

    func flush() async
}

/// What a state follows from, taken at one moment, so that the rest can be done outside the locks.
@usableFromInline
nonisolated struct FluxCapture<Element> {
    let stamp: UInt64
    let state: () -> Element
}

nonisolated extension FluxSource {
    /// The state at this moment.
    public var state: State { feed.origin.stamped().state }

    /// Waits until every change announced before the call has been handed to every subscription.
    ///
    /// It returns early when the task is cancelled. A handler that never returns keeps it waiting.
    public func flush() async {
        await feed.origin.flush()
    }

    @usableFromInline
    func subscribe(_ wish: FluxWish, _ handler: @escaping @Sendable (State) -> Void) -> FluxSubscription {
        FluxSubscription(feed.origin.enroll(wish, handler: handler), keeping: wish.bound?.drops)
    }

    /// Calls a handler with the states that are announced from now on, as ``FluxStore`` does.
    ///
    /// - Parameters:
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
    ///   - startingWithCurrent: True to be called with the current state first, in one step with the start (C5).
    ///   - handler: Gets the state as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @_disfavoredOverload
    public func subscribe(
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription {
        subscribe(FluxWish(delivery, on: queue, startingWithCurrent: startingWithCurrent), handler)
    }

    /// Calls a handler with every state that is announced from now on, and ends with an error rather than miss one.
    ///
    /// What waits is handed over first, then the error, then nothing more.
    ///
    /// - Parameters:
    ///   - limit: How many changes may wait, 1 at least.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
    ///   - startingWithCurrent: True to be called with the current state first, in one step with the start (C5).
    ///   - handler: Gets each state, or the error that ends it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    public func subscribe(
        failingAfter limit: Int,
        on queue: DispatchQueue? = nil,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (Swift.Result<State, FluxOverflow>) -> Void
    ) -> FluxSubscription {
        let bound = FluxBound(.failing { handler(.failure($0)) }, limit: limit)
        let wish = FluxWish(.every, on: queue, startingWithCurrent: startingWithCurrent, bound: bound)
        return subscribe(wish) { handler(.success($0)) }
    }
}
