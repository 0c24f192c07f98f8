import Synchronization

/// Hands each action to all attached stores that take its type, in one order for all of them.
///
/// ```swift
/// let dispatcher = FluxDispatcher()
/// let cart = FluxStore(initialState: Cart(), dispatcher: dispatcher)
/// dispatcher.dispatch(action: Cart.Action.add("milk"))
/// ```
///
/// A store of another action type costs a dispatch nothing. The dispatcher does not keep its stores alive for longer than
/// their last reference, but for those it was told to keep.
///
/// Thread safety: all of it may be used from any thread, and inside handlers, middleware and converters.
nonisolated public final class FluxDispatcher: FluxDispatching {
    /// The dispatcher that stores and creators use if they are given no other.
    public static let shared = FluxDispatcher()

    @usableFromInline let threads = FluxThreads.shared
    @usableFromInline let chain = FluxInterceptors()
    let routes = FluxLock(FluxRoutes())
    private let features = FluxFeatures()

    /// Makes a dispatcher with no store attached.
    public init() {}

    deinit {
        // What it has goes outside its locks.
        _ = routes.withLock { $0.places.map { $0.letGo() } }
        FluxPureCode.after { [chain] in chain.remove { _ in true } }
    }

    // MARK: - Dispatching

    /// Applies an action to every attached store that takes its type, in the order of priority and attachment.
    ///
    /// When it returns, the states have the change (C2), unless middleware stopped or postponed it. All stores of the
    /// dispatcher see its actions in the same order (C4). Inside `handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameter action: The change to make.
    /// - Returns: How many changes the stores announced: one for each that takes the type, and one for each reaction to it, if
    ///   there was something to announce.
    /// - Complexity: O(*n*) for *n* stores of this action type; stores of other types do not count.
    @inlinable @discardableResult public func dispatch<Action: FluxAction>(action: Action) -> Int {
        let thread = threads.requireImpure("dispatch(action:)")
        // Relaxed: whoever has to find an interceptor is ordered behind its adding. The list is read under its lock.
        if chain.isUsed.load(ordering: .relaxed) { return begin(action) }
        return withUnsafePointer(to: action) { apply($0, ObjectIdentifier(Action.self), thread, nil) }
    }

    /// Takes an action through the interceptors, and then to another end than the stores of this dispatcher.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - end: Takes it from there, and returns how many changes were announced; it hands on the witness that it is given, if
    ///     any, to ``deliver(_:to:telling:)``.
    /// - Returns: How many changes were announced.
    @discardableResult public func pass(
        _ action: any FluxAction, to end: @escaping @Sendable (any FluxAction, FluxDispatchWitness?) -> Int
    ) -> Int { begin(action, to: end) }

    @usableFromInline
    func begin(_ action: any FluxAction, from top: FluxDispatchContext? = nil, to end: FluxDispatchEnd? = nil) -> Int {
        let origin = threads.requireImpure("dispatch(action:)").task
        // Not kept in a constant, which would be retained.
        return FluxDispatchContext(self, chain.entries, of: origin, from: top, to: end).begin(action)
    }

    /// Applies an action to the attached stores that take its type, past all interceptors.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - witness: What an end of ``pass(_:to:)`` was given.
    /// - Returns: How many changes the stores announced.
    @discardableResult
    public func deliver<Action: FluxAction>(_ action: Action, telling witness: FluxDispatchWitness? = nil) -> Int {
        let thread = threads.requireImpure("deliver")
        return withUnsafePointer(to: action) { apply($0, ObjectIdentifier(Action.self), thread, witness) }
    }

    /// Applies an action to one of the attached stores, past all interceptors.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - store: The store.
    ///   - witness: What an end of ``pass(_:to:)`` was given.
    /// - Returns: How many changes it announced; nil if it does not take the type, or is not attached here any more.
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
        // Not deferred: that makes a function of its own, which each dispatch calls.
        let announced = routes.withLock { $0.apply(action, type, thread, &wakes, witness) }
        wakes.settle()
        return announced
    }

    // MARK: - Interceptors

    /// Adds an interceptor that every action of the dispatcher passes from now on.
    ///
    /// - Parameters:
    ///   - interceptor: What to add.
    ///   - priority: The highest comes first; among equals the one that was added first.
    ///   - isReplaced: Says of those that are there which one it takes the place of, in one step; an action under way still reaches
    ///     that. Called under a lock.
    /// - Returns: What to remove it by, and for an action under way the one that it replaced, of several the last; letting go of that
    ///   removes nothing.
    /// - Complexity: O(*m*) for *m* interceptors.
    @discardableResult public func add(
        _ interceptor: some FluxDispatchInterceptor, priority: Int = 0,
        insteadOf isReplaced: (any FluxDispatchInterceptor) -> Bool = { _ in false }
    ) -> FluxRegistration {
        var entry = FluxInterceptors.Entry(interceptor, priority)
        chain.change("add(_:)") { entries in
            for old in entries where isReplaced(old.interceptor) { entry = .init(interceptor, priority, old.removal) }
            entries.removeAll { isReplaced($0.interceptor) }
            entries.insert(entry, at: entries.firstIndex { $0.priority < priority } ?? entries.count)
        }
        // Read before the lock of the list is taken: this may be the last to have what is the user's.
        return FluxRegistration { [chain, weak entry] in chain.remove { [entry] in $0 === entry } }
    }

    /// The interceptors, in the order in which an action comes to them.
    public var interceptors: [any FluxDispatchInterceptor] {
        threads.requireImpure("interceptors")
        return chain.entries.map(\.interceptor)
    }

    /// Removes interceptors; actions under way that have not reached them pass them by.
    ///
    /// - Parameter isUnwanted: Says of each whether it is to go; called under a lock.
    /// - Returns: How many were removed.
    /// - Complexity: O(*m*) for *m* interceptors.
    @discardableResult public func removeInterceptors(where isUnwanted: (any FluxDispatchInterceptor) -> Bool) -> Int {
        chain.remove { isUnwanted($0.interceptor) }
    }

    @usableFromInline var eventObservers: ContiguousArray<any FluxEventObserver> {
        // Relaxed, as in a dispatch.
        if !chain.isUsed.load(ordering: .relaxed) { return [] }
        // A closure: an array of one protocol, given as one of another, has each of its elements looked up.
        return ContiguousArray(chain.entries.map { $0.interceptor as any FluxEventObserver })
    }

    // MARK: - Pausing

    /// Runs a closure while no action is under way in any of several dispatchers: what a view's cut is made of (C11).
    ///
    /// Each dispatcher takes some bytes of the thread's stack: thousands fit, tens of thousands do not, and stop the program. Stores
    /// that are viewed together by the ten thousand are best on one dispatcher, or on none.
    ///
    /// - Parameters:
    ///   - dispatchers: The dispatchers, in any order; one may be among them more than once.
    ///   - body: Reads stores, and no view; pure and quick. What needs a lock that is held, such as a dispatch, another `paused` or
    ///     the cut of a view, stops the program, or waits for good, as the system's locks have it. A store or view that goes ends after it.
    /// - Returns: What the closure returns.
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
        // One order for all who pause, by address, in which each comes once.
        if dispatchers.count < 2 { return pause(dispatchers[...]) }
        return pause(dispatchers.sorted { ObjectIdentifier($0) < ObjectIdentifier($1) }[...])
    }

    // MARK: - Modules

    /// What a module keeps with the dispatcher, for as long as that lives.
    ///
    /// - Parameters:
    ///   - type: Its type, of which a dispatcher has one.
    ///   - make: Makes it on first use; where two threads come at once, one of the two that they made is kept.
    /// - Returns: The feature.
    public func feature<Feature: AnyObject & Sendable>(_ type: Feature.Type, _ make: () -> Feature) -> Feature {
        features.feature(type, make)
    }

    /// What a module keeps with the dispatcher, if it has been made.
    ///
    /// - Parameter type: Its type.
    /// - Returns: The feature; nil if nobody has made it.
    public func featureIfAny<Feature: AnyObject & Sendable>(_ type: Feature.Type) -> Feature? {
        features.featureIfAny(type)
    }
}
