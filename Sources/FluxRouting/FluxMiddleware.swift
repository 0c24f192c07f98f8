#if canImport(FluxCore)
    import FluxCore
#endif

/// Runs between a dispatch and the stores; it may act before and after an action, replace it, stop it or send more.
///
/// ```swift
/// struct Journal: FluxMiddleware {
///     func handle(action: any FluxAction, next: FluxNext) {
///         print("before", action)
///         next(action)
///         print("applied", action)
///     }
/// }
/// dispatcher.add(Journal())
/// ```
///
/// `Action` determines which actions the middleware receives: an action type, your own protocol such as `any Billable`,
/// or, if it is omitted, `any FluxAction` for all actions. Other actions bypass the middleware.
///
/// Middleware runs in the order of priority, the highest first, and among equals in the order of registration. It runs
/// on the dispatching thread with no lock held, on many threads at once, so it has to protect the state that it
/// changes.
///
/// An action that the middleware itself dispatches is applied at once, with all its middleware: before the current
/// action if it is dispatched before `next`, and after it if after `next` (C6). Middleware that dispatches the action
/// it handles never ends.
///
/// Thread safety: it is called on any thread that dispatches, on several at once.
nonisolated public protocol FluxMiddleware<Action>: Sendable {
    /// The actions that the middleware receives; all of them by default.
    associatedtype Action = any FluxAction

    /// Handles an action on its way to the stores.
    ///
    /// - Parameters:
    ///   - action: The dispatched action, or what the middleware before this one replaced it with.
    ///   - next: Passes on this action or another. As a rule, call it once. To stop the action, do not call it; to send
    ///     several actions, call it several times. It may be kept and called later, from another thread.
    func handle(action: Action, next: FluxNext)
}

/// Middleware made from a closure; despite its name it is a ``FluxMiddleware``, not a `FluxDispatchInterceptor`.
///
/// ```swift
/// dispatcher.add(.before { print("going to apply", $0) })
/// dispatcher.add(.after { print("applied", $0) })
/// dispatcher.add(.before { action, stores in for store in stores { print(store, store.state) } })
/// dispatcher.add(.after { action, changes in for change in changes { print(change.store, change.state) } })
/// dispatcher.add(.on(Cart.Action.self) { action, next in if isOpen { next(action) } })
/// ```
///
/// Thread safety: a value.
nonisolated public struct FluxInterceptor: FluxMiddleware {
    private let body: @Sendable (any FluxAction, FluxNext) -> Void

    /// Creates middleware that receives every action.
    ///
    /// - Parameter body: Receives the action, and the `next` that passes it on.
    public init(_ body: @escaping @Sendable (_ action: any FluxAction, _ next: FluxNext) -> Void) {
        self.body = body
    }

    /// Calls the closure.
    ///
    /// - Parameters:
    ///   - action: The dispatched action.
    ///   - next: Passes the action on.
    public func handle(action: any FluxAction, next: FluxNext) { body(action, next) }

    /// Creates middleware that sees every action before it is applied.
    ///
    /// - Parameter body: Receives the action.
    /// - Returns: The middleware.
    public static func before(_ body: @escaping @Sendable (_ action: any FluxAction) -> Void) -> FluxInterceptor {
        FluxInterceptor { action, next in
            body(action)
            next(action)
        }
    }

    /// Creates middleware that sees every action before it is applied, and the stores that take it.
    ///
    /// An action that is dispatched to a name reaches only one of these stores. An action may also reach the stores of
    /// a child of the dispatcher. Use `.after` to see which stores have announced a change.
    ///
    /// - Parameter body: Receives the action, and the stores attached to the dispatcher that take its type, each with
    ///   its `state`.
    /// - Returns: The middleware.
    /// - Complexity: Each action visits all stores of the dispatcher: O(*n* log *n*) for *n* stores and reactions.
    public static func before(
        _ body: @escaping @Sendable (_ action: any FluxAction, _ stores: [FluxStoreInfo]) -> Void
    ) -> FluxInterceptor {
        FluxInterceptor { action, next in
            body(action, next.dispatcher.stores(taking: Swift.type(of: action)))
            next(action)
        }
    }

    /// Creates middleware that sees every action after it was applied.
    ///
    /// - Parameter body: Receives the action.
    /// - Returns: The middleware.
    public static func after(_ body: @escaping @Sendable (_ action: any FluxAction) -> Void) -> FluxInterceptor {
        FluxInterceptor { action, next in
            next(action)
            body(action)
        }
    }

    /// Creates middleware that sees every action after it was applied, and the stores that it changed.
    ///
    /// - Parameter body: Receives the action, and the announced changes, each with its store and the state after the
    ///   action.
    /// - Returns: The middleware.
    public static func after(
        _ body: @escaping @Sendable (_ action: any FluxAction, _ changes: [FluxStoreChange]) -> Void
    ) -> FluxInterceptor {
        FluxInterceptor { action, next in body(action, next.changes(by: action)) }
    }

    /// Creates middleware that handles the actions of one type.
    ///
    /// - Parameters:
    ///   - type: The type of the actions.
    ///   - body: Receives the action, and the `next` that passes it on.
    /// - Returns: The middleware.
    public static func on<Action: FluxAction>(
        _ type: Action.Type, _ body: @escaping @Sendable (_ action: Action, _ next: FluxNext) -> Void
    ) -> FluxInterceptor {
        FluxInterceptor(fluxHandling(body))
    }
}

