import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// A part of a state, watched for changes of its own.
///
/// With `.every` the part is taken when a change is applied, in the step that announces it and under the rules of
/// `handle(action:)`: what waits is the part and not the state, and a change that leaves it as it was wakes nobody. With
/// `.latest` it is taken when it is handed over, under the same rules. What takes long to take belongs into a ``FluxView``.
nonisolated extension FluxSource {
    /// Calls a handler with a part of the state whenever that part has changed.
    ///
    /// ```swift
    /// let total = store.subscribe(to: \.cart.total) { total in print(total) }
    /// let isEmpty = store.subscribe(to: { $0.cart.lines.isEmpty }) { isEmpty in print(isEmpty) }
    /// ```
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
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
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - isSame: Whether two parts are as good as equal; as pure.
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
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
        change(of: select, by: isSame, delivery, on: queue, startingWithCurrent: startingWithCurrent) {
            handler($0.new)
        }
    }

    /// Calls a handler with the old and the new value of a part of the state whenever that part has changed.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
    ///   - handler: Gets the part as the handler saw it last, or as it was at the start, and as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable @_disfavoredOverload
    public func subscribe<Value: Equatable & Sendable>(
        to select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ old: Value, _ new: Value) -> Void
    ) -> FluxSubscription {
        change(of: select, by: { $0 == $1 }, delivery, on: queue, startingWithCurrent: false) { change in
            if let old = change.old { handler(old, change.new) }
        }
    }

    /// Calls a handler with a part of the state whenever that part has changed: with each change of it.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - handler: Gets the part as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable @_disfavoredOverload
    public func subscribe<Value: Equatable & Sendable>(
        to select: @escaping @Sendable (State) -> Value, _ handler: @escaping @Sendable (Value) -> Void
    ) -> FluxSubscription {
        subscribe(to: select, by: { $0 == $1 }, .every, handler)
    }

    /// Calls a handler with a part of the state whenever a function of yours says that it has changed: each time.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - isSame: Whether two parts are as good as equal; as pure.
    ///   - handler: Gets the part as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable @_disfavoredOverload
    public func subscribe<Value: Sendable>(
        to select: @escaping @Sendable (State) -> Value, by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ handler: @escaping @Sendable (Value) -> Void
    ) -> FluxSubscription {
        subscribe(to: select, by: isSame, .every, handler)
    }

    /// Calls a handler with the old and the new value of a part of the state: with each change of it.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - handler: Gets the part as the handler saw it last, or as it was at the start, and as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable @_disfavoredOverload
    public func subscribe<Value: Equatable & Sendable>(
        to select: @escaping @Sendable (State) -> Value,
        _ handler: @escaping @Sendable (_ old: Value, _ new: Value) -> Void
    ) -> FluxSubscription {
        subscribe(to: select, .every, handler)
    }

    /// Calls a handler on the main actor with the old and the new value of a part of the state that has changed.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
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
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - delivery: What to get where changes come faster than they are taken; by default each of them.
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

    /// Calls a handler with what was selected last and now, if they differ; where it is wanted, first with the first.
    ///
    /// With `.latest` a mark waits, and the part is read under the lock of the store: were the state in other hands meanwhile, a
    /// change would make a copy of it.
    @inlinable
    func change<Value: Sendable>(
        of select: @escaping @Sendable (State) -> Value,
        by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ delivery: FluxDelivery,
        on queue: DispatchQueue?,
        startingWithCurrent: Bool,
        _ handler: @escaping @Sendable ((old: Value?, new: Value)) -> Void
    ) -> FluxSubscription {
        FluxPureCode.forbid("subscribe(to:)")
        guard delivery == .latest, let source = self as? any FluxObservableSource, case let isMarked = FluxFlag(),
            let read = reader(
                in: source,
                of: { state in
                    // In the step that reads: what is marked after that has not been read.
                    isMarked.clear()
                    return select(state)
                })
        else {
            return watch(
                select, by: isSame, delivery, on: queue, startingWithCurrent: startingWithCurrent, { $1 }, handler)
        }
        let distinct = FluxDistinct(by: isSame, isAlone: true)
        let turns = queue.map { FluxTurns($0, isUsers: true) } ?? source.turns
        // One mark waits at most. On a queue of the user's each has a turn of its own.
        let delivery = FluxQueueDelivery<Void>(turns, turns.isUsers ? .latest : .none) {
            if let change = distinct.change(to: read()) { handler(change) }
            if isMarked.wasBurst { FluxTurns.linger() }
        }
        return connect(
            FluxReceiver(delivery) { state, isWanted in
                if isWanted { return isMarked.set() ? delivery.put(()) : nil }
                distinct.last = select(state)
                return nil
            }, startingWithCurrent: startingWithCurrent)
    }

    /// Reads a part of a source of this type, as its own type has it done.
    @inlinable
    func reader<Value, Source: FluxObservableSource>(
        in source: Source, of select: @escaping @Sendable (State) -> Value
    ) -> (@Sendable () -> Value)? {
        (select as? @Sendable (Source.State) -> Value).map { source.reader(of: $0) }
    }

    /// Calls a handler with what is made of a state and what was selected of it last and now, if they differ; where it is
    /// wanted, first with the first.
    @inlinable
    func watch<Value: Sendable, Element: Sendable>(
        _ select: @escaping @Sendable (State) -> Value,
        by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ delivery: FluxDelivery,
        on queue: DispatchQueue?,
        startingWithCurrent: Bool,
        _ make: @escaping @Sendable (State, (old: Value?, new: Value)) -> Element,
        _ handler: @escaping @Sendable (Element) -> Void
    ) -> FluxSubscription {
        // The first state that is handed over may be one after the first change: so what that is compared with is taken here.
        let isKnown = delivery == .latest && !startingWithCurrent
        let distinct = FluxDistinct(
            by: isSame, after: isKnown ? select(state) : nil, isAlone: self is any FluxObservableSource)
        if delivery == .every {
            let parts = self.delivery(on: queue, handler)
            return connect(
                FluxReceiver(parts) { state, isWanted in
                    guard let change = distinct.change(to: select(state)), isWanted else { return nil }
                    return parts.put(make(state, change))
                }, startingWithCurrent: startingWithCurrent)
        }
        return subscribe(delivery, on: queue, startingWithCurrent: true, ended: nil) { state in
            if let change = distinct.change(to: select(state)) { handler(make(state, change)) }
        }
    }
}
