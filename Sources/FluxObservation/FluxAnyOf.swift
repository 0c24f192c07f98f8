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
    public func subscribe<One: Equatable & Sendable>(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first)], .every, on: nil) { handler($0, $1.paths) }
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
    public func subscribe<One: Equatable & Sendable>(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first)], delivery, on: queue) { handler($0, $1.paths) }
    }

    /// Calls a handler on the main actor when a part of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - delivery: What to compare where changes come faster than they are taken; by default each of them.
    ///   - main: The main queue.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    public func subscribe<One: Equatable & Sendable>(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first)], delivery, on: .main, main.bind { handler($0, $1.paths) })
    }

    /// Calls a handler each time that one of two parts of the state has changed, and says which.
    ///
    /// - Parameters:
    ///   - first: A part; each is compared with what the handler saw last, or with what it was at the start.
    ///   - second: Another.
    ///   - handler: Gets the state as the change left it, and the key paths of those parts that differ.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @_disfavoredOverload
    public func subscribe<One: Equatable & Sendable, Two: Equatable & Sendable>(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ second: any KeyPath<State, Two> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second)], .every, on: nil) { handler($0, $1.paths) }
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
    public func subscribe<One: Equatable & Sendable, Two: Equatable & Sendable>(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ second: any KeyPath<State, Two> & Sendable,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second)], delivery, on: queue) { handler($0, $1.paths) }
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
    public func subscribe<One: Equatable & Sendable, Two: Equatable & Sendable>(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ second: any KeyPath<State, Two> & Sendable,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second)], delivery, on: .main, main.bind { handler($0, $1.paths) })
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
    public func subscribe<One: Equatable & Sendable, Two: Equatable & Sendable, Three: Equatable & Sendable>(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ second: any KeyPath<State, Two> & Sendable,
        _ third: any KeyPath<State, Three> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second), FluxPart(third)], .every, on: nil) { handler($0, $1.paths) }
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
    public func subscribe<One: Equatable & Sendable, Two: Equatable & Sendable, Three: Equatable & Sendable>(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ second: any KeyPath<State, Two> & Sendable,
        _ third: any KeyPath<State, Three> & Sendable,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second), FluxPart(third)], delivery, on: queue) { handler($0, $1.paths) }
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
    public func subscribe<One: Equatable & Sendable, Two: Equatable & Sendable, Three: Equatable & Sendable>(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ second: any KeyPath<State, Two> & Sendable,
        _ third: any KeyPath<State, Three> & Sendable,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch(
            [FluxPart(first), FluxPart(second), FluxPart(third)], delivery, on: .main,
            main.bind { handler($0, $1.paths) })
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
    public func subscribe<
        One: Equatable & Sendable, Two: Equatable & Sendable, Three: Equatable & Sendable, Four: Equatable & Sendable
    >(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ second: any KeyPath<State, Two> & Sendable,
        _ third: any KeyPath<State, Three> & Sendable,
        _ fourth: any KeyPath<State, Four> & Sendable,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second), FluxPart(third), FluxPart(fourth)], .every, on: nil) {
            handler($0, $1.paths)
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
    public func subscribe<
        One: Equatable & Sendable, Two: Equatable & Sendable, Three: Equatable & Sendable, Four: Equatable & Sendable
    >(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ second: any KeyPath<State, Two> & Sendable,
        _ third: any KeyPath<State, Three> & Sendable,
        _ fourth: any KeyPath<State, Four> & Sendable,
        _ delivery: FluxDelivery = .every,
        on queue: DispatchQueue? = nil,
        _ handler: @escaping @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch([FluxPart(first), FluxPart(second), FluxPart(third), FluxPart(fourth)], delivery, on: queue) {
            handler($0, $1.paths)
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
    public func subscribe<
        One: Equatable & Sendable, Two: Equatable & Sendable, Three: Equatable & Sendable, Four: Equatable & Sendable
    >(
        toAnyOf first: any KeyPath<State, One> & Sendable,
        _ second: any KeyPath<State, Two> & Sendable,
        _ third: any KeyPath<State, Three> & Sendable,
        _ fourth: any KeyPath<State, Four> & Sendable,
        _ delivery: FluxDelivery = .every,
        on main: FluxMainQueue,
        _ handler: @escaping @MainActor @Sendable (_ state: State, _ changed: Set<PartialKeyPath<State>>) -> Void
    ) -> FluxSubscription {
        watch(
            [FluxPart(first), FluxPart(second), FluxPart(third), FluxPart(fourth)], delivery, on: .main,
            main.bind { handler($0, $1.paths) })
    }

    private func watch(
        _ parts: [FluxPart<State>], _ delivery: FluxDelivery, on queue: DispatchQueue?,
        _ handler: @escaping @Sendable (State, FluxChangedParts<State>) -> Void
    ) -> FluxSubscription {
        let distinct = FluxChangingParts(parts)
        let tell: @Sendable (FluxPartsChange<State>) -> Void = { handler($0.state, $0.changed) }
        if delivery == .every {
            return tap(on: queue, startingWithCurrent: false, { distinct.change(to: $0) }, tell)
        }
        // The first state that is handed over may be one after the first change: so what that is compared with is taken here.
        _ = distinct.change(to: state)
        return subscribe(FluxSubscriptionOptions(delivery, on: queue, startingWithCurrent: true), ended: nil) { state in
            distinct.change(to: state).map(tell)
        }
    }
}

/// A part of a state, whatever its type.
nonisolated private struct FluxPart<State>: Sendable {
    let path: any PartialKeyPath<State> & Sendable
    /// Keeps the part of a state, and tells whether that of another is equal.
    let keep: @Sendable (State) -> @Sendable (State) -> Bool

    init<Value: Equatable & Sendable>(_ path: any KeyPath<State, Value> & Sendable) {
        self.path = path
        keep = { state in
            let known = state[keyPath: path]
            return { $0[keyPath: path] == known }
        }
    }
}

/// The parts that have changed.
nonisolated private struct FluxChangedParts<State>: Sendable {
    let parts: [FluxPart<State>]

    var paths: Set<PartialKeyPath<State>> { Set(parts.map { $0.path }) }
}

/// A state, and what of it has changed.
nonisolated private struct FluxPartsChange<State: Sendable>: Sendable {
    let state: State
    let changed: FluxChangedParts<State>
}

/// Compares parts with what they were; used by one thread at a time.
nonisolated private final class FluxChangingParts<State: Sendable>: Sendable {
    private struct Known {
        let isSame: @Sendable (State) -> Bool
    }

    private let parts: [FluxPart<State>]
    private let known = FluxLock<[Known]>([])

    init(_ parts: [FluxPart<State>]) {
        self.parts = parts
    }

    /// Which parts have changed, of the first state all; nil if none has.
    func change(to state: State) -> FluxPartsChange<State>? {
        var known = known.withLock { $0 }
        let isFirst = known.isEmpty
        let changed = parts.indices.filter { isFirst || !known[$0].isSame(state) }
        if isFirst { known = parts.map { Known(isSame: $0.keep(state)) } }
        for index in changed where !isFirst { known[index] = Known(isSame: parts[index].keep(state)) }
        if changed.isEmpty { return nil }
        self.known.withLock { swap(&$0, &known) }
        return FluxPartsChange(state: state, changed: FluxChangedParts(parts: changed.map { parts[$0] }))
    }
}
