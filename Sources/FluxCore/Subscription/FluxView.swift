/// A state that follows from those of other sources: a store to read from and to watch, without actions.
///
/// ```swift
/// let total = FluxView(cart, prices) { cart, prices in cart.total(at: prices) }
/// let subscription = total.subscribe { total in print(total) }
/// let badge = store.view(\.cart.count)  // all that a feature needs to know of the store
/// ```
///
/// It is a cut (C11): it never shows an action's effect on one of its stores without its effect on the others. That
/// holds for stores of one dispatcher as for stores of several, and for views of views.
///
/// It computes when it is read or watched and only if a change was announced since, and it announces what is not equal to
/// the value before. It takes its cuts at its own pace, so changes that come faster are one change of the view; every
/// value that it announces is delivered as the subscription has it. Whoever must see each change of a store subscribes to
/// the store.
///
/// A view keeps its sources. When its last reference goes, it delivers what is due and ends its subscriptions (C10).
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters; not inside
/// `FluxState.handle(action:)`.
nonisolated public final class FluxView<State: Sendable>: FluxSource {
    @usableFromInline let core: FluxViewCore<State>
    /// What the view keeps alive; its core outlives it, and must not.
    @usableFromInline let sources: any Sendable

    /// Makes a view that announces a value unless a function of yours says that it is as good as the last.
    ///
    /// - Parameters:
    ///   - source: What to combine: stores, views, and other sources.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @inlinable
    public convenience init<each Source: FluxSource>(
        _ source: repeat each Source,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable (repeat (each Source).State) -> State
    ) {
        let feeds = (repeat (each source).feed)
        var stores: ContiguousArray<ObjectIdentifier> = []
        var homes: ContiguousArray<FluxHomes.Finder> = []
        for feed in repeat each feeds {
            stores += feed.origin.stores
            homes += feed.homes
        }
        let parts = FluxViewParts<State>(
            stores: stores,
            homes: homes,
            stamp: {
                var stamp: UInt64 = 0
                for feed in repeat each feeds { stamp &+= feed.origin.stamp }
                return stamp
            },
            capture: { cut in
                let captures = (repeat (each feeds).capture(in: cut))
                var stamp: UInt64 = 0
                for capture in repeat each captures { stamp &+= capture.stamp }
                return FluxCapture(stamp: stamp, .computed { transform(repeat (each captures).state) })
            },
            watch: { wish, changed in
                var watchers: [any FluxCancellable] = []
                for feed in repeat each feeds {
                    watchers.append(feed.origin.enroll(wish) { _ in changed() })
                }
                return watchers
            })
        self.init(parts, keeping: (repeat each source), by: isSame)
    }

    @inlinable
    init(
        _ parts: FluxViewParts<State>, keeping sources: any Sendable,
        by isSame: @escaping @Sendable (State, State) -> Bool
    ) {
        let first = parts.cut()
        let inner = FluxStoreCore(initialState: FluxDerived(value: first.state, stamp: first.stamp)) { $0.perform($1) }
        core = FluxViewCore(parts, inner: inner, isSame: isSame)
        self.sources = sources
    }

    /// Makes a view that announces what is not equal to the value before.
    ///
    /// - Parameters:
    ///   - source: What to combine: stores, views, and other sources.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @inlinable
    public convenience init<each Source: FluxSource>(
        _ source: repeat each Source,
        transform: @escaping @Sendable (repeat (each Source).State) -> State
    ) where State: Equatable {
        self.init(repeat each source, by: { $0 == $1 }, transform)
    }

    /// Makes a view of any number of sources of one type that announces a value unless a function of yours says that it is
    /// as good as the last.
    ///
    /// - Parameters:
    ///   - sources: What to combine, such as the stores of all rooms; those of several types by their ``FluxSource/feed``.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @inlinable
    public convenience init<Source: FluxSource>(
        _ sources: [Source],
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable ([Source.State]) -> State
    ) {
        let feeds = sources.map(\.feed)
        let parts = FluxViewParts<State>(
            stores: ContiguousArray(feeds.flatMap(\.origin.stores)),
            homes: ContiguousArray(feeds.flatMap(\.homes)),
            stamp: { feeds.reduce(0) { $0 &+ $1.origin.stamp } },
            capture: { cut in
                let captures = feeds.map { $0.capture(in: cut) }
                return FluxCapture(
                    stamp: captures.reduce(0) { $0 &+ $1.stamp }, .computed { transform(captures.map(\.state)) })
            },
            watch: { wish, changed in feeds.map { $0.origin.enroll(wish) { _ in changed() } } })
        self.init(parts, keeping: sources, by: isSame)
    }

    /// Makes a view of any number of sources of one type that announces what is not equal to the value before.
    ///
    /// ```swift
    /// let guests = FluxView(rooms) { rooms in rooms.reduce(0) { $0 + $1.guests.count } }
    /// ```
    ///
    /// - Parameters:
    ///   - sources: What to combine, such as the stores of all rooms; those of several types by their ``FluxSource/feed``.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @inlinable
    public convenience init<Source: FluxSource>(
        _ sources: [Source], transform: @escaping @Sendable ([Source.State]) -> State
    ) where State: Equatable {
        self.init(sources, by: { $0 == $1 }, transform)
    }

    deinit {
        core.end()
    }

    /// The value as the sources are at this moment.
    ///
    /// - Complexity: O(*n*) for *n* sources; one call of `transform` if a change was announced since the last.
    @inlinable public var state: State { core.upToDate().value }

    /// What all ways to watch are made from.
    public var feed: FluxFeed<State> { FluxFeed(core, homes: core.parts.homes) }
}

nonisolated extension FluxSource {
    /// A view of a part of the state, for a feature that needs to know no more.
    ///
    /// - Parameter part: The part, as a key path or a closure.
    /// - Returns: A view that keeps this source and announces the part when it has changed.
    public func view<Part: Equatable & Sendable>(
        _ part: @escaping @Sendable (State) -> Part
    ) -> FluxView<Part> {
        FluxView(self, transform: part)
    }

    /// A view of a part of the state that is not Equatable, for a feature that needs to know no more.
    ///
    /// - Parameters:
    ///   - part: The part, as a key path or a closure.
    ///   - isSame: Whether two parts are as good as equal.
    /// - Returns: A view that keeps this source and announces the part when it is another.
    public func view<Part: Sendable>(
        _ part: @escaping @Sendable (State) -> Part, by isSame: @escaping @Sendable (Part, Part) -> Bool
    ) -> FluxView<Part> {
        FluxView(self, by: isSame, part)
    }
}
