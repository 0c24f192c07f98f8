#if canImport(FluxCore)
    import FluxCore
#endif

/// Stands between a dispatch and the stores: it may act before and after, replace an action, stop it or send more.
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
/// `Action` says which actions it gets: a type of actions, a protocol of yours as `any Billable`, or, if it is left out,
/// `any FluxAction` for every one. Others pass it by.
///
/// Middleware runs in the order of priority, the highest first, and among equals in the order of registration. It runs on
/// the thread that dispatches and with no lock held, on many threads at once: what it changes, it has to guard.
///
/// What it dispatches itself is applied at once, with all its middleware: before the action at hand if it dispatches before
/// `next`, after it if after (C6). One that dispatches the action it handles never ends.
///
/// Thread safety: it is called on any thread that dispatches, on several at once.
nonisolated public protocol FluxMiddleware<Action>: Sendable {
    /// Which actions it gets; every one unless it says otherwise.
    associatedtype Action = any FluxAction

    /// Handles an action on its way to the stores.
    ///
    /// - Parameters:
    ///   - action: What was dispatched, or what the middleware before this one made of it.
    ///   - next: Goes on, with this action or another: once as a rule, never to stop it, several times to send several. It
    ///     may be kept and called later, from another thread.
    func handle(action: Action, next: FluxNext)
}

/// Middleware made of a closure; other than a `FluxDispatchInterceptor` it is one among the middleware of a dispatcher.
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

    /// Makes middleware that gets every action.
    ///
    /// - Parameter body: Gets the action, and what goes on with it.
    public init(_ body: @escaping @Sendable (_ action: any FluxAction, _ next: FluxNext) -> Void) {
        self.body = body
    }

    /// Calls the closure.
    ///
    /// - Parameters:
    ///   - action: What was dispatched.
    ///   - next: Goes on.
    public func handle(action: any FluxAction, next: FluxNext) { body(action, next) }

    /// Looks at every action before it is applied.
    ///
    /// - Parameter body: Gets the action.
    /// - Returns: The middleware.
    public static func before(_ body: @escaping @Sendable (_ action: any FluxAction) -> Void) -> FluxInterceptor {
        FluxInterceptor { action, next in
            body(action)
            next(action)
        }
    }

    /// Looks at every action before it is applied, and at the stores that take it.
    ///
    /// An action that is dispatched to a name goes to one of these alone, and one that a child of the dispatcher takes to its stores as
    /// well: which have applied it `.after` says.
    ///
    /// - Parameter body: Gets the action, and the stores attached to the dispatcher that take its type, each with its `state`.
    /// - Returns: The middleware.
    public static func before(
        _ body: @escaping @Sendable (_ action: any FluxAction, _ stores: [FluxStoreInfo]) -> Void
    ) -> FluxInterceptor {
        FluxInterceptor { action, next in
            body(action, next.dispatcher.stores(taking: Swift.type(of: action)))
            next(action)
        }
    }

    /// Looks at every action after it was applied.
    ///
    /// - Parameter body: Gets the action.
    /// - Returns: The middleware.
    public static func after(_ body: @escaping @Sendable (_ action: any FluxAction) -> Void) -> FluxInterceptor {
        FluxInterceptor { action, next in
            next(action)
            body(action)
        }
    }

    /// Looks at every action after it was applied, and at the stores that it changed.
    ///
    /// - Parameter body: Gets the action, and the announced changes, each with its store and the state it left.
    /// - Returns: The middleware.
    public static func after(
        _ body: @escaping @Sendable (_ action: any FluxAction, _ changes: [FluxStoreChange]) -> Void
    ) -> FluxInterceptor {
        FluxInterceptor { action, next in body(action, next.changes(by: action)) }
    }

    /// Handles the actions of one type.
    ///
    /// - Parameters:
    ///   - type: Which actions.
    ///   - body: Gets the action, and what goes on with it.
    /// - Returns: The middleware.
    public static func on<Action: FluxAction>(
        _ type: Action.Type, _ body: @escaping @Sendable (_ action: Action, _ next: FluxNext) -> Void
    ) -> FluxInterceptor {
        let isObject = type is AnyClass
        return FluxInterceptor { action, next in
            // To look at the type takes less time than a cast; of an object it may be one below.
            if isObject || Swift.type(of: action) == type, let action = action as? Action {
                body(action, next)
            } else {
                next(action)
            }
        }
    }
}