/// Returns the closure that handles the actions of one type, and passes on all others.
nonisolated private func fluxHandling<Action>(
    _ body: @escaping @Sendable (Action, FluxNext) -> Void
) -> @Sendable (any FluxAction, FluxNext) -> Void {
    // For a value, the types have to be equal: a cast would take longer, and it would unwrap an optional action and
    // pass on what it contains. An object may also be of a subclass.
    let isValue = Action.self is any FluxAction.Type && !(Action.self is AnyClass)
    return { action, next in
        if !isValue || type(of: action) == Action.self, let own = action as? Action {
            body(own, next)
        } else {
            next(action)
        }
    }
}

/// The interceptor that calls one middleware.
@usableFromInline nonisolated final class FluxMiddlewareEntry: FluxDispatchInterceptor {
    let kind: ObjectIdentifier
    /// The identity of the middleware if it is an object; does not retain it.
    let instance: ObjectIdentifier?
    /// Calls the middleware, or passes the action on if it is not of the middleware's type.
    private let body: @Sendable (any FluxAction, FluxNext) -> Void

    @usableFromInline init<Middleware: FluxMiddleware>(
        _ middleware: Middleware, _ body: @escaping @Sendable (any FluxAction, FluxNext) -> Void
    ) {
        kind = ObjectIdentifier(Middleware.self)
        instance = Middleware.self is AnyObject.Type ? ObjectIdentifier(middleware as AnyObject) : nil
        self.body = body
    }

    convenience init<Middleware: FluxMiddleware>(_ middleware: Middleware) {
        if let every = middleware as? any FluxMiddleware<any FluxAction> {
            // Saves a cast for each action.
            self.init(middleware) { every.handle(action: $0, next: $1) }
        } else {
            self.init(middleware, fluxHandling { middleware.handle(action: $0, next: $1) })
        }
    }

    @usableFromInline func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        let before = next.announced
        body(action, next)
        return next.announced - before
    }
}

nonisolated extension FluxDispatcher {
    // MARK: - Middleware

    /// Creates a dispatcher with middleware.
    ///
    /// - Parameter middleware: What every action passes on its way to the stores, in this order.
    public convenience init(middleware: [any FluxMiddleware]) {
        self.init()
        for middleware in middleware { add(middleware) }
    }

    /// Creates a dispatcher with middleware made from closures: `FluxDispatcher(middleware: [.before { print($0) }])`.
    ///
    /// - Parameter middleware: What every action passes on its way to the stores, in this order.
    @_disfavoredOverload
    public convenience init(middleware: [FluxInterceptor]) {
        self.init(middleware: middleware as [any FluxMiddleware])
    }

    /// Adds middleware that every action of the dispatcher passes from now on.
    ///
    /// - Parameters:
    ///   - middleware: The middleware to add.
    ///   - priority: The highest comes first; among equals, the one that was added first.
    /// - Returns: The registration that removes the middleware; releasing the registration removes nothing.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func add(_ middleware: some FluxMiddleware, priority: Int = 0) -> FluxRegistration {
        add(FluxMiddlewareEntry(middleware), priority: priority)
    }

    /// Adds middleware that receives every action; works as the other form, but takes less time for each action.
    ///
    /// - Parameters:
    ///   - middleware: The middleware to add.
    ///   - priority: The highest comes first; among equals, the one that was added first.
    /// - Returns: The registration that removes the middleware; releasing the registration removes nothing.
    /// - Complexity: O(*m*) for *m* middleware.
    @inlinable @discardableResult
    public func add(_ middleware: some FluxMiddleware<any FluxAction>, priority: Int = 0) -> FluxRegistration {
        add(FluxMiddlewareEntry(middleware) { middleware.handle(action: $0, next: $1) }, priority: priority)
    }

    /// Adds middleware made from a closure: `.before`, `.after` or `.on(Action.self)`.
    ///
    /// - Parameters:
    ///   - middleware: The middleware to add.
    ///   - priority: The highest comes first; among equals, the one that was added first.
    /// - Returns: The registration that removes the middleware; releasing the registration removes nothing.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func add(_ middleware: FluxInterceptor, priority: Int = 0) -> FluxRegistration {
        add(FluxMiddlewareEntry(middleware) { middleware.handle(action: $0, next: $1) }, priority: priority)
    }

    /// Removes an object that was added as middleware, from every place where it was added.
    ///
    /// Actions under way that have not reached the object yet skip it. A call that is running on another thread
    /// continues.
    ///
    /// - Parameter middleware: The object.
    /// - Returns: The number of registrations that were removed.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func remove(_ middleware: some FluxMiddleware & AnyObject) -> Int {
        removeInterceptors { ($0 as? FluxMiddlewareEntry)?.instance == ObjectIdentifier(middleware) }
    }

    /// Removes all middleware of a type.
    ///
    /// - Parameter type: The type.
    /// - Returns: The number of registrations that were removed.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func remove<Middleware: FluxMiddleware>(_ type: Middleware.Type) -> Int {
        removeInterceptors { ($0 as? FluxMiddlewareEntry)?.kind == ObjectIdentifier(type) }
    }
}
