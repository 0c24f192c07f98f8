#if canImport(FluxCore)
    import FluxCore
#endif

/// A name was to be given to a store while another one has it.
///
/// Thread safety: a value.
nonisolated public struct FluxNameTaken: Swift.Error, CustomStringConvertible {
    /// The name.
    public let name: String
    /// The store that has it.
    public let holder: FluxStoreInfo

    /// What happened and what to do instead, for a log.
    public var description: String {
        "The name \"\(name)\" is taken by a FluxStore<\(holder.stateType)> on this dispatcher: detach that one first, or "
            + "take another name."
    }
}

nonisolated extension FluxDispatcher {
    // MARK: - Names

    /// Attaches a store under a name, or moves it here from where it is attached.
    ///
    /// A store that has a name here already gets the new one in its place.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - name: What ``dispatch(action:to:)`` finds it by, until it is detached, moved or gone.
    ///   - priority: Stores of a higher one get an action first.
    /// - Throws: ``FluxNameTaken`` if another store here has the name; then nothing has changed.
    /// - Complexity: O(1), amortised; O(*n*) before *n* stores of a lower priority, and with the first name of a dispatcher for the *n*
    ///   stores that it has.
    public func attach<State>(
        _ store: FluxStore<State>, as name: String, priority: Int = 0
    ) throws(FluxNameTaken) {
        FluxPureCode.forbid("attach")
        let names = feature(FluxNames.self) { FluxNames() }
        names.start(on: self)
        var isAgain = false
        repeat {
            if let holder = names.give(name, to: store.handle) {
                // As who detached it meanwhile has left it.
                if isAgain { detach(store) }
                throw FluxNameTaken(name: name, holder: holder)
            }
            attach(store, priority: priority)
            isAgain = true
            // Whoever detached it after it got the name has freed that, too.
        } while !names.label(store.handle) && FluxStoreInfo(store.handle).dispatcher === self
    }

    /// Detaches the store that has a name.
    ///
    /// - Parameter name: The name it was attached under.
    /// - Returns: Whether there was one.
    /// - Complexity: O(log *n*) for *n* stores of its action type, amortised.
    @discardableResult
    public func detach(named name: String) -> Bool {
        FluxPureCode.forbid("detach(named:)")
        return holder(of: name).map { detach($0) } ?? false
    }

    /// Applies an action to the store that is attached under a name, if it takes the type.
    ///
    /// It goes through the middleware of the dispatcher and of its children as every action does, and reaches no other store.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - name: The name that the store was attached under.
    /// - Returns: Whether the store has taken it, which applies it at once, or after the load where its state is being loaded; false
    ///   if there is no such store, it takes no such action, or middleware stopped or postponed it.
    /// - Complexity: O(*r*) for the *r* reactions of the store, and that of `handle(action:)`.
    @discardableResult
    public func dispatch<Action: FluxAction>(action: Action, to name: String) -> Bool {
        FluxPureCode.forbid("dispatch(action:to:)")
        let isApplied = FluxLock(false)
        pass(action) { [self] action, witness in
            guard let store = holder(of: name), let announced = deliver(action, to: store, telling: witness) else {
                return 0
            }
            isApplied.withLock { $0 = true }
            return announced
        }
        return isApplied.withLock { $0 }
    }

    private func holder(of name: String) -> FluxStoreInfo? {
        featureIfAny(FluxNames.self)?.holder(of: name)
    }
}

nonisolated extension FluxStoreInfo {
    /// The name it is attached under, if it has one.
    public var name: String? { dispatcher?.featureIfAny(FluxNames.self)?.name(of: self) }
}

/// The names of a dispatcher; a store that leaves it loses its own.
nonisolated final class FluxNames: FluxDispatcherObserver {
    private struct Names {
        var holders: [String: FluxStoreInfo] = [:]
        var names: [FluxStoreInfo: String] = [:]

        mutating func free(_ store: FluxStoreInfo) {
            if let name = names.removeValue(forKey: store) { holders[name] = nil }
        }
    }

    private let names = FluxLock(Names())
    private let hasStarted = FluxLock(false)

    /// Looks on at the dispatcher, before the first name is given.
    func start(on dispatcher: FluxDispatcher) {
        hasStarted.withLock { hasStarted in
            if !hasStarted { dispatcher.observe(self) }
            hasStarted = true
        }
    }

    /// Gives a store a name in place of the one it has; returns who has it, if that is another.
    func give<State>(_ name: String, to handle: FluxStoreHandle<State>) -> FluxStoreInfo? {
        let store = FluxStoreInfo(handle)
        return names.withLock { names in
            if let holder = names.holders[name] { return holder == store ? nil : holder }
            names.free(store)
            names.holders[name] = store
            names.names[store] = name
            return nil
        }
    }

    /// Has messages show the name; false: the store has lost it meanwhile.
    func label<State>(_ handle: FluxStoreHandle<State>) -> Bool {
        names.withLock { names in
            guard let name = names.names[FluxStoreInfo(handle)] else { return false }
            handle.label = name
            return true
        }
    }

    func holder(of name: String) -> FluxStoreInfo? { names.withLock { $0.holders[name] } }

    func name(of store: FluxStoreInfo) -> String? { names.withLock { $0.names[store] } }

    // MARK: - FluxDispatcherObserver

    func attached<State>(_ handle: FluxStoreHandle<State>) {}

    func detached<State>(_ handle: FluxStoreHandle<State>) {
        names.withLock { names in
            let store = FluxStoreInfo(handle)
            if names.names[store] == nil { return }
            names.free(store)
            handle.label = nil
        }
    }
}
