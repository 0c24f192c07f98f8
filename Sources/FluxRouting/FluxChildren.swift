import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// The error for attaching a dispatcher to itself, or to a dispatcher that it leads to.
///
/// Thread safety: a value.
nonisolated public struct FluxCycle: Swift.Error, CustomStringConvertible {
    /// A message for a log that says what happened and what to do instead.
    public var description: String {
        "A dispatcher cannot be attached to itself or to a dispatcher that it leads to: actions would circulate. Detach the "
            + "child in between first, or attach both to a third dispatcher."
    }
}

nonisolated extension FluxDispatcher {
    // MARK: - Children

    /// Attaches a child dispatcher, which sees every action and may replace or stop it for everything after it.
    ///
    /// An action passes the child's middleware, then the child's stores. It then continues through the remaining
    /// middleware and children of this dispatcher, and ends at its stores. If the child's middleware replaces or stops
    /// the action, it is replaced or stopped for all of these too. An action that is dispatched on the child itself
    /// stays there.
    ///
    /// Attaching a child again moves it to the end of its priority, as with a store, and it still sees each action
    /// once. The registration for its old place then removes nothing.
    ///
    /// Each dispatcher has its own order (C4). Between the two, only the order of C3 holds.
    ///
    /// Each child, like each middleware, is a call nested in the one before it. A stack of 512 KB has room for about
    /// six hundred children.
    ///
    /// - Parameters:
    ///   - child: The dispatcher; this one keeps it in memory.
    ///   - priority: Its place among the middleware.
    /// - Returns: The registration that removes the child; releasing the registration removes nothing.
    /// - Throws: ``FluxCycle`` if an action would come back to this dispatcher.
    /// - Complexity: O(*m* + *d*) for *m* middleware, and *d* dispatchers below the child and their middleware.
    @discardableResult
    public func attach(_ child: FluxDispatcher, priority: Int = 0) throws(FluxCycle) -> FluxRegistration {
        FluxPureCode.forbid("attach")
        // One attachment at a time in the whole program: two dispatchers that are being attached to each other
        // concurrently would not see the cycle. The interceptors that were visited are released outside the lock.
        var seen: FluxSeen = [:]
        let registration: FluxRegistration? = fluxAttachingChildren.withLock { _ in
            if child.isAny(&seen, where: { $0 === self }) { return nil }
            seen[ObjectIdentifier(self)] = interceptors
            return add(FluxChildEntry(child, followers), priority: priority) {
                ($0 as? FluxChildEntry)?.child === child
            }
        }
        seen = [:]
        guard let registration else { throw FluxCycle() }
        followers.follow()
        return registration
    }

    /// Detaches a child of this dispatcher.
    ///
    /// - Parameter child: The child.
    /// - Returns: Whether it was a child of this one.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func detach(_ child: FluxDispatcher) -> Bool {
        FluxPureCode.forbid("detach")
        defer { featureIfAny(FluxFollowers.self)?.follow() }
        return removeInterceptors { ($0 as? FluxChildEntry)?.child === child } > 0
    }

    /// The dispatchers attached to this one, in the order in which an action reaches them.
    ///
    /// - Complexity: O(*m*) for *m* middleware.
    public var children: [FluxDispatcher] {
        interceptors.compactMap { ($0 as? FluxChildEntry)?.child }
    }

    /// Subscribes to this dispatcher and to each one below it: now, and whenever one is attached.
    ///
    /// ```swift
    /// let token = dispatcher.subscribeToAll { dispatcher in dispatcher.subscribeActions(on: queue) { print($0.action) } }
    /// ```
    ///
    /// When `attach` of a child returns, the closure has been called for it and for those below it, unless other threads
    /// attach and detach there too at that moment. Each dispatcher is subscribed to once, however many ways lead to it.
    /// Its subscription ends soon after the last way has been removed, at the latest when no action is on its way there.
    ///
    /// - Parameter subscribe: Subscribes to a dispatcher. Called on any thread, while a lock is held: it must not attach
    ///   or detach dispatchers, or end this subscription. Otherwise the program stops or waits forever.
    /// - Returns: The token of all these subscriptions. Keep it: they end when the token is released. Its `finish()` and
    ///   `dropped` concern the dispatchers that are below at that time. Until it ends, it keeps this dispatcher alive,
    ///   and those below while they are below.
    /// - Complexity: O(*d* + *m*) for *d* dispatchers and their *m* middleware, and again for each change of the children
    ///   of one of them; besides, the cost of `subscribe`.
    public func subscribeToAll(
        _ subscribe: @escaping @Sendable (FluxDispatcher) -> FluxSubscription
    ) -> FluxSubscription {
        FluxPureCode.forbid("subscribeToAll")
        let follower = FluxFollower(self, subscribe)
        follower.follow()
        return FluxSubscription {
            FluxPureCode.after { follower.end() }
        } finish: {
            for token in follower.tokens { await token.finish() }
        } dropped: {
            follower.tokens.reduce(0) { $0 + $1.dropped }
        }
    }

    /// Returns whether a closure returns true for this dispatcher or one below it.
    ///
    /// Visits each dispatcher once, however many paths lead to it, and before its children are read.
    func isAny(_ seen: inout FluxSeen, where isWanted: (FluxDispatcher) -> Bool) -> Bool {
        if seen[ObjectIdentifier(self)] != nil { return false }
        if isWanted(self) { return true }
        let interceptors = interceptors
        seen[ObjectIdentifier(self)] = interceptors
        return interceptors.contains { ($0 as? FluxChildEntry)?.child.isAny(&seen, where: isWanted) == true }
    }
}

