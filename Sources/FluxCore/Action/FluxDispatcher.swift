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
/// their last reference.
///
/// Thread safety: all of it may be used from any thread, and inside handlers, middleware and converters.
nonisolated public final class FluxDispatcher: FluxDispatching {
    /// The dispatcher that stores and creators use if they are given no other.
    public static let shared = FluxDispatcher()

    @usableFromInline let threads = FluxThreads.shared
    /// What keeps an action from the short way, as bits of ``FluxDetours``.
    @usableFromInline let detours = Synchronization.Atomic<UInt8>(0)
    let routes = FluxLock(FluxRoutes())
    let pipeline = FluxPipeline()

    /// Makes a dispatcher with no store attached.
    ///
    /// - Parameter middleware: What every action passes on its way to the stores, first things first.
    public init(middleware: [any FluxMiddleware] = []) {
        let owner = Unmanaged.passUnretained(self)
        pipeline.open { bits in
            owner._withUnsafeGuaranteedRef {
                $0.detours.fluxSet(bits, of: FluxDetours.middleware | FluxDetours.hooks)
            }
        }
        for middleware in middleware { add(middleware) }
    }

    /// Makes a dispatcher with middleware of closures: `FluxDispatcher(middleware: [.before { print($0) }])`.
    ///
    /// - Parameter middleware: What every action passes on its way to the stores, first things first.
    @_disfavoredOverload
    public convenience init(middleware: [FluxInterceptor]) {
        self.init(middleware: middleware as [any FluxMiddleware])
    }

    deinit {
        pipeline.close()
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
    @inlinable @discardableResult
    public func dispatch<Action: FluxAction>(action: Action) -> Int {
        if threads.current.pointee.handling != nil { fluxStopImpureHandle("dispatch(action:)") }
        if detours.load(ordering: .relaxed) != 0 { return dispatchInDetail(action) }
        return withUnsafePointer(to: action) { dispatch(UnsafeRawPointer($0), type: ObjectIdentifier(Action.self)) }
    }

    /// Applies an action to the store that is attached under a name, if it takes the type.
    ///
    /// It passes the middleware of the dispatcher as every action does.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - name: The name that the store was attached under.
    /// - Returns: Whether the store has applied it; false if there is no such store, it takes no such action, or middleware
    ///   stopped or postponed it.
    /// - Complexity: O(1), and that of `handle(action:)`.
    @inlinable @discardableResult
    public func dispatch<Action: FluxAction>(action: Action, to name: String) -> Bool {
        if threads.current.pointee.handling != nil { fluxStopImpureHandle("dispatch(action:to:)") }
        if detours.load(ordering: .relaxed) != 0 { return dispatchTheLongWay(action, to: name) }
        return withUnsafePointer(to: action) {
            dispatch(UnsafeRawPointer($0), type: ObjectIdentifier(Action.self), to: name)
        }
    }

    @usableFromInline
    func dispatch(_ action: UnsafeRawPointer, type: ObjectIdentifier) -> Int {
        var wakes = FluxWakes<FluxWake>.none
        var passage = FluxPassage()
        let announced = routes.withLock { $0.dispatch(action, type: type, waking: &wakes, through: &passage) }
        passage.finish(wakes)
        return announced
    }

    @usableFromInline
    func dispatch(_ action: UnsafeRawPointer, type: ObjectIdentifier, to name: String) -> Bool {
        guard let (core, resident) = routes.withLock({ $0.holder(of: name) }),
            let entrance = resident.entrance(of: type)
        else { return false }
        var wakes = FluxWakes<FluxWake>.none
        var passage = FluxPassage()
        _ = entrance.apply(core, action, &wakes, &passage)
        passage.finish(wakes)
        return true
    }

    // MARK: - The long way

    /// Dispatches past middleware and hooks.
    @inlinable @inline(never)
    func dispatchInDetail<Action: FluxAction>(_ action: Action) -> Int {
        if detours.load(ordering: .relaxed) != FluxDetours.hooks { return dispatchTheLongWay(action) }
        return withUnsafePointer(to: action) {
            dispatchWatched(action, at: UnsafeRawPointer($0), type: ObjectIdentifier(Action.self))
        }
    }

    @usableFromInline
    func dispatchTheLongWay(_ action: any FluxAction) -> Int {
        begin(action, to: .everybody(self)).announced
    }

    /// Dispatches with hooks and nothing else, which is to be quick.
    @usableFromInline @inline(__always)
    func dispatchWatched(_ action: any FluxAction, at address: UnsafeRawPointer, type: ObjectIdentifier) -> Int {
        let chain = pipeline.chain
        chain.tellDispatched(action, on: threads.current)
        var wakes = FluxWakes<FluxWake>.none
        var passage = FluxPassage()
        var watch = FluxWatch(hasRoom: true)
        let announced = withUnsafeMutablePointer(to: &watch) { watch in
            passage.watch = watch
            return routes.withLock { $0.dispatch(address, type: type, waking: &wakes, through: &passage) }
        }
        wakes.forEach { $0.wake() }
        watch.tell(action, chain)
        if passage.note != nil { passage.tell(chain) }
        return announced
    }

    @usableFromInline
    func dispatchTheLongWay(_ action: any FluxAction, to name: String) -> Bool {
        begin(action, to: .name(self, name)).applied > 0
    }

    private func begin(_ action: any FluxAction, to goal: FluxGoal) -> FluxTally {
        let chain = pipeline.chain
        let origin = threads.current.pointee.origin
        return threads.current.tally {
            chain.tellDispatched(action, on: threads.current)
            FluxNext(chain, to: goal, origin: origin).proceed(action)
        }
    }

    /// Sees an action that passes the dispatcher this one works for.
    func work(on action: any FluxAction, _ next: FluxNext) {
        let chain = pipeline.chain
        let origin = next.origin
        chain.tellDispatched(action, on: threads.current)
        FluxNext(chain, to: .worker(self, next), origin: origin).proceed(action)
    }

    /// Takes an action that has passed all middleware of the dispatcher to the stores.
    func deliver(_ action: any FluxAction) {
        if detours.load(ordering: .relaxed) & FluxDetours.guards != 0 {
            let guards = routes.withLock { $0.guards(of: ObjectIdentifier(Swift.type(of: action))) }
            if !guards.isEmpty { return FluxCrossing(self, action, guards).start() }
        }
        apply(action, plans: [:])
    }

    func deliver(_ action: any FluxAction, to name: String) {
        guard let (core, resident) = routes.withLock({ $0.holder(of: name) }) else { return }
        FluxNext(resident.pipeline.chain, to: .store(core, resident, self), origin: threads.current.pointee.origin)
            .proceed(action)
    }

    /// What to tell; nil if nobody watches.
    @usableFromInline var chainIfWatched: FluxChain? {
        detours.load(ordering: .relaxed) & FluxDetours.hooks == 0 ? nil : pipeline.chain
    }

    func apply(_ action: any FluxAction, plans: FluxPlans) {
        let thread = threads.current
        let chain = chainIfWatched
        var wakes = FluxWakes<FluxWake>.none
        var passage = FluxPassage()
        var watch = FluxWatch(wantsStates: thread.pointee.report != nil)
        let tally = withUnsafeMutablePointer(to: &watch) { watch in
            if watch.pointee.wantsStates || chain != nil { passage.watch = watch }
            return routes.withLock { $0.dispatch(action, plans: plans, waking: &wakes, through: &passage) }
        }
        thread.pointee.tally.applied += tally.applied
        thread.pointee.tally.announced += tally.announced
        passage.finish(wakes, chain)
    }
}
