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
    /// - Complexity: O(*m* + *d*) for *m* middleware, and *d* dispatchers below the child.
    @discardableResult
    public func attach(_ child: FluxDispatcher, priority: Int = 0) throws(FluxCycle) -> FluxRegistration {
        FluxPureCode.forbid("attach")
        // One attachment at a time in the whole program: two dispatchers that are being attached to each other
        // concurrently would not see the cycle. The interceptors that were visited are released outside the lock.
        var seen: [ObjectIdentifier: [any FluxDispatchInterceptor]] = [:]
        let registration: FluxRegistration? = fluxAttachingChildren.withLock { _ in
            if child.leads(to: self, &seen) { return nil }
            seen[ObjectIdentifier(self)] = interceptors
            return add(FluxChildEntry(child: child), priority: priority) {
                ($0 as? FluxChildEntry)?.child === child
            }
        }
        seen = [:]
        guard let registration else { throw FluxCycle() }
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
        return removeInterceptors { ($0 as? FluxChildEntry)?.child === child } > 0
    }

    /// The dispatchers attached to this one, in the order in which an action reaches them.
    ///
    /// - Complexity: O(*m*) for *m* middleware.
    public var children: [FluxDispatcher] {
        interceptors.compactMap { ($0 as? FluxChildEntry)?.child }
    }

    /// Visits each dispatcher once, however many paths lead to it.
    private func leads(
        to dispatcher: FluxDispatcher, _ seen: inout [ObjectIdentifier: [any FluxDispatchInterceptor]]
    ) -> Bool {
        if self === dispatcher { return true }
        if seen[ObjectIdentifier(self)] != nil { return false }
        let interceptors = interceptors
        seen[ObjectIdentifier(self)] = interceptors
        return interceptors.contains { ($0 as? FluxChildEntry)?.child.leads(to: dispatcher, &seen) == true }
    }
}

nonisolated private let fluxAttachingChildren = FluxLock(())

/// Passes an action through a child of the dispatcher, and back.
nonisolated private struct FluxChildEntry: FluxDispatchInterceptor {
    let child: FluxDispatcher

    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        next(action, through: child)
    }
}
