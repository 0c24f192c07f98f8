import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// Several parts of a state at once, up to four, and which of them have changed.
///
/// Written out for each number: an unlabelled delivery cannot stand behind a parameter pack, and wrong calls of one crash
/// Swift 6.3.
nonisolated extension FluxSource {
    /// Calls a handler each time that a part of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first)], .every, on: nil) { handler($0.state, $0.paths) }
    }

    /// Calls a handler when a part of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first)], delivery, on: queue) { handler($0.state, $0.paths) }
    }

    /// Calls a handler on the main actor when a part of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first)], delivery, on: .main, main.bind { handler($0.state, $0.paths) })
    }

    /// Calls a handler each time that one of two parts of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - second: Another.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second)], .every, on: nil) { handler($0.state, $0.paths) }
    }

    /// Calls a handler when one of two parts of the state has changed, and says which.
    ///
    /// ```swift
    /// let parts = store.subscribe(toAnyOf: \.cart, \.user) { state, changed in
    ///     if changed.contains(\.user) { print(state.user) }
    /// }
    /// ```
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - second: Another.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
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

    /// Calls a handler on the main actor when one of two parts of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - second: Another.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second)], delivery, on: .main, main.bind { handler($0.state, $0.paths) })
    }

    /// Calls a handler each time that one of three parts of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - second: Another.
    ///   - third: Another.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ third: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second), FluxPart(third)], .every, on: nil) { handler($0.state, $0.paths) }
    }

    /// Calls a handler when one of three parts of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - second: Another.
    ///   - third: Another.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
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

    /// Calls a handler on the main actor when one of three parts of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - second: Another.
    ///   - third: Another.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
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

    /// Calls a handler each time that one of four parts of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - second: Another.
    ///   - third: Another.
    ///   - fourth: Another.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @_disfavoredOverload
    public func subscribe(
        toAnyOf first: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ second: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ third: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ fourth: any KeyPath<State, some Equatable & Sendable> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Swift.Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second), FluxPart(third), FluxPart(fourth)], .every, on: nil) {
            handler($0.state, $0.paths)
        }
    }

    /// Calls a handler when one of four parts of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - second: Another.
    ///   - third: Another.
    ///   - fourth: Another.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
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

    /// Calls a handler on the main actor when one of four parts of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - second: Another.
    ///   - third: Another.
    ///   - fourth: Another.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
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

/// A part of a state, whatever its type.
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
    /// Let go of where the handler is called, and not under the lock of the store.
    let old: [any Equatable & Sendable]

    var paths: Swift.Set<PartialKeyPath<State>> { Swift.Set(parts.map { $0.path }) }
}
