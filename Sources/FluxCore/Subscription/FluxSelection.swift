import Dispatch

/// A part of a state, watched for changes of its own.
///
/// The closure that selects is called once per change on the queue of the subscription; a change that leaves the part as
/// it was costs the subscriber a comparison and no call.
nonisolated extension FluxSource {
    /// Calls a handler with a part of the state whenever that part has changed.
    ///
    /// ```swift
    /// let total = store.subscribe(to: \.cart.total) { total in print(total) }
    /// let isEmpty = store.subscribe(to: { $0.cart.lines.isEmpty }) { isEmpty in print(isEmpty) }
    /// ```
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure; called at most once per change, on the queue of the subscription.
    ///   - delivery: What to select from where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to select and to call the handler; by default on a serial queue of the source.
    ///   - startingWithCurrent: True to be called with the current part first, in one step with the start (C5).
    ///   - handler: Gets the part as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable @_disfavoredOverload
    public func subscribe<Value: Equatable & Sendable>(
        to select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (Value) -> Void
    ) -> FluxSubscription {
        subscribe(
            to: select, by: { $0 == $1 }, delivery, on: queue, startingWithCurrent: startingWithCurrent, handler)
    }

    /// Calls a handler with a part of the state whenever a function of yours says that it has changed.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure; called at most once per change, on the queue of the subscription.
    ///   - isSame: Whether two parts are as good as equal.
    ///   - delivery: What to select from where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to select and to call the handler; by default on a serial queue of the source.
    ///   - startingWithCurrent: True to be called with the current part first, in one step with the start (C5).
    ///   - handler: Gets the part as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable
    public func subscribe<Value: Sendable>(
        to select: @escaping @Sendable (State) -> Value,
        by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (Value) -> Void
    ) -> FluxSubscription {
        let (wish, watch) = watching(
            select, by: isSame, delivery, on: queue, startingWithCurrent: startingWithCurrent
        ) { old, new in
            if old != nil || startingWithCurrent { handler(new) }
        }
        return subscribe(wish, watch)
    }

    /// Calls a handler with the old and the new value of a part of the state whenever that part has changed.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure; called at most once per change, on the queue of the subscription.
    ///   - delivery: What to select from where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to select and to call the handler; by default on a serial queue of the source.
    ///   - handler: Gets the part as the handler saw it last, or as it was at the start, and as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable @_disfavoredOverload
    public func subscribe<Value: Equatable & Sendable>(
        to select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ old: Value, _ new: Value) -> Void
    ) -> FluxSubscription {
        let (wish, watch) = watching(
            select, by: { $0 == $1 }, delivery, on: queue, startingWithCurrent: false
        ) { old, new in
            if let old { handler(old, new) }
        }
        return subscribe(wish, watch)
    }

    /// Calls a handler on the main actor with the old and the new value of a part of the state that has changed.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure; called at most once per change, on the main queue.
    ///   - delivery: What to select from where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - handler: Gets the part as the handler saw it last, or as it was at the start, and as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable
    public func subscribe<Value: Equatable & Sendable>(
        to select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ old: Value, _ new: Value) -> Void
    ) -> FluxSubscription {
        subscribe(to: select, delivery, on: DispatchQueue.main, main.bind(handler))
    }

    /// Calls a handler on the main actor with a part of the state whenever that part has changed.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure; called at most once per change, on the main queue.
    ///   - delivery: What to select from where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - startingWithCurrent: True to be called with the current part first, in one step with the start (C5).
    ///   - handler: Gets the part as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable
    public func subscribe<Value: Equatable & Sendable>(
        to select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @MainActor @Sendable (Value) -> Void
    ) -> FluxSubscription {
        subscribe(
            to: select, by: { $0 == $1 }, delivery, on: .main, startingWithCurrent: startingWithCurrent,
            main.bind(handler))
    }

    /// Calls a handler when any of several parts of the state has changed, and says which.
    ///
    /// ```swift
    /// let parts = store.subscribe(toAnyOf: \.cart, \.user) { state, changed in
    ///     if changed.contains(\.user) { print(state.user) }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - part: The parts; each is compared with what the handler saw last, or with what it was at the start.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to compare and to call the handler; by default on a serial queue of the source.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    /// - Complexity: O(*n*) per change for *n* parts.
    @_disfavoredOverload
    public func subscribe<each Value: Equatable & Sendable>(
        toAnyOf part: repeat any KeyPath<State, each Value> & Sendable,
        delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        let known = partBeforeStart(delivery) { (repeat $0[keyPath: each part]) }
        let last = FluxLast(known)
        return subscribe(FluxWish(delivery, on: queue, startingWithCurrent: known == nil)) { state in
            let new = (repeat state[keyPath: each part])
            var changed: Set<PartialKeyPath<State>> = []
            if let old = last.value {
                for (path, old, new) in repeat (each part, each old, each new) {
                    if old != new { changed.insert(path) }
                }
                if changed.isEmpty { return }
            }
            last.value = new
            if !changed.isEmpty { handler(state, changed) }
        }
    }

    /// Calls a handler on the main actor when any of several parts of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - part: The parts; each is compared with what the handler saw last, or with what it was at the start.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    /// - Complexity: O(*n*) per change for *n* parts.
    public func subscribe<each Value: Equatable & Sendable>(
        toAnyOf part: repeat any KeyPath<State, each Value> & Sendable,
        delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        // A set of key paths is of no type that may be handed over: it is the only reference to itself.
        subscribe(toAnyOf: repeat each part, delivery: delivery, on: DispatchQueue.main) { state, changed in
            let changed = FluxGuarded(changed)
            MainActor.assumeIsolated { handler(state, changed.value) }
        }
    }

    /// What the first change is compared with, where that is not the first state that is handed over.
    ///
    /// By `latest` the first state handed over may be one after the first change: so the part is taken here, before the
    /// start. Otherwise nil, and it is taken from the state at the start, in one step with that.
    @usableFromInline
    func partBeforeStart<Value>(_ delivery: FluxDelivery, _ select: (State) -> Value) -> Value? {
        guard case .latest = delivery.kind else { return nil }
        return select(feed.origin.currentState)
    }

    /// What to ask for, and what to do with each state, to call a function with what was selected last and what is now, if
    /// they differ; first with nil and the first.
    ///
    /// Made in the client's module, so that selecting and comparing are the client's own code.
    @inlinable
    func watching<Value: Sendable>(
        _ select: @escaping @Sendable (State) -> Value,
        by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ delivery: FluxDelivery,
        on queue: DispatchQueue?,
        startingWithCurrent: Bool,
        _ body: @escaping @Sendable (_ old: Value?, _ new: Value) -> Void
    ) -> (FluxWish, @Sendable (State) -> Void) {
        let known = startingWithCurrent ? nil : partBeforeStart(delivery, select)
        let last = FluxLast(known)
        return (
            FluxWish(delivery, on: queue, startingWithCurrent: known == nil),
            { state in
                let new = select(state)
                if let old = last.value, isSame(old, new) { return }
                let old = last.value
                last.value = new
                body(old, new)
            }
        )
    }
}

