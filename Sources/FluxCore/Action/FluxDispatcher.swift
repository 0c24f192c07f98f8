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
    /// Whether there are interceptors: all that the hot path looks at.
    @usableFromInline let isIntercepted = Synchronization.Atomic<Bool>(false)
    let routes = FluxLock(FluxRoutes())
    private let chain = FluxLock(FluxInterceptors([]))
    private let features = FluxFeatures()

    /// Makes a dispatcher with no store attached.
    public init() {}

    deinit {
        // The stores that it keeps go after their places, outside the lock.
        let gone = routes.withLock { $0.detachAll() }
        withExtendedLifetime(gone) {}
    }

    // MARK: - Dispatching

    /// Applies an action to every attached store that takes its type, in the order of priority and attachment.
    ///
    /// When it returns, the states have the change (C2), unless middleware stopped or postponed it. All stores of the
    /// dispatcher see its actions in the same order (C4). Inside `handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameter action: The change to make.
    /// - Returns: How many stores announced a change.
    /// - Complexity: O(*n*) for *n* stores of this action type; stores of other types do not count.
    @inlinable @discardableResult public func dispatch<Action: FluxAction>(action: Action) -> Int {
        let thread = threads.current
        thread.requireImpure("dispatch(action:)")
        if isIntercepted.load(ordering: .relaxed) { return pass(action) }
        return withUnsafePointer(to: action) { deliver(UnsafeRawPointer($0), ObjectIdentifier(Action.self), thread) }
    }

    /// Takes an action through the interceptors, and then to another end than the stores of this dispatcher.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - end: Takes it from there, and returns how many stores announced a change; it hands on what it is given to
    ///     ``deliver(_:to:telling:)``, so that interceptors are told which.
    /// - Returns: How many stores announced a change.
    @discardableResult public func pass(
        _ action: any FluxAction, to end: @escaping @Sendable (any FluxAction, FluxDispatchReport?) -> Int
    ) -> Int {
        threads.current.requireImpure("dispatch(action:)")
        return begin(action, to: .other(end), nil, origin: threads.current.task)
    }

    @usableFromInline func pass(_ action: any FluxAction) -> Int {
        begin(action, to: .stores, nil, origin: threads.current.task)
    }

    func begin(
        _ action: any FluxAction, to end: FluxPassage.End, _ report: FluxDispatchReport?, origin: FluxTask?
    ) -> Int {
        let passage = FluxPassage(chain.withLock { $0 }, on: self, to: end, origin: origin)
        defer { passage.isKept.store(true, ordering: .relaxed) }
        return FluxNext(passage, nil).proceed(action, report)
    }

    /// Applies an action to the attached stores that take its type, past all interceptors.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - report: What an end of ``pass(_:to:)`` was given.
    /// - Returns: How many stores announced a change.
    @discardableResult public func deliver(_ action: any FluxAction, telling report: FluxDispatchReport? = nil) -> Int {
        let thread = threads.current
        thread.requireImpure("deliver")
        func open<Action: FluxAction>(_ action: Action) -> Int {
            withUnsafePointer(to: action) {
                deliver(UnsafeRawPointer($0), ObjectIdentifier(Action.self), thread, report)
            }
        }
        return open(action)
    }

    /// Applies an action to one store, attached or not, past all interceptors.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - store: The store.
    ///   - report: What an end of ``pass(_:to:)`` was given.
    /// - Returns: How many changes it announced; nil if it does not take the type.
    public func deliver(
        _ action: any FluxAction, to store: FluxStoreInfo, telling report: FluxDispatchReport? = nil
    ) -> Int? {
        threads.current.requireImpure("deliver")
        var wakes = FluxWakes()
        let announced = store.handle.take(action, &wakes, report)
        wakes.settle()
        return announced
    }

    @usableFromInline func deliver(
        _ action: UnsafeRawPointer, _ type: ObjectIdentifier, _ thread: UnsafeMutablePointer<FluxThread>,
        _ report: FluxDispatchReport? = nil
    ) -> Int {
        var wakes = FluxWakes()
        let announced = routes.withLock { $0.apply(action, type, thread, &wakes, report) }
        wakes.settle()
        return announced
    }

    // MARK: - Interceptors

    /// Adds an interceptor that every action of the dispatcher passes from now on.
    ///
    /// - Parameters:
    ///   - interceptor: What to add.
    ///   - priority: The highest comes first; among equals the one that was added first.
    ///   - isReplaced: Says of those that are there which it takes the place of, in one step; an action under way still reaches
    ///     them. Called under a lock.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Complexity: O(*m*) for *m* interceptors.
    @discardableResult public func add(
        _ interceptor: some FluxDispatchInterceptor, priority: Int = 0,
        insteadOf isReplaced: (any FluxDispatchInterceptor) -> Bool = { _ in false }
    ) -> FluxRegistration {
        let entry = FluxInterceptors.Entry(interceptor, priority: priority)
        change { entries in
            entries.removeAll { entry in
                guard let content = entry.content.withLock({ $0 }) else { return true }
                return isReplaced(content.interceptor)
            }
            entries.insert(entry, at: entries.firstIndex { $0.priority < priority } ?? entries.count)
        }
        // It does not refer to the dispatcher, for a weak reference makes each retain of that slow for good: the next dispatch
        // finds the entry empty.
        return FluxRegistration { _ = entry.remove() }
    }

    /// The interceptors, in the order in which an action comes to them.
    public var interceptors: [any FluxDispatchInterceptor] {
        chain.withLock { $0 }.entries.compactMap { $0.content.withLock { $0 }?.interceptor }
    }

    /// Removes interceptors; actions under way that have not reached them pass them by.
    ///
    /// - Parameter isUnwanted: Says of each whether it is to go.
    /// - Returns: How many were removed.
    /// - Complexity: O(*m*) for *m* interceptors.
    @discardableResult public func removeInterceptors(where isUnwanted: (any FluxDispatchInterceptor) -> Bool) -> Int {
        let unwanted = chain.withLock { $0 }.entries.filter { entry in
            entry.content.withLock { $0 }.map { isUnwanted($0.interceptor) } ?? false
        }
        let count = unwanted.count { $0.remove() }
        if count > 0 { sweepInterceptors() }
        return count
    }

    /// Takes out the entries of interceptors that were removed.
    func sweepInterceptors() { change { $0.removeAll { $0.isRemoved } } }

    private func change(_ body: (inout ContiguousArray<FluxInterceptors.Entry>) -> Void) {
        // What goes is the user's, so it is let go of outside the lock.
        let old = chain.withLock { chain in
            let old = chain
            var entries = old.entries
            body(&entries)
            chain = FluxInterceptors(entries)
            isIntercepted.store(!entries.isEmpty, ordering: .sequentiallyConsistent)
            return old
        }
        withExtendedLifetime(old) {}
    }

    @usableFromInline var eventObservers: ContiguousArray<any FluxEventObserver> {
        if !isIntercepted.load(ordering: .relaxed) { return [] }
        return ContiguousArray(interceptors)
    }

    // MARK: - Pausing

    /// Runs a closure while no action is under way in any of several dispatchers: what a view's cut is made of (C11).
    ///
    /// - Parameters:
    ///   - dispatchers: The dispatchers, in any order; one may be among them more than once.
    ///   - body: Reads stores; pure, and quick.
    /// - Returns: What the closure returns.
    public static func paused<Result>(_ dispatchers: [FluxDispatcher], _ body: () -> Result) -> Result {
        FluxPureCode.forbid("a view")
        switch dispatchers.count {
        case 0: return body()
        case 1: return dispatchers[0].routes.withLock { _ in body() }
        default:
            // One order for all who pause: by address, each once.
            var ordered: [FluxDispatcher] = []
            for dispatcher in dispatchers.sorted(by: { ObjectIdentifier($0) < ObjectIdentifier($1) })
            where ordered.last !== dispatcher {
                ordered.append(dispatcher)
            }
            return pause(ordered[...], body)
        }
    }

    private static func pause<Result>(_ rest: ArraySlice<FluxDispatcher>, _ body: () -> Result) -> Result {
        guard let first = rest.first else { return body() }
        return first.routes.withLock { _ in pause(rest.dropFirst(), body) }
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
