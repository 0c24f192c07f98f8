nonisolated extension FluxStore {
    // MARK: - Middleware

    /// Adds middleware that every action of this store passes from now on.
    ///
    /// It gets what is dispatched to the store itself, and, behind the middleware of the dispatcher, what comes by way of
    /// that; it replaces or stops an action for this store alone. All stores of a dispatcher still get an action in one step
    /// and in one order (C4): their middleware runs before that step, that of one store within that of the one before, and
    /// `next` returns when all have the action. So it is for few stores: each takes a part of the thread's stack. What a
    /// store's middleware sends besides, later, or from another thread goes to that store alone, at that moment.
    ///
    /// - Parameters:
    ///   - middleware: What to add.
    ///   - priority: The highest comes first; among equals the one that was added first.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Complexity: O(*m*) for *m* middleware of the store.
    @inlinable @discardableResult
    public func add(_ middleware: some FluxMiddleware, priority: Int = 0) -> FluxRegistration {
        add(middleware, priority, resident)
    }

    /// Adds middleware made of a closure: `.before`, `.after` or `.on(Action.self)`.
    ///
    /// - Parameters:
    ///   - middleware: What to add.
    ///   - priority: The highest comes first; among equals the one that was added first.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Complexity: O(*m*) for *m* middleware of the store.
    @inlinable @discardableResult
    public func add(_ middleware: FluxInterceptor, priority: Int = 0) -> FluxRegistration {
        add(middleware, priority, resident)
    }

    /// Removes an object that was added as middleware, wherever it was added.
    ///
    /// - Parameter middleware: The object.
    /// - Returns: How many were removed.
    /// - Complexity: O(*m*) for *m* middleware of the store.
    @discardableResult
    public func remove(_ middleware: some FluxMiddleware & AnyObject) -> Int {
        core.residentIfAny?.remove { $0.remove { $0.instance == ObjectIdentifier(middleware) } } ?? 0
    }

    /// Removes all middleware of a type.
    ///
    /// - Parameter type: The type.
    /// - Returns: How many were removed.
    /// - Complexity: O(*m*) for *m* middleware of the store.
    @discardableResult
    public func remove<Middleware: FluxMiddleware>(_ type: Middleware.Type) -> Int {
        core.residentIfAny?.remove { $0.remove { $0.kind == ObjectIdentifier(type) } } ?? 0
    }

    @usableFromInline
    func add(_ middleware: some FluxMiddleware, _ priority: Int, _ resident: FluxResident) -> FluxRegistration {
        let id = resident.add(FluxStation(middleware), priority: priority, to: core)
        return FluxRegistration { resident.remove { $0.remove(id) } }
    }

    // MARK: - Other types of action

    /// Lets the store react to a type of action that is not its state's own, such as one that concerns many stores.
    ///
    /// ```swift
    /// cart.on(LogOut.self) { state, action in state.lines = [] }
    /// dispatcher.dispatch(action: LogOut())
    /// ```
    ///
    /// What it does is a change like any other: one at a time with those of `handle` (C1), announced under a revision of its
    /// own. The closure is as pure as `handle(action:)`, and the same is not allowed in it (C6).
    ///
    /// A store has one reaction to a type, and `handle` is the one to its state's own: a second stops the program with a
    /// message.
    ///
    /// - Parameters:
    ///   - type: Which actions.
    ///   - body: Changes the state.
    /// - Returns: What to remove it by; letting go of that removes nothing.
    /// - Complexity: O(1), amortised.
    @inlinable @discardableResult
    public func on<Action: FluxAction>(
        _ type: Action.Type, _ body: @escaping @Sendable (_ state: inout State, _ action: Action) -> Void
    ) -> FluxRegistration {
        let entrance = FluxEntrance(action: type, state: State.self, isReaction: true) { core, action, wakes, passage in
            let core = unsafeDowncast(core, to: FluxStoreCore<State>.self)
            let action = action.assumingMemoryBound(to: Action.self).pointee
            return core.applyInDetail(.reaction(action) { body(&$0, action) }, waking: &wakes, through: &passage)
        }
        let resident = resident
        guard let id = resident.add(entrance, to: core) else {
            fatalError(
                """
                FluxCore: FluxStore<\(State.self)>.on(\(type)) was used where the store takes that type already. \
                Remove the first reaction, or let handle(action:) or one reaction do both.
                """)
        }
        return FluxRegistration { resident.remove(id) }
    }

    // MARK: - Window

    /// Lets somebody look at what happens in this store.
    ///
    /// - Parameter hooks: Who is told.
    /// - Returns: What to end it by; letting go of that ends nothing.
    @inlinable @discardableResult
    public func watch(_ hooks: some FluxHooks) -> FluxRegistration {
        watch(hooks, resident)
    }

    @usableFromInline
    func watch(_ hooks: any FluxHooks, _ resident: FluxResident) -> FluxRegistration {
        let id = resident.pipeline.add(hooks)
        return FluxRegistration { resident.pipeline.removeHooks(id) }
    }

    // MARK: - Support

    /// What few stores need, made on first use.
    @inlinable var resident: FluxResident {
        core.residentIfAny
            ?? makeResident { core, action, wakes, passage in
                let core = unsafeDowncast(core, to: FluxStoreCore<State>.self)
                return core.apply(
                    action.assumingMemoryBound(to: State.Action.self).pointee, waking: &wakes, through: &passage)
            }
    }

    @usableFromInline
    func makeResident(_ apply: @escaping FluxEntrance.Apply) -> FluxResident {
        core.extras.resident {
            defer { dispatcher = nil }
            let main = FluxEntrance(action: State.Action.self, state: State.self, apply: apply)
            let owner = Unmanaged.passUnretained(core)
            return FluxResident(main: main, dispatcher: dispatcher, id: attachment) { bits in
                owner._withUnsafeGuaranteedRef {
                    $0.detours.fluxSet(bits, of: FluxDetours.middleware | FluxDetours.hooks)
                }
            }
        }
    }
}
