import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// Ways to watch up to four parts of a state at once, and to learn which of them have changed.
///
/// There is an overload for each number of parts: an unlabelled delivery cannot follow a parameter pack, and wrong
/// calls of a pack crash Swift 6.3.
nonisolated extension FluxSource {
    /// Calls a handler every time a part of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        subscribe(toAnyOf: first, .every, handler)
    }

    /// Calls a handler when a part of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - delivery: Which changes to compare when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - queue: The queue to call the handler on; by default a serial queue of the source.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first)], delivery, on: queue) { handler($0.state, $0.paths) }
    }

    /// Calls a handler on the main actor when a part of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - delivery: Which changes to compare when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - main: The main queue.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first)], delivery, on: .main, main.bind { handler($0.state, $0.paths) })
    }

    /// Calls a handler every time one of two parts of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - second: Another part.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        subscribe(toAnyOf: first, second, .every, handler)
    }

    /// Calls a handler when one of two parts of the state has changed, and reports which.
    ///
    /// ```swift
    /// let parts = store.subscribe(toAnyOf: \.cart, \.user) { state, changed in
    ///     if changed.contains(\.user) { print(state.user) }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - second: Another part.
    ///   - delivery: Which changes to compare when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - queue: The queue to call the handler on; by default a serial queue of the source.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second)], delivery, on: queue) { handler($0.state, $0.paths) }
    }

    /// Calls a handler on the main actor when one of two parts of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - second: Another part.
    ///   - delivery: Which changes to compare when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - main: The main queue.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second)], delivery, on: .main, main.bind { handler($0.state, $0.paths) })
    }

    /// Calls a handler every time one of three parts of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - second: Another part.
    ///   - third: Another part.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ third: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        subscribe(toAnyOf: first, second, third, .every, handler)
    }

    /// Calls a handler when one of three parts of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - second: Another part.
    ///   - third: Another part.
    ///   - delivery: Which changes to compare when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - queue: The queue to call the handler on; by default a serial queue of the source.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ third: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second), FluxPart(third)], delivery, on: queue) { handler($0.state, $0.paths) }
    }

    /// Calls a handler on the main actor when one of three parts of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - second: Another part.
    ///   - third: Another part.
    ///   - delivery: Which changes to compare when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - main: The main queue.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ third: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch(
            [FluxPart(first), FluxPart(second), FluxPart(third)], delivery, on: .main,
            main.bind { handler($0.state, $0.paths) })
    }

    /// Calls a handler every time one of four parts of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - second: Another part.
    ///   - third: Another part.
    ///   - fourth: Another part.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ third: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ fourth: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        subscribe(toAnyOf: first, second, third, fourth, .every, handler)
    }

    /// Calls a handler when one of four parts of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - second: Another part.
    ///   - third: Another part.
    ///   - fourth: Another part.
    ///   - delivery: Which changes to compare when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - queue: The queue to call the handler on; by default a serial queue of the source.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ third: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ fourth: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second), FluxPart(third), FluxPart(fourth)], delivery, on: queue) {
            handler($0.state, $0.paths)
        }
    }

    /// Calls a handler on the main actor when one of four parts of the state has changed, and reports which.
    ///
    /// - Parameters:
    ///   - first: A part. Each part is compared with the value that the handler saw last, or
    ///     with its value at the start.
    ///   - second: Another part.
    ///   - third: Another part.
    ///   - fourth: Another part.
    ///   - delivery: Which changes to compare when they arrive faster than the handler takes
    ///     them; by default all of them.
    ///   - main: The main queue.
    ///   - handler: Receives the state after the change, and the key paths of the parts that differ.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ third: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ fourth: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch(
            [FluxPart(first), FluxPart(second), FluxPart(third), FluxPart(fourth)], delivery, on: .main,
            main.bind { handler($0.state, $0.paths) })
    }

    private func watch(
        _ parts: [FluxPart<State>], _ delivery: FluxDelivery, on queue: DispatchQueue?,
        _ handler: @escaping @Sendable (FluxPartsChange<State>) -> Void
    ) -> FluxSubscription {
        watch(
            { state in parts.map { $0.value(state) } }, by: { $0.elementsEqual($1, by: fluxIsEqual) },
            delivery, on: queue, startingWithCurrent: false,
            { state, change in
                let old = change.old ?? []
                let changed = old.indices.filter { !fluxIsEqual(old[$0], change.new[$0]) }
                return FluxPartsChange(state: state, parts: changed.map { parts[$0] }, old: old)
            }, handler)
    }
}

/// A part of a state, with the type of the part erased.
nonisolated private struct FluxPart<State>: Sendable {
    let path: any PartialKeyPath<State> & Sendable
    let value: @Sendable (State) -> any Equatable & Sendable

    init<Value: Equatable & Sendable>(_ path: any KeyPath<State, Value> & Sendable) {
        self.path = path
        value = { $0[keyPath: path] }
    }
}

/// Whether two values of one part are equal.
nonisolated private func fluxIsEqual(_ one: any Equatable & Sendable, _ other: any Equatable & Sendable) -> Bool {
    func isEqual<Value: Equatable>(_ one: Value) -> Bool { one == other as? Value }
    return isEqual(one)
}

/// A state, and which parts of it have changed.
nonisolated private struct FluxPartsChange<State: Sendable>: Sendable {
    let state: State
    let parts: [FluxPart<State>]
    /// Released where the handler is called, rather than while the store's lock is held.
    let old: [any Equatable & Sendable]

    var paths: Swift.Set<PartialKeyPath<State>> { Swift.Set(parts.map { $0.path }) }
}
