import Dispatch

nonisolated extension FluxSource {
    /// Calls a handler with an object of yours and the states that are announced from now on, for as long as it lives.
    ///
    /// ```swift
    /// store.subscribe(with: cache) { cache, state in cache.replace(state.items) }
    /// ```
    ///
    /// The object is held weakly, so there is no token to keep and no `[weak self]` to write. The handler is never
    /// called once the object is gone, and is let go of with the next change after that, or as others subscribe so.
    ///
    /// - Parameters:
    ///   - owner: Whose life the subscription shares.
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
    ///   - startingWithCurrent: True to be called with the current state first, in one step with the start (C5).
    ///   - handler: Gets the object, and the state as the change left it; must not capture the object itself.
    @_disfavoredOverload
    public func subscribe<Owner: AnyObject & Sendable>(
        with owner: Owner,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (Owner, State) -> Void
    ) {
        let wish = FluxWish(delivery, on: queue, startingWithCurrent: startingWithCurrent)
        bind(to: owner, wish, isWhole: true, handler)
    }

    /// Calls a handler on the main actor with an object of yours and the states that are announced from now on.
    ///
    /// ```swift
    /// store.subscribe(with: self, .latest, on: .main) { controller, state in controller.label.text = state.title }
    /// ```
    ///
    /// - Parameters:
    ///   - owner: Whose life the subscription shares; held weakly.
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - startingWithCurrent: True to be called with the current state first, in one step with the start (C5).
    ///   - handler: Gets the object, and the state as the change left it; must not capture the object itself.
    public func subscribe<Owner: AnyObject & Sendable>(
        with owner: Owner,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @MainActor @Sendable (Owner, State) -> Void
    ) {
        subscribe(
            with: owner, delivery, on: DispatchQueue.main, startingWithCurrent: startingWithCurrent,
            main.bind(handler))
    }

    /// Calls a handler with an object of yours and a part of the state whenever that part has changed, while it lives.
    ///
    /// ```swift
    /// store.subscribe(with: index, to: \.items) { index, items in index.rebuild(items) }
    /// ```
    ///
    /// - Parameters:
    ///   - owner: Whose life the subscription shares; held weakly.
    ///   - select: The part, as a key path or a closure; called at most once per change, on the queue of the subscription.
    ///   - delivery: What to select from where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to select and to call the handler; by default on a serial queue of the source.
    ///   - startingWithCurrent: True to be called with the current part first, in one step with the start (C5).
    ///   - handler: Gets the object, and the part as the change left it; must not capture the object itself.
    @inlinable @_disfavoredOverload
    public func subscribe<Owner: AnyObject & Sendable, Value: Equatable & Sendable>(
        with owner: Owner,
        to select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (Owner, Value) -> Void
    ) {
        let (wish, watch) = watching(
            select, by: { $0 == $1 }, delivery, on: queue, startingWithCurrent: startingWithCurrent
        ) { [weak owner] old, new in
            if let owner, old != nil || startingWithCurrent { handler(owner, new) }
        }
        bind(to: owner, wish, isWhole: false) { _, state in watch(state) }
    }

    /// Calls a handler on the main actor with an object of yours and a part of the state whenever that has changed.
    ///
    /// ```swift
    /// store.subscribe(with: self, to: \.title, .latest, on: .main) { controller, title in controller.label.text = title }
    /// ```
    ///
    /// - Parameters:
    ///   - owner: Whose life the subscription shares; held weakly.
    ///   - select: The part, as a key path or a closure; called at most once per change, on the main queue.
    ///   - delivery: What to select from where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - startingWithCurrent: True to be called with the current part first, in one step with the start (C5).
    ///   - handler: Gets the object, and the part as the change left it; must not capture the object itself.
    @inlinable
    public func subscribe<Owner: AnyObject & Sendable, Value: Equatable & Sendable>(
        with owner: Owner,
        to select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @MainActor @Sendable (Owner, Value) -> Void
    ) {
        subscribe(
            with: owner, to: select, delivery, on: DispatchQueue.main, startingWithCurrent: startingWithCurrent,
            main.bind(handler))
    }

    /// Subscribes for as long as an object lives.
    ///
    /// - Parameters:
    ///   - owner: The object.
    ///   - wish: What is asked for.
    ///   - isWhole: Whether the states themselves are handed over, so that they are compared where that is promised.
    ///   - handler: Gets the object, and each state.
    @usableFromInline
    func bind<Owner: AnyObject & Sendable>(
        to owner: Owner, _ wish: FluxWish, isWhole: Bool, _ handler: @escaping @Sendable (Owner, State) -> Void
    ) {
        let leash = FluxLeash { [weak owner] in owner != nil }
        let handOver: @Sendable (State) -> Void = { [weak owner] state in
            if let owner { handler(owner, state) } else { leash.cut() }
        }
        leash.hold(feed.origin.enroll(wish, handler: isWhole ? distinct(wish.delivery, handOver) : handOver))
        feed.origin.keep(leash)
    }
}
