#if canImport(FluxCore)
    import FluxCore
#endif

/// A dispatcher was to be the child of one below it, or of itself.
///
/// Thread safety: a value.
nonisolated public struct FluxCycle: Swift.Error, CustomStringConvertible {
    /// What happened and what to do instead, for a log.
    public var description: String {
        "A dispatcher cannot be attached to one that it leads to, or to itself: actions would go round. Take out the other "
            + "attachment first, or attach both to a third dispatcher."
    }
}

nonisolated extension FluxDispatcher {
    // MARK: - Children

    /// Attaches another dispatcher below this one: it sees every action, and may replace or stop it for those behind.
    ///
    /// An action passes the child's middleware, then its stores, and goes on from there: through what middleware and which
    /// children are behind, and to the stores of this dispatcher. What the child's middleware replaced or stopped is
    /// replaced or stopped for all of these. What is dispatched on the child itself stays there.
    ///
    /// One that is a child of this one already moves to the end of its priority, and sees an action once, as a store that is
    /// attached again does; what was returned for its old place removes nothing from then on.
    ///
    /// Each dispatcher has one order of its own (C4); between the two there is none but that of C3.
    ///
    /// Each child, as each middleware, is a call within the one before it: a stack of 512 KB has room for some six hundred children.
    ///
    /// - Parameters:
    ///   - child: The dispatcher; this one keeps it alive.
    ///   - priority: Its place among the middleware.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Throws: ``FluxCycle`` if an action would come back to this dispatcher.
    /// - Complexity: O(*m* + *d*) for *m* middleware, and *d* dispatchers below the child.
    @discardableResult
    public func attach(_ child: FluxDispatcher, priority: Int = 0) throws(FluxCycle) -> FluxRegistration {
        FluxPureCode.forbid("attach")
        // One at a time in the whole program: two that are attached to each other at once would not see the cycle. What was
        // looked at is let go of outside the lock.
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

    /// Takes out a dispatcher that is a child of this one.
    ///
    /// - Parameter child: The dispatcher.
    /// - Returns: Whether it was a child of this one.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func detach(_ child: FluxDispatcher) -> Bool {
        FluxPureCode.forbid("detach")
        return removeInterceptors { ($0 as? FluxChildEntry)?.child === child } > 0
    }

    /// The dispatchers attached to this one, in the order in which an action comes to them.
    ///
    /// - Complexity: O(*m*) for *m* middleware.
    public var children: [FluxDispatcher] {
        interceptors.compactMap { ($0 as? FluxChildEntry)?.child }
    }

    /// Looks at each dispatcher once, however many ways lead to it.
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

/// Leads from a dispatcher to one of its children, and back.
nonisolated private struct FluxChildEntry: FluxDispatchInterceptor {
    let child: FluxDispatcher

    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        next(action, through: child)
    }
}