/// Makes of an expensive computation one that computes again only when what it starts from has changed.
///
/// ```swift
/// let visible = fluxSelector(\Todos.items, \Todos.filter) { items, filter in items.filter(filter.accepts) }
/// let one = store.subscribe(to: visible) { items in print(items) }
/// let other = store.subscribe(to: visible) { items in print(items.count) }  // computed once for both
/// ```
///
/// The result may be used wherever a part of a state is selected, by any number of subscriptions and stores, from any
/// thread. Threads that need the same new value at the same moment may each compute it.
///
/// - Parameters:
///   - input: The parts of the state that the computation starts from.
///   - capacity: How many computed values to keep, those used last; more than 1 helps where it is used for several stores.
///   - compute: Computes the value; not called while a value for equal inputs is kept.
/// - Returns: A function from the state to the value.
/// - Complexity: O(*n*) comparisons per use for *n* values kept.
nonisolated public func fluxSelector<State, each Input: Equatable & Sendable, Value: Sendable>(
    _ input: repeat @escaping @Sendable (State) -> each Input,
    capacity: Int = 1,
    _ compute: @escaping @Sendable (repeat each Input) -> Value
) -> @Sendable (State) -> Value {
    let memory = FluxMemory<(repeat each Input), Value>(capacity: capacity)
    return { state in
        let inputs = (repeat (each input)(state))
        let known = memory.value { kept in
            for (one, other) in repeat (each kept, each inputs) {
                if one != other { return false }
            }
            return true
        }
        if let known { return known }
        let value = compute(repeat each inputs)
        memory.keep(value, for: inputs)
        return value
    }
}
