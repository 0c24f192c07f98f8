import Synchronization

/// Delivers each action to all attached stores that accept its type, in the same order for every store.
///
/// ```swift
/// let dispatcher = FluxDispatcher()
/// let cart = FluxStore(initialState: Cart(), dispatcher: dispatcher)
/// dispatcher.dispatch(action: Cart.Action.add("milk"))
/// ```
///
/// A store of another action type adds no cost to a dispatch. The dispatcher does not keep its stores alive, except
/// those attached with ``attach(keeping:priority:)``.
///
/// Thread safety: all of it may be used from any thread, and inside handlers, middleware and converters.
nonisolated public final class FluxDispatcher: FluxDispatching {
    /// The dispatcher that stores and creators use by default.
    public static let shared = FluxDispatcher()

    @usableFromInline let threads = FluxThreads.shared
    @usableFromInline let chain = FluxInterceptorChain()
    let routes = FluxLock(FluxRoutes())
    private let features = FluxFeatures()

    /// Creates a dispatcher with no store attached.
    public init() {}

    deinit {
        // Stores, reactions and interceptors are released outside the locks.
        _ = routes.withLock { $0.places.map { $0.takeRetained() } }
        FluxPureCode.after { [chain] in chain.remove { _ in true } }
    }

    // MARK: - Dispatching

    /// Applies an action to every attached store that accepts its type, in the order of priority and attachment.
    ///
    /// When it returns, the states have the change (C2), unless middleware stopped or postponed the action. All stores
    /// of the dispatcher see its actions in the same order (C4). A call inside `handle(action:)` stops the program with
    /// a message (C6).
    ///
    /// - Parameter action: The change to make.
    /// - Returns: The number of changes announced: at most one for each store of this action type, and at most one for
    ///   each reaction to it, each time that the action is passed on.
    /// - Complexity: O(*m* + *n*) for *m* interceptors, and *n* stores and reactions of this action type; others do not
    ///   count.
    @inlinable @discardableResult public func dispatch<Action: FluxAction>(action: Action) -> Int {
        let thread = threads.requireImpure("dispatch(action:)")
        // Relaxed: a thread that must find an interceptor is already ordered after the call that added it. The list
        // itself is read while its lock is held.
        if chain.isUsed.load(ordering: .relaxed) { return begin(action) }
        return withUnsafePointer(to: action) { apply($0, ObjectIdentifier(Action.self), thread, nil) }
    }

    /// Passes an action through the interceptors and then to a closure instead of the stores of this dispatcher.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - end: Receives the action after the last interceptor and returns the number of changes announced. It passes
    ///     its witness, if any, on to ``deliver(_:to:telling:)``.
    /// - Returns: The number of changes announced.
    /// - Complexity: O(*m*) for *m* interceptors, plus that of `end`.
    @discardableResult public func pass(
        _ action: any FluxAction, to end: @escaping @Sendable (any FluxAction, FluxDispatchWitness?) -> Int
    ) -> Int { begin(action, to: end) }

    @usableFromInline
    func begin(_ action: any FluxAction, from top: FluxDispatchContext? = nil, to end: FluxDispatchEnd? = nil) -> Int {
        let origin = threads.requireImpure("dispatch(action:)").task
        // Not stored in a constant: that would cost another retain.
        return FluxDispatchContext(self, chain.entries, of: origin, from: top, to: end).begin(action)
    }

    /// Applies an action to the attached stores that accept its type, bypassing all interceptors.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - witness: The witness that the `end` of ``pass(_:to:)`` was given.
    /// - Returns: The number of changes that the stores announced.
    /// - Complexity: O(*n*) for *n* stores and reactions of this action type.
    @discardableResult
    public func deliver<Action: FluxAction>(_ action: Action, telling witness: FluxDispatchWitness? = nil) -> Int {
        let thread = threads.requireImpure("deliver")
        return withUnsafePointer(to: action) { apply($0, ObjectIdentifier(Action.self), thread, witness) }
    }

    /// Applies an action to one of the attached stores, bypassing all interceptors.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - store: The store.
    ///   - witness: The witness that the `end` of ``pass(_:to:)`` was given.
    /// - Returns: The number of changes that the store announced; nil if it does not accept the type, or is no longer
    ///   attached here.
    /// - Complexity: O(*r*) for *r* reactions of the store.
    public func deliver(
        _ action: any FluxAction, to store: FluxStoreInfo, telling witness: FluxDispatchWitness? = nil
    ) -> Int? {
        var wakes = FluxWakes.none
        defer { wakes.settle() }
        return store.handle.take(action, from: self, &wakes, witness)
    }

    @usableFromInline func apply(
        _ action: UnsafeRawPointer, _ type: ObjectIdentifier, _ thread: UnsafeMutablePointer<FluxThread>,
        _ witness: FluxDispatchWitness?
    ) -> Int {
        var wakes = FluxWakes.none
        // Not in a `defer`: that becomes a separate function, which each dispatch would call.
        let announced = routes.withLock { $0.apply(action, type, thread, &wakes, witness) }
        wakes.settle()
        return announced
    }

    // MARK: - Interceptors

    /// Adds an interceptor that every action of the dispatcher passes from now on.
    ///
    /// - Parameters:
    ///   - interceptor: The interceptor to add.
    ///   - priority: Interceptors with a higher priority come first; among equals, the one added first.
    ///   - isReplaced: Returns true for an existing interceptor that the new one replaces atomically. An action under
    ///     way still reaches the replaced one. Called while a lock is held.
    /// - Returns: The registration, which removes the interceptor. Actions under way then also skip the interceptor
    ///   that this one replaced; if it replaced several, the last of them. Releasing the registration removes nothing.
    /// - Complexity: O(*m*) for *m* interceptors.
    @discardableResult public func add(
        _ interceptor: some FluxDispatchInterceptor, priority: Int = 0,
        insteadOf isReplaced: (any FluxDispatchInterceptor) -> Bool = { _ in false }
    ) -> FluxRegistration {
        var entry = FluxInterceptorChain.Entry(interceptor, priority)
        chain.change("add(_:)") { entries in
            for old in entries where isReplaced(old.interceptor) { entry = .init(interceptor, priority, old.removal) }
            entries.removeAll { isReplaced($0.interceptor) }
            entries.insert(entry, at: entries.firstIndex { $0.priority < priority } ?? entries.count)
        }
        // The weak reference is read before the list's lock is taken. It may become the last strong reference to the
        // user's interceptor, which must be released outside the lock.
        return FluxRegistration { [chain, weak entry] in chain.remove { [entry] in $0 === entry } }
    }

    /// The interceptors, in the order in which an action reaches them.
    ///
    /// - Complexity: O(*m*) for *m* interceptors.
    public var interceptors: [any FluxDispatchInterceptor] {
        threads.requireImpure("interceptors")
        return chain.entries.map(\.interceptor)
    }

    /// Removes interceptors; actions under way that have not reached them yet skip them.
    ///
    /// - Parameter isUnwanted: Returns true for each interceptor to remove; called while a lock is held.
    /// - Returns: The number of interceptors removed.
    /// - Complexity: O(*m*) for *m* interceptors.
    @discardableResult public func removeInterceptors(where isUnwanted: (any FluxDispatchInterceptor) -> Bool) -> Int {
        chain.remove { isUnwanted($0.interceptor) }
    }

    @usableFromInline var eventObservers: [any FluxEventObserver] {
        // Relaxed, as in a dispatch. Each element is converted in a closure: to convert the whole array would look up
        // each conformance at run time.
        chain.isUsed.load(ordering: .relaxed) ? chain.entries.map { $0.interceptor as any FluxEventObserver } : []
    }

    // MARK: - Pausing

    /// Runs a closure while none of the given dispatchers applies an action; a view takes its cut this way (C11).
    ///
    /// Each dispatcher uses some bytes of the thread's stack: about three thousand fit on a stack of 512 KB. More would
    /// overflow it and stop the program. If you view thousands of stores together, put them on one dispatcher, or on
    /// none.
    ///
    /// - Parameters:
    ///   - dispatchers: The dispatchers, in any order; duplicates are allowed.
    ///   - body: Reads stores but no views; it must be pure and quick. An operation that needs a lock already held,
    ///     such as a dispatch, another `paused` or the cut of a view, stops the program or waits forever, depending on
    ///     the system's locks. A store or view that is released in the closure ends after it.
    /// - Returns: The value that the closure returns.
    /// - Complexity: O(*d* log *d*) for *d* dispatchers, plus that of `body`.
    @_specialize(where Result == Void)
    public static func paused<Result>(_ dispatchers: [FluxDispatcher], _ body: () -> Result) -> Result {
        let thread = FluxThreads.shared.requireImpure("FluxDispatcher.paused(_:_:), or a view,")
        let wasPausing = Swift.exchange(&thread.pointee.isPausing, with: true)
        defer {
            thread.pointee.isPausing = wasPausing
            thread.doLater()
        }
        func pause(_ rest: ArraySlice<FluxDispatcher>) -> Result {
            rest.first.map { first in first.routes.withLock { _ in pause(rest.drop { $0 === first }) } } ?? body()
        }
        // Every caller locks in the order of addresses, so two callers cannot deadlock. Sorting
        // makes duplicates adjacent.
        if dispatchers.count < 2 { return pause(dispatchers[...]) }
        return pause(dispatchers.sorted { ObjectIdentifier($0) < ObjectIdentifier($1) }[...])
    }

    // MARK: - Modules

    /// Returns the feature that a module keeps with the dispatcher for as long as the dispatcher lives.
    ///
    /// - Parameters:
    ///   - type: The type of the feature; a dispatcher has one of each type.
    ///   - make: Creates the feature on first use. If two threads create one at the same time, one of the two is kept.
    /// - Returns: The feature.
    public func feature<Feature: AnyObject & Sendable>(_ type: Feature.Type, _ make: () -> Feature) -> Feature {
        features.feature(type, make)
    }

    /// Returns the feature that a module keeps with the dispatcher, if it has been created.
    ///
    /// - Parameter type: The type of the feature.
    /// - Returns: The feature; nil if it has not been created.
    public func featureIfAny<Feature: AnyObject & Sendable>(_ type: Feature.Type) -> Feature? {
        features.featureIfAny(type)
    }
}