nonisolated private let fluxAttachingChildren = FluxLock(())

/// The dispatchers that a walk has visited, each with its interceptors, which are released after the walk.
typealias FluxSeen = [ObjectIdentifier: [any FluxDispatchInterceptor]]

/// Passes an action through a child of the dispatcher, and back.
nonisolated private final class FluxChildEntry: FluxDispatchInterceptor {
    let child: FluxDispatcher
    /// The followers of the dispatcher that it belongs to.
    private let followers: FluxFollowers

    init(_ child: FluxDispatcher, _ followers: FluxFollowers) { (self.child, self.followers) = (child, followers) }

    /// However the child was removed, no action is on its way there any more.
    ///
    /// Not on this thread, which may be one that follows, or hold a lock.
    deinit { if !followers.isEmpty { DispatchQueue.global().async { [followers] in followers.follow() } } }

    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        next(action, through: child)
    }
}

// MARK: - Following the children

/// The followers of a dispatcher, kept as a feature of it.
nonisolated private final class FluxFollowers: Sendable {
    private let all = FluxLock<[ObjectIdentifier: FluxFollower]>([:])

    func add(_ follower: FluxFollower) { all.withLock { $0[ObjectIdentifier(follower)] = follower } }

    func remove(_ follower: FluxFollower) { all.withLock { $0[ObjectIdentifier(follower)] = nil } }

    var isEmpty: Bool { all.withLock { $0.isEmpty } }

    func follow() { for follower in all.withLock({ $0 }).values { follower.follow() } }
}

nonisolated extension FluxDispatcher {
    fileprivate var followers: FluxFollowers { feature(FluxFollowers.self, FluxFollowers.init) }
}

/// Subscribes to a dispatcher and to all below it, and follows as they are attached and removed.
nonisolated private final class FluxFollower: Sendable {
    private struct Table {
        /// Nil once ended.
        var followed: (root: FluxDispatcher, subscribe: @Sendable (FluxDispatcher) -> FluxSubscription)?
        /// Each dispatcher, nil once ended, and the subscription to it.
        var known: [ObjectIdentifier: (dispatcher: FluxDispatcher?, token: FluxSubscription)] = [:]
    }

    private let table: FluxLock<Table>

    init(_ root: FluxDispatcher, _ subscribe: @escaping @Sendable (FluxDispatcher) -> FluxSubscription) {
        table = FluxLock(Table(followed: (root, subscribe)))
    }

    var tokens: [FluxSubscription] { table.withLock { $0.known.values.map(\.token) } }

    /// Subscribes to what has come, and ends the subscriptions to what has gone.
    func follow() {
        // What may be the last reference to something of the user's is released after the lock.
        var seen: FluxSeen = [:]
        var gone: [(FluxDispatcher?, FluxSubscription)] = []
        table.withLock { table in
            guard let (root, subscribe) = table.followed else { return }
            _ = root.isAny(&seen) { dispatcher in
                if table.known[ObjectIdentifier(dispatcher)] == nil {
                    // Before its children are read: whoever attaches one after that finds this follower.
                    dispatcher.followers.add(self)
                    table.known[ObjectIdentifier(dispatcher)] = (dispatcher, subscribe(dispatcher))
                }
                return false
            }
            for (id, one) in table.known where seen[id] == nil {
                one.dispatcher?.followers.remove(self)
                gone.append(table.known.removeValue(forKey: id)!)
            }
        }
        for (_, token) in gone { token.unsubscribe() }
        seen = [:]
    }

    func end() {
        let old = table.withLock { table in
            defer { (table.followed, table.known) = (nil, table.known.mapValues { (nil, $0.token) }) }
            return table
        }
        for (dispatcher, _) in old.known.values { dispatcher?.followers.remove(self) }
        for (_, token) in old.known.values { token.unsubscribe() }
    }
}
