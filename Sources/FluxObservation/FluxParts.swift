import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// Ways to watch a part of a state for its own changes.
///
/// With `.every`, the part is selected when a change is applied, in the step that announces the change and by the
/// rules of `handle(action:)`. The part waits, not the state, and a change that leaves the part as it was wakes
/// nothing. With `.latest`, the part is selected when it is delivered, by the same rules. A selection that takes
/// long belongs in a ``FluxView``.
nonisolated extension FluxSource {
    /// Calls a handler with a part of the state whenever that part has changed.
    ///
    /// ```swift
    /// let total = store.subscribe(to: \.cart.total) { total in print(total) }
    /// let isEmpty = store.subscribe(to: { $0.cart.lines.isEmpty }) { isEmpty in print(isEmpty) }
    /// ```
    ///
    /// - Parameters:
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - delivery: Which changes to deliver when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - queue: The queue to call the handler on; by default a serial queue of the source.
    ///   - startingWithCurrent: True to deliver the current part first, atomically with the start (C5).
    ///   - handler: Receives the part after the change.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
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

    /// Calls a handler with a part of the state whenever your function says that the part has changed.
    ///
    /// - Parameters:
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - isSame: Returns whether two parts count as equal; must be as pure as `select`.
    ///   - delivery: Which changes to deliver when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - queue: The queue to call the handler on; by default a serial queue of the source.
    ///   - startingWithCurrent: True to deliver the current part first, atomically with the start (C5).
    ///   - handler: Receives the part after the change.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
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
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - delivery: Which changes to deliver when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - queue: The queue to call the handler on; by default a serial queue of the source.
    ///   - handler: Receives the part as the handler last saw it, or as it was at the start,
    ///     and the part after the change.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
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

    /// Calls a handler with a part of the state at every change of that part.
    ///
    /// - Parameters:
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - handler: Receives the part after the change.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @inlinable @_disfavoredOverload
    public func subscribe<Value: Equatable & Sendable>(
        to select: @escaping @Sendable (State) -> Value, _ handler: @escaping @Sendable (Value) -> Void
    ) -> FluxSubscription {
        subscribe(to: select, by: { $0 == $1 }, .every, handler)
    }

    /// Calls a handler with a part of the state every time your function says that the part has changed.
    ///
    /// - Parameters:
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - isSame: Returns whether two parts count as equal; must be as pure as `select`.
    ///   - handler: Receives the part after the change.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @inlinable @_disfavoredOverload
    public func subscribe<Value: Sendable>(
        to select: @escaping @Sendable (State) -> Value, by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ handler: @escaping @Sendable (Value) -> Void
    ) -> FluxSubscription {
        subscribe(to: select, by: isSame, .every, handler)
    }

    /// Calls a handler with the old and the new value of a part of the state at every change of that part.
    ///
    /// - Parameters:
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - handler: Receives the part as the handler last saw it, or as it was at the start,
    ///     and the part after the change.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @inlinable @_disfavoredOverload
    public func subscribe<Value: Equatable & Sendable>(
        to select: @escaping @Sendable (State) -> Value,
        _ handler: @escaping @Sendable (_ old: Value, _ new: Value) -> Void
    ) -> FluxSubscription {
        subscribe(to: select, .every, handler)
    }

    /// Calls a handler on the main actor with the old and the new value of a part whenever that part has changed.
    ///
    /// - Parameters:
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - delivery: Which changes to deliver when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - main: The main queue.
    ///   - handler: Receives the part as the handler last saw it, or as it was at the start,
    ///     and the part after the change.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
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
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - delivery: Which changes to deliver when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - main: The main queue.
    ///   - startingWithCurrent: True to deliver the current part first, atomically with the start (C5).
    ///   - handler: Receives the part after the change.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
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

    /// Calls a handler with the previously and the newly selected value if they differ; if
    /// wanted, first with the current one.
    ///
    /// With `.latest`, only a mark waits, and the part is read while the store's lock is held. A reference to the state
    /// outside the lock would make the next change copy the state.
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
                    // Cleared while the lock is held for reading: a mark set later stands for a change not read yet.
                    isMarked.clear()
                    return select(state)
                })
        else {
            // The old value waits too, even if the handler does not want it: it must not be released under the lock.
            return watch(
                select, by: isSame, delivery, on: queue, startingWithCurrent: startingWithCurrent, { $1 }, handler)
        }
        let distinct = FluxDistinct(by: isSame, isAlone: true)
        // At most one mark waits. On a user's queue each mark gets its own turn.
        let delivery: FluxQueueDelivery<Void> = self.delivery(on: queue, bound: queue == nil ? .none : .latest) {
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

    /// Returns the closure that reads the part, created by the source's own type.
    @inlinable
    func reader<Value, Source: FluxObservableSource>(
        in source: Source, of select: @escaping @Sendable (State) -> Value
    ) -> (@Sendable () -> Value)? {
        (select as? @Sendable (Source.State) -> Value).map { source.reader(of: $0) }
    }

    /// Calls a handler with an element made from a state and the previously and newly selected values, if these differ.
    ///
    /// If wanted, it calls the handler for the current state first.
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
        // The first state delivered may already follow the first change, so the value to compare it with is taken here.
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
