import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// A state that follows from those of other sources: a store to read from and to watch, without actions.
///
/// ```swift
/// let total = FluxView(cart, prices) { cart, prices in cart.total(at: prices) }
/// let subscription = total.subscribe { total in print(total) }
/// let badge = store.view(\.cart.count)  // all that a feature needs to know of the store
/// ```
///
/// It is a cut (C11): it never shows an action's effect on one of its stores without its effect on the others, announced
/// or not. That holds for the stores of each dispatcher, however many it has stores of, and for views of views; an action that
/// passes a child is one step for the stores of the child and another for those above. Its values never go back in any store.
///
/// It computes when it is read or watched and only if a change was applied since, and may do so once more for each view that is
/// made of it; it announces what is not equal to the value before. It takes its cuts at its own pace, so changes that come faster
/// are one change of the view; every value that it announces is delivered as the subscription has it. Whoever must see each
/// change of a store subscribes to the store.
///
/// A view keeps its sources, and the dispatchers that it found their stores at: middleware that uses a view of a store of its
/// own dispatcher captures it weakly. When its last reference goes, it reads its sources once more if somebody watches it, delivers
/// what is due, lets go of the sources at once, and ends its subscriptions (C10).
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters; not inside
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

    /// One whose states are read in a step whose types are known: of stores alone, without a closure for each, it takes half as long.
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

    // Let go of with some lock held it ends once there is none.
    deinit { FluxPureCode.after { [core] in core.end() } }

    /// Makes a view that announces a value unless a function of yours says that it is as good as the last.
    ///
    /// - Parameters:
    ///   - source: What to combine: stores, views, and other sources.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
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

    /// Takes what a value is made of, and makes it.
    @inlinable
    static func capture<each Source: FluxSource>(
        _ source: repeat each Source, by transform: @escaping @Sendable (repeat (each Source).State) -> State
    ) -> @Sendable (FluxCut) -> @Sendable () -> State {
        { cut in
            let captures = (repeat (each source).capture(in: cut))
            return { transform(repeat (each captures)()) }
        }
    }

    /// Makes a view that announces what is not equal to the value before.
    ///
    /// - Parameters:
    ///   - source: What to combine: stores, views, and other sources.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @inlinable @_disfavoredOverload
    public convenience init<each Source: FluxSource>(
        _ source: repeat each Source,
        transform: @escaping @Sendable (repeat (each Source).State) -> State
    ) where State: Equatable {
        self.init(repeat each source, by: { $0 == $1 }, transform)
    }

    /// Makes a view of any number of sources of one type, compared by a function of yours.
    ///
    /// - Parameters:
    ///   - sources: What to combine, such as the stores of all rooms.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
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

    /// Makes a view of any number of sources of one type that announces what is not equal to the value before.
    ///
    /// ```swift
    /// let guests = FluxView(rooms.values) { rooms in rooms.reduce(0) { $0 + $1.guests.count } }
    /// ```
    ///
    /// - Parameters:
    ///   - sources: What to combine, such as the stores of all rooms.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @inlinable
    public convenience init<Sources: Swift.Collection>(
        _ sources: Sources, transform: @escaping @Sendable ([Sources.Element.State]) -> State
    ) where State: Equatable, Sources.Element: FluxSource {
        self.init(sources, by: { $0 == $1 }, transform)
    }

    /// Makes a view of sources of which nothing is known but their state, compared by a function of yours.
    ///
    /// - Parameters:
    ///   - sources: What to combine: stores and views together, if they are of one state.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
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

    /// Makes a view of sources of which nothing is known but their state.
    ///
    /// - Parameters:
    ///   - sources: What to combine: stores and views together, if they are of one state.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    public convenience init<Input: Sendable>(
        _ sources: [any FluxSource<Input>], transform: @escaping @Sendable ([Input]) -> State
    ) where State: Equatable {
        self.init(sources, by: { $0 == $1 }, transform)
    }

    /// Makes a view of a collection of sources of which nothing is known but their state, compared by a function of yours.
    ///
    /// - Parameters:
    ///   - sources: What to combine: stores and views together, such as the values of a dictionary.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @_disfavoredOverload
    public convenience init<Input: Sendable>(
        _ sources: some Swift.Collection<any FluxSource<Input>>,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable ([Input]) -> State
    ) {
        self.init(Array(sources), by: isSame, transform)
    }

    /// Makes a view of a collection of sources of which nothing is known but their state.
    ///
    /// - Parameters:
    ///   - sources: What to combine: stores and views together, such as the values of a dictionary.
    ///   - transform: Makes the value from the states of the sources, in their order. Called on any thread, with no lock
    ///     held.
    /// - Complexity: O(*n*) for *n* sources, and one call of `transform`.
    @_disfavoredOverload
    public convenience init<Input: Sendable>(
        _ sources: some Swift.Collection<any FluxSource<Input>>, transform: @escaping @Sendable ([Input]) -> State
    ) where State: Equatable {
        self.init(Array(sources), by: { $0 == $1 }, transform)
    }

    /// Makes a view of all members of a group, compared by a function of yours.
    ///
    /// - Parameters:
    ///   - group: The members by key, such as a family.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states of the members, by key. Called on any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* members, and one call of `transform`.
    @inlinable
    public convenience init<Group: FluxSource, Key: Hashable & Sendable, Member: FluxSource>(
        _ group: Group,
        by isSame: @escaping @Sendable (State, State) -> Bool,
        _ transform: @escaping @Sendable ([Key: Member.State]) -> State
    ) where Group.State == [Key: Member] {
        self.init(group, { $0 }, by: isSame, transform)
    }

    /// Makes a view of all members of a group, as they come and go, that announces what is not equal to the value before.
    ///
    /// ```swift
    /// let guests = FluxView(rooms) { rooms in rooms.values.reduce(0) { $0 + $1.guests.count } }
    /// ```
    ///
    /// It keeps the group and none of its members. One that comes or goes is a change like any other.
    ///
    /// - Parameters:
    ///   - group: The members by key, such as a family.
    ///   - transform: Makes the value from the states of the members, by key. Called on any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* members, and one call of `transform`.
    @inlinable
    public convenience init<Group: FluxSource, Key: Hashable & Sendable, Member: FluxSource>(
        _ group: Group, transform: @escaping @Sendable ([Key: Member.State]) -> State
    ) where State: Equatable, Group.State == [Key: Member] {
        self.init(group, { $0 }, by: { $0 == $1 }, transform)
    }

    /// Makes a view of what all members of a group have, compared by a function of yours.
    ///
    /// - Parameters:
    ///   - group: The members by key, such as a family.
    ///   - source: What to read of a member, as a key path or a closure: quick, as pure as `handle(action:)`, and the same
    ///     source at each call.
    ///   - isSame: Whether two values are as good as equal.
    ///   - transform: Makes the value from the states of the members, by key. Called on any thread, with no lock held.
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

    /// Makes a view of what all members of a group have that announces what is not equal to the value before.
    ///
    /// ```swift
    /// let guests = FluxView(desks, \.store) { rooms in rooms.values.reduce(0) { $0 + $1.guests.count } }
    /// ```
    ///
    /// - Parameters:
    ///   - group: The members by key, such as a family.
    ///   - source: What to read of a member, as a key path or a closure: quick, as pure as `handle(action:)`, and the same
    ///     source at each call.
    ///   - transform: Makes the value from the states of the members, by key. Called on any thread, with no lock held.
    /// - Complexity: O(*n*) for *n* members, and one call of `transform`.
    @inlinable
    public convenience init<Group: FluxSource, Key: Hashable & Sendable, Member: Sendable, Source: FluxSource>(
        _ group: Group, _ source: @escaping @Sendable (Member) -> Source,
        transform: @escaping @Sendable ([Key: Source.State]) -> State
    ) where State: Equatable, Group.State == [Key: Member] {
        self.init(group, source, by: { $0 == $1 }, transform)
    }

    // MARK: - As a source

    /// The value as the sources are at this moment.
    ///
    /// - Complexity: O(*n*) for *n* sources; one call of `transform` if a change was applied since the last. Of a view of views that for
    ///   each of them, where *n* is how many stores are below.
    @inlinable public var state: State { core.upToDate().value }

    /// The sum of those of the sources.
    @inlinable public var stamp: UInt64 { core.sources.stamp() }

    /// Those of the sources.
    public var stores: [FluxStoreInfo] { core.sources.stores() }

    /// Takes what the value follows from, for the cut of another view.
    ///
    /// - Parameter cut: What was read before.
    /// - Returns: Computes the value.
    @inlinable
    public func capture(in cut: FluxCut) -> @Sendable () -> State {
        core.capture(in: cut)
    }

    /// Tells of every change of a source, though the value may be the same after it; nothing is computed for it.
    ///
    /// - Parameter changed: Called under the lock of a store at each change; returns whom to settle once that is free.
    /// - Returns: The token, which ends it when it goes.
    public func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
        core.sources.watch(changed)
    }

    /// Calls a handler with the values that are announced from now on.
    ///
    /// - Parameters:
    ///   - delivery: What to get where changes come faster than they are taken; by `.latest` nothing where what was
    ///     announced last is as good as the value that was handed over before.
    ///   - queue: Where to call the handler; nil: on a serial queue of the view's own.
    ///   - startingWithCurrent: Whether to be called with the current value first.
    ///   - ended: Called after the last value; nil where nobody asks.
    ///   - handler: Gets the value.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
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

    /// Waits until every change made before the call has been handed to every subscription, or the task is cancelled.
    ///
    /// What a store holds back while it loads is made once the load has ended.
    public func flush() async {
        core.upToDate()
        await core.inner.flush()
    }
}

nonisolated extension FluxSource {
    /// A view of a part of the state, for a feature that needs to know no more.
    ///
    /// - Parameter part: The part, as a key path or a closure.
    /// - Returns: A view that keeps this source and announces the part when it has changed.
    @inlinable
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
    @inlinable
    public func view<Part: Sendable>(
        _ part: @escaping @Sendable (State) -> Part, by isSame: @escaping @Sendable (Part, Part) -> Bool
    ) -> FluxView<Part> {
        FluxView(self, by: isSame, part)
    }
}
