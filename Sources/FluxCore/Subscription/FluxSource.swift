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

/// What all ways to watch a source are made from: a source that does not keep the store or the view it is of.
///
/// It keeps the state readable, but a store that is let go ends its subscriptions all the same. Also the way to combine
/// what is known as `any FluxSource` alone: `FluxView(cart.feed, user.feed) { … }`.
///
/// Thread safety: a value.
nonisolated public struct FluxFeed<State: Sendable>: FluxSource {
    @usableFromInline let origin: any FluxFeeding<State>
    /// Find the dispatchers whose actions may change the state.
    @usableFromInline let homes: ContiguousArray<FluxHomes.Finder>

    @usableFromInline
    init(_ origin: any FluxFeeding<State>, homes: ContiguousArray<FluxHomes.Finder>) {
        self.origin = origin
        self.homes = homes
    }

    /// Itself.
    public var feed: FluxFeed<State> { self }

    /// Takes what the state follows from, with the locks of all dispatchers held.
    ///
    /// A store is read right into the place of the client's type: code that does not know the type is several times
    /// slower.
    ///
    /// - Parameter cut: What was read before; nil where no store is read twice.
    /// - Returns: What was taken.
    @inlinable
    func capture(in cut: FluxCut?) -> FluxCapture<State> {
        if cut != nil || !origin.isStore { return origin.capture(in: cut) }
        var stamp: UInt64 = 0
        let state = origin.state(&stamp)
        return FluxCapture(stamp: stamp, .known(state))
    }
}

/// Where a feed comes from: the core of a store or of a view.
@usableFromInline
nonisolated protocol FluxFeeding<Element>: AnyObject, Sendable {
    associatedtype Element: Sendable

    /// Adds a subscriber; whoever gets it answers for its end.
    func enroll(_ wish: FluxWish, handler: @escaping @Sendable (Element) -> Void) -> any FluxCancellable

    /// Puts the state into memory that is not initialised, and a number that differs if an announced change lies between.
    func read(into state: UnsafeMutablePointer<Element>, _ stamp: UnsafeMutablePointer<UInt64>)

    /// The sum of the revisions of all stores that the state follows from: it grows with each announced change of one.
    var stamp: UInt64 { get }

    /// Keeps what ends a subscription once its object is gone.
    func keep(_ leash: FluxLeash)

    /// The serial queue that iterators are told on: no handler of a user runs there.
    var relay: DispatchQueue { get }

    /// Whether two states are as good as equal, if it announces only those that are not; nil: it announces any.
    var difference: (@Sendable (Element, Element) -> Bool)? { get }

    /// Whether it is a store rather than a view.
    var isStore: Bool { get }

    /// The stores that the state follows from; one may be among them more than once.
    var stores: ContiguousArray<ObjectIdentifier> { get }

    /// Takes what the state follows from, with the locks of all dispatchers held.
    ///
    /// - Parameter cut: What was read before; nil where no store is read twice.
    /// - Returns: What was taken.
    func capture(in cut: FluxCut?) -> FluxCapture<Element>

    func flush() async
}

nonisolated extension FluxFeeding {
    /// The state, and a number that differs if an announced change lies between.
    @inlinable
    func state(_ stamp: inout UInt64) -> Element {
        withUnsafeTemporaryAllocation(of: Element.self, capacity: 1) { place in
            guard let place = place.baseAddress else { fatalError("FluxCore: no room for one state") }
            read(into: place, &stamp)
            return place.move()
        }
    }

    var currentState: Element {
        var stamp: UInt64 = 0
        return state(&stamp)
    }
}

nonisolated extension FluxSource {
    /// The state at this moment.
    public var state: State { feed.origin.currentState }

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
        subscribe(
            FluxWish(delivery, on: queue, startingWithCurrent: startingWithCurrent), distinct(delivery, handler))
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
