nonisolated extension FluxDispatcher {
    // MARK: - Middleware

    /// Adds middleware that every action of the dispatcher passes from now on.
    ///
    /// - Parameters:
    ///   - middleware: What to add.
    ///   - priority: The highest comes first; among equals the one that was added first.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func add(_ middleware: some FluxMiddleware, priority: Int = 0) -> FluxRegistration {
        add(FluxStation(middleware), priority: priority)
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
        add(FluxStation(middleware), priority: priority)
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
        pipeline.remove { $0.instance == ObjectIdentifier(middleware) }
    }

    /// Removes all middleware of a type.
    ///
    /// - Parameter type: The type.
    /// - Returns: How many were removed.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func remove<Middleware: FluxMiddleware>(_ type: Middleware.Type) -> Int {
        pipeline.remove { $0.kind == ObjectIdentifier(type) }
    }

    // MARK: - Workers

    /// Lets another dispatcher work for this one: it sees every action, and may replace or stop it for those behind.
    ///
    /// An action passes the worker's middleware, then its stores, and goes on from there: through what middleware and which
    /// workers are behind, and to the stores of this dispatcher. What the worker's middleware replaced or stopped is
    /// replaced or stopped for all of these. What is dispatched on the worker itself stays there.
    ///
    /// One that works for this one already moves to the end of its priority, and sees an action once, as a store that is
    /// attached again does; what was returned for its old place removes nothing from then on.
    ///
    /// Each dispatcher has one order of its own (C4); between the two there is none but that of C3.
    ///
    /// - Parameters:
    ///   - worker: The dispatcher; this one keeps it alive.
    ///   - priority: Its place among the middleware.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Throws: ``FluxCycle`` if an action would come back to this dispatcher.
    /// - Complexity: O(*m* + *w*) for *m* middleware, and *w* workers below the worker.
    @discardableResult
    public func attach(_ worker: FluxDispatcher, priority: Int = 0) throws(FluxCycle) -> FluxRegistration {
        // One at a time in the whole program: two that are attached to each other at once would not see the cycle.
        let station = FluxStation(FluxWorker(dispatcher: worker))
        var kept: ContiguousArray<FluxChain> = []
        let id = Self.attaching.withLock { _ in
            worker.leads(to: self, keeping: &kept) ? nil : pipeline.place(station, priority: priority, keeping: &kept)
        }
        kept = []
        guard let id else { throw FluxCycle() }
        return FluxRegistration { [pipeline] in pipeline.remove(id) }
    }

    /// Takes out a dispatcher that works for this one.
    ///
    /// - Parameter worker: The dispatcher.
    /// - Returns: Whether it worked for this one.
    /// - Complexity: O(*m*) for *m* middleware.
    @discardableResult
    public func detach(_ worker: FluxDispatcher) -> Bool {
        pipeline.remove { $0.worker === worker } > 0
    }

    private static let attaching = FluxLock(())

    /// Whether actions get from here to a dispatcher; what was looked at is to be let go of outside the lock.
    private func leads(to dispatcher: FluxDispatcher, keeping kept: inout ContiguousArray<FluxChain>) -> Bool {
        if self === dispatcher { return true }
        let chain = pipeline.chain
        kept.append(chain)
        return chain.stations.contains { $0.worker?.leads(to: dispatcher, keeping: &kept) == true }
    }

    // MARK: - Window

    /// Lets somebody look at what happens on this dispatcher.
    ///
    /// - Parameter hooks: Who is told.
    /// - Returns: What to end it by; letting go of that ends nothing.
    @discardableResult
    public func watch(_ hooks: some FluxHooks) -> FluxRegistration {
        let id = pipeline.add(hooks)
        return FluxRegistration { [pipeline] in pipeline.removeHooks(id) }
    }

    // MARK: - Support

    private func add(_ station: FluxStation, priority: Int) -> FluxRegistration {
        let id = pipeline.add(station, priority: priority)
        return FluxRegistration { [pipeline] in pipeline.remove(id) }
    }
}

/// A dispatcher was to work for one that works for it, or for itself.
///
/// Thread safety: a value.
nonisolated public struct FluxCycle: Error, CustomStringConvertible {
    /// What happened and what to do instead, for a log.
    public var description: String {
        "A dispatcher cannot be attached to one that it leads to, or to itself: actions would go round. Take out the other "
            + "attachment first, or attach both to a third dispatcher."
    }
}
