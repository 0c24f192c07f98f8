#if canImport(FluxCore)
    import FluxCore
#endif

/// The error for giving a store a name that another store has.
///
/// Thread safety: a value.
nonisolated public struct FluxNameTaken: Swift.Error, CustomStringConvertible {
    /// The name.
    public let name: String
    /// The store that has it.
    public let holder: FluxStoreInfo

    /// A message for a log that says what happened and what to do instead.
    public var description: String {
        "The name \"\(name)\" is taken by a FluxStore<\(holder.stateType)> on this dispatcher: detach that store first, or "
            + "use another name."
    }
}

nonisolated extension FluxDispatcher {
    // MARK: - Names

    /// Attaches a store under a name, or moves it here from its current dispatcher.
    ///
    /// If the store already has a name here, the new name replaces it.
    ///
    /// - Parameters:
    ///   - store: The store.
    ///   - name: The name that ``dispatch(action:to:)`` finds the store by until it is detached, moved or released.
    ///   - priority: Stores of a higher priority receive an action first.
    /// - Throws: ``FluxNameTaken`` if another store here has the name; nothing has changed in that case.
    /// - Complexity: O(1), amortised; O(*n*) if *n* stores of a lower priority are attached, and for the first name of
    ///   a dispatcher with *n* stores.
    public func attach<State>(
        _ store: FluxStore<State>, as name: String, priority: Int = 0
    ) throws(FluxNameTaken) {
        FluxPureCode.forbid("attach")
        let names = names
        var isAgain = false
        repeat {
            if let holder = names.give(name, to: store.handle) {
                // Another thread has detached the store in the meantime: it stays detached.
                if isAgain { detach(store) }
                throw FluxNameTaken(name: name, holder: holder)
            }
            attach(store, priority: priority)
            isAgain = true
            // A thread that detached the store after it got the name has freed the name, too.
        } while !names.label(store.handle) && FluxStoreInfo(store.handle).dispatcher === self
    }

    /// Detaches the store that has a given name.
    ///
    /// - Parameter name: The name it was attached under.
    /// - Returns: Whether a store had the name.
    /// - Complexity: O(log *n*) for *n* stores of its action type, amortised.
    @discardableResult
    public func detach(named name: String) -> Bool {
        FluxPureCode.forbid("detach(named:)")
        return holder(of: name).map { detach($0) } ?? false
    }

    /// Applies an action to the store that is attached under a name, if the store takes its type.
    ///
    /// The action passes the middleware of the dispatcher and of its children as usual, but reaches no other store.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - name: The name that the store is attached under.
    /// - Returns: Whether the store has taken the action. The store applies it at once or, while its state is being
    ///   loaded, after the load. False if there is no such store, if it does not take the type, or if middleware
    ///   stopped or postponed the action.
    /// - Complexity: O(*r* + *m*) for the *r* reactions of the store and the *m* middleware on the way, plus the cost
    ///   of `handle(action:)`.
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

    /// The names, which observe the dispatcher before the first name is given.
    private var names: FluxNames {
        if let known = featureIfAny(FluxNames.self) { return known }
        let new = FluxNames()
        observe(new)
        let names = feature(FluxNames.self) { new }
        // Another thread was first.
        if names !== new { remove(new) }
        return names
    }

    private func holder(of name: String) -> FluxStoreInfo? {
        featureIfAny(FluxNames.self)?.holder(of: name)
    }
}

nonisolated extension FluxStoreInfo {
    /// The name that the store is attached under, if it has one.
    public var name: String? { dispatcher?.featureIfAny(FluxNames.self)?.name(of: self) }
}

/// The names of a dispatcher's stores; a store that leaves the dispatcher loses its name.
nonisolated final class FluxNames: FluxDispatcherObserver {
    private struct Names {
        var holders: [String: FluxStoreInfo] = [:]
        var names: [FluxStoreInfo: String] = [:]

        /// Takes the name of a store away; returns false if it has none.
        @discardableResult mutating func free(_ store: FluxStoreInfo) -> Bool {
            guard let name = names.removeValue(forKey: store) else { return false }
            holders[name] = nil
            return true
        }
    }

    private let names = FluxLock(Names())

    /// Gives a store a name in place of its current one; returns the store that has the name if it is another.
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

    /// Makes messages show the name; returns false if the store has lost it in the meantime.
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
        names.withLock { if $0.free(FluxStoreInfo(handle)) { handle.label = nil } }
    }
}