/// Leads from a dispatcher to middleware.
@usableFromInline nonisolated final class FluxMiddlewareEntry: FluxDispatchInterceptor {
    let kind: ObjectIdentifier
    /// What it is, if it is an object; not kept by this.
    let instance: ObjectIdentifier?
    /// Calls it, or goes on where the action is none of its own.
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
            // No cast for each action.
            self.init(middleware) { every.handle(action: $0, next: $1) }
        } else {
            // Of a value the type is all: a cast would take an action out of an optional one, and go on with that.
            let isValue = Middleware.Action.self is any FluxAction.Type && !(Middleware.Action.self is AnyClass)
            self.init(middleware) { action, next in
                if !isValue || type(of: action) == Middleware.Action.self, let own = action as? Middleware.Action {
                    middleware.handle(action: own, next: next)
                } else {
                    next(action)
                }
            }
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

    /// Makes a dispatcher with middleware.
    ///
    /// - Parameter middleware: What every action passes on its way to the stores, first things first.
    public convenience init(middleware: [any FluxMiddleware]) {
        self.init()
        for middleware in middleware { add(middleware) }
    }

    /// Makes a dispatcher with middleware of closures: `FluxDispatcher(middleware: [.before { print($0) }])`.
    ///
    /// - Parameter middleware: What every action passes on its way to the stores, first things first.
    @_disfavoredOverload
    public convenience init(middleware: [FluxInterceptor]) {
        self.init(middleware: middleware as [any FluxMiddleware])
    }

    /// Adds middleware that every action of the dispatcher passes from now on.
    ///
    /// - Parameters:
    ///   - middleware: What to add.
    ///   - priority: The highest comes first; among equals the one that was added first.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func add(_ middleware: some FluxMiddleware, priority: Int = 0) -> FluxRegistration {
        add(FluxMiddlewareEntry(middleware), priority: priority)
    }

    /// Adds middleware that gets every action: the same, and each action takes less time.
    ///
    /// - Parameters:
    ///   - middleware: What to add.
    ///   - priority: The highest comes first; among equals the one that was added first.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Complexity: O(*m*) for *m* middleware.
    @inlinable @discardableResult
    public func add(_ middleware: some FluxMiddleware<any FluxAction>, priority: Int = 0) -> FluxRegistration {
        add(FluxMiddlewareEntry(middleware) { middleware.handle(action: $0, next: $1) }, priority: priority)
    }

    /// Adds middleware made of a closure: `.before`, `.after` or `.on(Action.self)`.
    ///
    /// - Parameters:
    ///   - middleware: What to add.
    ///   - priority: The highest comes first; among equals the one that was added first.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func add(_ middleware: FluxInterceptor, priority: Int = 0) -> FluxRegistration {
        add(FluxMiddlewareEntry(middleware) { middleware.handle(action: $0, next: $1) }, priority: priority)
    }

    /// Removes an object that was added as middleware, wherever it was added.
    ///
    /// Actions under way that have not reached it pass it by; a call that another thread is in the middle of goes on.
    ///
    /// - Parameter middleware: The object.
    /// - Returns: How many were removed.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func remove(_ middleware: some FluxMiddleware & AnyObject) -> Int {
        removeInterceptors { ($0 as? FluxMiddlewareEntry)?.instance == ObjectIdentifier(middleware) }
    }

    /// Removes all middleware of a type.
    ///
    /// - Parameter type: The type.
    /// - Returns: How many were removed.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func remove<Middleware: FluxMiddleware>(_ type: Middleware.Type) -> Int {
        removeInterceptors { ($0 as? FluxMiddlewareEntry)?.kind == ObjectIdentifier(type) }
    }
}
