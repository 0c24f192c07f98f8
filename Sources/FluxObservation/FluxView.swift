import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// A state computed from the states of other sources; it is read and watched like a store, but handles no actions.
///
/// ```swift
/// let total = FluxView(cart, prices) { cart, prices in cart.total(at: prices) }
/// let subscription = total.subscribe { total in print(total) }
/// let badge = store.view(\.cart.count)  // all that a feature needs to know of the store
/// ```
///
/// A view is a cut (C11): it never shows an action's effect on one of its stores without the effect on the others,
/// announced or not. This holds for the stores of each dispatcher, however many dispatchers the stores belong to, and
/// for views of views. An action that passes a child dispatcher is one step for the child's stores and another for the
/// stores above. The values of a view never go back in any store.
///
/// A view computes when it is read or watched, and only if a change was applied since the last computation. It may
/// compute once more for each view that is built on it. It announces each value that does not equal the one announced
/// before. It takes cuts at its own pace: changes that arrive faster become one change of the view. Each announced
/// value is delivered according to the subscription's delivery. To see every change of a store, subscribe to the store.
///
/// A view keeps its sources alive, and the dispatchers to which it found their stores attached. Middleware that uses a
/// view of a store of its own dispatcher must therefore capture the view weakly. When the last reference to a view is
/// released, the view reads its sources once more if it has subscriptions, delivers the pending changes, releases the
/// sources immediately, and ends its subscriptions (C10).
///
/// Thread safety: may be used from any thread, including inside handlers and converters, but not inside
/// `FluxState.handle(action:)`.
nonisolated public final class FluxView<State: Sendable>: FluxSource {
    @usableFromInline let core: FluxViewCore<State>

    @inlinable
    init(
        _ sources: FluxViewSources, by isSame: @escaping @Sendable (State, State) -> Bool,
        capture: @escaping @Sendable (FluxCut) -> @Sendable () -> State
    ) {
        core = FluxViewCore(sources, by: isSame, capture) { $0.take(capture) { $0() } }
    }

    /// Creates a view with a statically typed closure that reads the states: for stores alone it takes half as long, as
    /// it needs no closure per store.
    @inlinable
    init<States>(
        _ sources: FluxViewSources, by isSame: @escaping @Sendable (State, State) -> Bool,
        capture: @escaping @Sendable (FluxCut) -> @Sendable () -> State, read: @escaping @Sendable () -> States,
        _ transform: @escaping @Sendable (States) -> State
    ) {
        core = FluxViewCore(sources, by: isSame, capture) { sources in
            sources.isOfStores ? sources.take({ _ in read() }, transform) : sources.take(capture) { $0() }
        }
    }

    // If the view is released while a lock may be held, it ends once no lock is held.
    deinit { FluxPureCode.after { [core] in core.end() } }

    /// Creates a view that announces a value unless your function treats it as equal to the one announced last.
    ///
    /// - Parameters:
    ///   - source: The stores, views and other sources to combine.
    ///   - isSame: Returns whether two values count as equal.
    ///   - transform: Computes the value from the states of the sources, in their order. Called on
    ///     any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @inlinable @_disfavoredOverload
    public convenience init<each Source: FluxSource>(
        _ source: repeat each Source,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable (repeat (each Source).State) -> State
    ) {
        var sources: [any FluxSource] = []
        for source in repeat each source { sources.append(source) }
        let stamp: @Sendable () -> UInt64 = {
            var sum: UInt64 = 0
            for source in repeat each source { sum &+= source.stamp }
            return sum
        }
        self.init(
            FluxViewSources(sources, stamp: stamp), by: isSame, capture: Self.capture(repeat each source, by: transform)
        )
    }

    /// Captures the states of the sources, and computes the value from them.
    @inlinable
    static func capture<each Source: FluxSource>(
        _ source: repeat each Source, by transform: @escaping @Sendable (repeat (each Source).State) -> State
    ) -> @Sendable (FluxCut) -> @Sendable () -> State {
        { cut in
            let captures = (repeat (each source).capture(in: cut))
            return { transform(repeat (each captures)()) }
        }
    }

    /// Creates a view that announces each value that does not equal the one before.
    ///
    /// - Parameters:
    ///   - source: The stores, views and other sources to combine.
    ///   - transform: Computes the value from the states of the sources, in their order. Called on
    ///     any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @inlinable @_disfavoredOverload
    public convenience init<each Source: FluxSource>(
        _ source: repeat each Source,
        transform: @escaping @Sendable (repeat (each Source).State) -> State
    ) where State: Equatable {
        self.init(repeat each source, by: { $0 == $1 }, transform)
    }

    /// Creates a view of any number of sources of one type, with values compared by your function.
    ///
    /// - Parameters:
    ///   - sources: The sources to combine, such as the stores of all rooms.
    ///   - isSame: Returns whether two values count as equal.
    ///   - transform: Computes the value from the states of the sources, in their order. Called on
    ///     any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @inlinable
    public convenience init<Sources: Swift.Collection>(
        _ sources: Sources,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable ([Sources.Element.State]) -> State
    ) where Sources.Element: FluxSource {
        let sources = Array(sources)
        self.init(FluxViewSources(sources), by: isSame) { cut in
            let captures = sources.map { $0.capture(in: cut) }
            return { transform(captures.map { $0() }) }
        }
    }

    /// Creates a view of any number of sources of one type that announces each value that does not equal the one
    /// before.
    ///
    /// ```swift
    /// let guests = FluxView(rooms.values) { rooms in rooms.reduce(0) { $0 + $1.guests.count } }
    /// ```
    ///
    /// - Parameters:
    ///   - sources: The sources to combine, such as the stores of all rooms.
    ///   - transform: Computes the value from the states of the sources, in their order. Called on
    ///     any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @inlinable
    public convenience init<Sources: Swift.Collection>(
        _ sources: Sources, transform: @escaping @Sendable ([Sources.Element.State]) -> State
    ) where State: Equatable, Sources.Element: FluxSource {
        self.init(sources, by: { $0 == $1 }, transform)
    }

    /// Creates a view of sources known only by their state type, with values compared by your function.
    ///
    /// - Parameters:
    ///   - sources: The sources to combine: stores and views together, if they have the same state type.
    ///   - isSame: Returns whether two values count as equal.
    ///   - transform: Computes the value from the states of the sources, in their order. Called on
    ///     any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    public convenience init<Input: Sendable>(
        _ sources: [any FluxSource<Input>],
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable ([Input]) -> State
    ) {
        self.init(FluxViewSources(sources), by: isSame) { cut in
            let captures = sources.map { $0.capture(in: cut) }
            return { transform(captures.map { $0() }) }
        }
    }

    /// Creates a view of sources known only by their state type.
    ///
    /// - Parameters:
    ///   - sources: The sources to combine: stores and views together, if they have the same state type.
    ///   - transform: Computes the value from the states of the sources, in their order. Called on
    ///     any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    public convenience init<Input: Sendable>(
        _ sources: [any FluxSource<Input>], transform: @escaping @Sendable ([Input]) -> State
    ) where State: Equatable {
        self.init(sources, by: { $0 == $1 }, transform)
    }

    /// Creates a view of a collection of sources known only by their state type, with values compared by your function.
    ///
    /// - Parameters:
    ///   - sources: The sources to combine: stores and views together, such as the values of a dictionary.
    ///   - isSame: Returns whether two values count as equal.
    ///   - transform: Computes the value from the states of the sources, in their order. Called on
    ///     any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @_disfavoredOverload
    public convenience init<Input: Sendable>(
        _ sources: some Swift.Collection<any FluxSource<Input>>,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable ([Input]) -> State
    ) {
        self.init(Array(sources), by: isSame, transform)
    }

    /// Creates a view of a collection of sources known only by their state type.
    ///
    /// - Parameters:
    ///   - sources: The sources to combine: stores and views together, such as the values of a dictionary.
    ///   - transform: Computes the value from the states of the sources, in their order. Called on
    ///     any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @_disfavoredOverload
    public convenience init<Input: Sendable>(
        _ sources: some Swift.Collection<any FluxSource<Input>>, transform: @escaping @Sendable ([Input]) -> State
    ) where State: Equatable {
        self.init(Array(sources), by: { $0 == $1 }, transform)
    }

    /// Not available: an array cannot combine sources of different state types.
    @available(
        *, unavailable,
        message: "the sources have states of different types. Pass them one by one: FluxView(a, b) { a, b in … }"
    )
    @_disfavoredOverload
    public convenience init(
        _ sources: [any FluxSource], by isSame: @escaping (State, State) -> Bool, transform: @escaping ([Any]) -> State
    ) { Swift.fatalError() }

    /// Not available: an array cannot combine sources of different state types.
    @available(
        *, unavailable,
        message: "the sources have states of different types. Pass them one by one: FluxView(a, b) { a, b in … }"
    )
    @_disfavoredOverload
    public convenience init(_ sources: [any FluxSource], transform: @escaping ([Any]) -> State) where State: Equatable {
        Swift.fatalError()
    }

    /// Creates a view of all members of a group, with values compared by your function.
    ///
    /// - Parameters:
    ///   - group: The members by key, such as a family.
    ///   - isSame: Returns whether two values count as equal.
    ///   - transform: Computes the value from the states of the members, by key. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* members, and one call of `transform`.
    @inlinable
    public convenience init<Group: FluxSource, Key: Hashable & Sendable, Member: FluxSource>(
        _ group: Group,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable ([Key: Member.State]) -> State
    ) where Group.State == [Key: Member] {
        self.init(group, { $0 }, by: isSame, transform)
    }

    /// Creates a view of all members of a group, as they come and go, that announces each value that
    /// does not equal the one before.
    ///
    /// ```swift
    /// let guests = FluxView(rooms) { rooms in rooms.values.reduce(0) { $0 + $1.guests.count } }
    /// ```
    ///
    /// The view keeps the group alive, but none of its members. A member that comes or goes is a change like any other.
    ///
    /// - Parameters:
    ///   - group: The members by key, such as a family.
    ///   - transform: Computes the value from the states of the members, by key. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* members, and one call of `transform`.
    @inlinable
    public convenience init<Group: FluxSource, Key: Hashable & Sendable, Member: FluxSource>(
        _ group: Group, transform: @escaping @Sendable ([Key: Member.State]) -> State
    ) where State: Equatable, Group.State == [Key: Member] {
        self.init(group, { $0 }, by: { $0 == $1 }, transform)
    }

    /// Creates a view of one source per member of a group, with values compared by your function.
    ///
    /// - Parameters:
    ///   - group: The members by key, such as a family.
    ///   - source: A key path or closure that returns the source to read for a member. It must be fast, as pure as
    ///     `handle(action:)`, and return the same source on every call.
    ///   - isSame: Returns whether two values count as equal.
    ///   - transform: Computes the value from the states of the members, by key. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* members, and one call of `transform`.
    @inlinable
    public convenience init<Group: FluxSource, Key: Hashable & Sendable, Member: Sendable, Source: FluxSource>(
        _ group: Group,
        _ source: @escaping @Sendable (Member) -> Source,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable ([Key: Source.State]) -> State
    ) where Group.State == [Key: Member] {
        let members = FluxMembers(group, source)
        self.init(FluxViewSources(members), by: isSame) { cut in
            let capture = members.capture(in: cut)
            return { transform(capture()) }
        }
    }

    /// Creates a view of one source per member of a group that announces each value that does not equal the one before.
    ///
    /// ```swift
    /// let guests = FluxView(desks, \.store) { rooms in rooms.values.reduce(0) { $0 + $1.guests.count } }
    /// ```
    ///
    /// - Parameters:
    ///   - group: The members by key, such as a family.
    ///   - source: A key path or closure that returns the source to read for a member. It must be fast, as pure as
    ///     `handle(action:)`, and return the same source on every call.
    ///   - transform: Computes the value from the states of the members, by key. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* members, and one call of `transform`.
    @inlinable
    public convenience init<Group: FluxSource, Key: Hashable & Sendable, Member: Sendable, Source: FluxSource>(
        _ group: Group, _ source: @escaping @Sendable (Member) -> Source,
        transform: @escaping @Sendable ([Key: Source.State]) -> State
    ) where State: Equatable, Group.State == [Key: Member] {
        self.init(group, source, by: { $0 == $1 }, transform)
    }

    // MARK: - As a source

    /// The value computed from the sources as they are at this moment.
    ///
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform` if a change was applied since the last. For a
    ///   view of views, this applies to each of those views, where *n* is the number of stores below.
    @inlinable public var state: State { core.upToDate().value }

    /// A number that differs after each change of a source.
    @inlinable public var stamp: UInt64 { core.sources.stamp() }

    /// The stores of the sources.
    public var stores: [FluxStoreInfo] { core.sources.stores() }

    /// Captures the inputs of the value for the cut of another view.
    ///
    /// - Parameter cut: The readings taken so far.
    /// - Returns: A closure that computes the value.
    @inlinable
    public func capture(in cut: FluxCut) -> @Sendable () -> State {
        core.capture(in: cut)
    }

    /// Reports every change of a source without computing anything; the value may be the same after it.
    ///
    /// - Parameter changed: Called at each change, while the lock of a store may be held. Returns the object to
    ///   settle once no lock is held.
    /// - Returns: The token. Watching ends when it is released.
    public func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
        core.sources.watch(changed)
    }

    /// Calls a handler with the values announced from now on.
    ///
    /// - Parameters:
    ///   - delivery: Which values to deliver when they arrive faster than the handler takes them. With `.latest`,
    ///     nothing is delivered if the value announced last counts as equal to the one delivered before.
    ///   - queue: The queue to call the handler on; nil for the view's own serial queue.
    ///   - startingWithCurrent: Whether to deliver the current value first.
    ///   - ended: Called after the last value; nil if not needed.
    ///   - handler: Receives the value.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    public func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription {
        let distinct = delivery == .latest ? core.distinct : FluxDistinct(by: nil)
        return core.following {
            core.inner.subscribe(delivery, on: queue, startingWithCurrent: startingWithCurrent, ended: ended) {
                if distinct.isChange(to: $0) { handler($0.value) }
            }
        }
    }

    /// Waits until every change made before the call has been delivered to every subscription, or the task is
    /// cancelled.
    ///
    /// A change that a store holds back while it loads counts as made once the load has ended.
    public func flush() async {
        core.upToDate()
        await core.inner.flush()
    }
}

nonisolated extension FluxSource {
    /// Returns a view of a part of the state, for a feature that needs nothing else.
    ///
    /// - Parameter part: A key path or closure that selects the part.
    /// - Returns: A view that keeps this source alive and announces the part when it has changed.
    @inlinable
    public func view<Part: Equatable & Sendable>(
        _ part: @escaping @Sendable (State) -> Part
    ) -> FluxView<Part> {
        FluxView(self, transform: part)
    }

    /// Returns a view of a part of the state that is not Equatable, for a feature that needs nothing else.
    ///
    /// - Parameters:
    ///   - part: A key path or closure that selects the part.
    ///   - isSame: Returns whether two parts count as equal.
    /// - Returns: A view that keeps this source alive and announces the part when your function says it has changed.
    @inlinable
    public func view<Part: Sendable>(
        _ part: @escaping @Sendable (State) -> Part, by isSame: @escaping @Sendable (Part, Part) -> Bool
    ) -> FluxView<Part> {
        FluxView(self, by: isSame, part)
    }
}
