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

/// Middleware made of a closure.
///
/// ```swift
/// dispatcher.add(.before { print("going to apply", $0) })
/// dispatcher.add(.after { print("applied", $0) })
/// dispatcher.add(.on(Cart.Action.self) { action, next in if isOpen { next(action) } })
/// ```
///
/// Thread safety: a value.
nonisolated public struct FluxInterceptor: FluxMiddleware {
    /// The one type of action that it gets; nil for all.
    let type: ObjectIdentifier?
    private let body: @Sendable (any FluxAction, FluxNext) -> Void

    /// Makes middleware that gets every action.
    ///
    /// - Parameter body: Gets the action, and what goes on with it.
    public init(_ body: @escaping @Sendable (_ action: any FluxAction, _ next: FluxNext) -> Void) {
        self.init(type: nil, body)
    }

    private init(type: ObjectIdentifier?, _ body: @escaping @Sendable (any FluxAction, FluxNext) -> Void) {
        self.type = type
        self.body = body
    }

    /// Calls the closure.
    ///
    /// - Parameters:
    ///   - action: What was dispatched.
    ///   - next: Goes on.
    public func handle(action: any FluxAction, next: FluxNext) {
        body(action, next)
    }

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

    /// Handles the actions of one type.
    ///
    /// - Parameters:
    ///   - type: Which actions.
    ///   - body: Gets the action, and what goes on with it.
    /// - Returns: The middleware.
    public static func on<Action: FluxAction>(
        _ type: Action.Type, _ body: @escaping @Sendable (_ action: Action, _ next: FluxNext) -> Void
    ) -> FluxInterceptor {
        FluxInterceptor(type: ObjectIdentifier(type)) { action, next in
            if let action = action as? Action { body(action, next) } else { next(action) }
        }
    }
}
