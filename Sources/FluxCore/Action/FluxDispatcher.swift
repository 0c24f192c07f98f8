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
public final class FluxDispatcher: Sendable {
    /// The dispatcher that stores and creators use if they are given no other.
    public static let shared = FluxDispatcher()

    @usableFromInline let threads = FluxThreads.shared
    private let routes = FluxLock(FluxRoutes())

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
        var wakes = FluxWakes<any FluxWakeable>.none
        let announced = routes.withLock { $0.dispatch(action, type: type, waking: &wakes) }
        wakes.forEach { $0.wake() }
        return announced
    }

    @inlinable
    func attach<State>(_ core: FluxStoreCore<State>) -> FluxAttachment {
        attach(ObjectIdentifier(State.Action.self), core) { target, action, wakes in
            target._withUnsafeGuaranteedRef { target in
                let core = unsafeDowncast(target, to: FluxStoreCore<State>.self)
                var outlets = FluxWakes<FluxOutlet<State>>.none
                let revision = core.apply(
                    action.assumingMemoryBound(to: State.Action.self).pointee,
                    on: core.threads.current, waking: &outlets)
                outlets.forEach { wakes.append($0) }
                return revision != nil
            }
        }
    }

    @usableFromInline
    func attach(_ type: ObjectIdentifier, _ target: AnyObject, apply: @escaping FluxRoute.Apply) -> FluxAttachment {
        if FluxThreads.shared.current.pointee.handling != nil { fluxStopImpureHandle("FluxStore.init") }
        let route = FluxRoute(target: .passRetained(target), apply: apply)
        return FluxAttachment(dispatcher: self, type: type, id: routes.withLock { $0.attach(route, type: type) })
    }

    fileprivate func detach(type: ObjectIdentifier, id: UInt64) {
        routes.withLock { $0.detach(type: type, id: id) }?.target.release()
    }
}

/// The place of a store in the routes of a dispatcher.
@usableFromInline
struct FluxAttachment: Sendable {
    fileprivate let dispatcher: FluxDispatcher
    fileprivate let type: ObjectIdentifier
    fileprivate let id: UInt64

    func detach() {
        dispatcher.detach(type: type, id: id)
    }
}
