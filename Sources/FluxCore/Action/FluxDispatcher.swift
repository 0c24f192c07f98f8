/// Hands each action to all attached stores that take its type, in one order for all of them.
///
/// ```swift
/// let dispatcher = FluxDispatcher()
/// let cart = FluxStore(initialState: Cart(), dispatcher: dispatcher)
/// dispatcher.dispatch(action: Cart.Action.add("milk"))
/// ```
///
/// A store of another action type costs a dispatch nothing. The dispatcher does not keep its stores alive for longer than
/// their last reference.
///
/// Thread safety: all of it may be used from any thread, and inside handlers and converters.
nonisolated public final class FluxDispatcher: Sendable {
    /// The dispatcher that stores and creators use if they are given no other.
    public static let shared = FluxDispatcher()

    @usableFromInline let threads = FluxThreads.shared
    let routes = FluxLock(FluxRoutes())

    /// Makes a dispatcher with no store attached.
    public init() {}

    /// Applies an action to every attached store whose `State.Action` is its type, in the order of their attachment.
    ///
    /// When it returns, the states have the change (C2). All stores of the dispatcher see its actions in the same order
    /// (C4). Inside `handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameter action: The change to make.
    /// - Returns: How many stores announced a change.
    /// - Complexity: O(*n*) for *n* stores of this action type; stores of other types do not count.
    @inlinable @discardableResult
    public func dispatch<Action: FluxAction>(action: Action) -> Int {
        if threads.current.pointee.handling != nil { fluxStopImpureHandle("dispatch(action:)") }
        return withUnsafePointer(to: action) { dispatch(UnsafeRawPointer($0), type: ObjectIdentifier(Action.self)) }
    }

    @usableFromInline
    func dispatch(_ action: UnsafeRawPointer, type: ObjectIdentifier) -> Int {
        var wakes = FluxWakes<FluxWake>.none
        let announced = routes.withLock { $0.dispatch(action, type: type, waking: &wakes) }
        wakes.forEach { $0.wake() }
        return announced
    }

    // MARK: - Attaching

    /// Attaches a core, which stays alive until it is detached; returns the id to detach it by.
    @inlinable
    func attach<State>(_ core: FluxStoreCore<State>) -> UInt64 {
        attach(core, action: State.Action.self, state: State.self) { core, action, wakes in
            let core = unsafeDowncast(core, to: FluxStoreCore<State>.self)
            let applied = core.apply(
                action.assumingMemoryBound(to: State.Action.self).pointee, on: core.threads.current)
            applied.wakes.forEach { outlet in
                wakes.append(FluxWake(outlet) { unsafeDowncast($0, to: FluxOutlet<State>.self).wake() })
            }
            if core.isTapped {
                wakes.append(FluxWake(core) { unsafeDowncast($0, to: FluxStoreCore<State>.self).wakeTaps() })
            }
            return applied.revision != nil
        }
    }

    @usableFromInline
    func attach(
        _ core: AnyObject, action: Any.Type, state: Any.Type, apply: @escaping FluxEntrance.Apply
    ) -> UInt64 {
        if threads.current.pointee.handling != nil { fluxStopImpureHandle("FluxStore.init") }
        return routes.withLock { routes in
            let entrance = routes.entrance(action: ObjectIdentifier(action), state: ObjectIdentifier(state)) {
                FluxEntrance(action: action, state: state, apply: apply)
            }
            return routes.attach(core, entrance)
        }
    }

    func detach(action: Any.Type, id: UInt64) {
        routes.withLock { $0.detach(action: ObjectIdentifier(action), id: id) }?.release()
    }
}
