/// A store of any type, as others are told of it.
///
/// It keeps what it tells of in memory, though not attached: let go of it after use.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxStoreInfo: Sendable, Hashable, CustomStringConvertible {
    let handle: any FluxStoreHandling

    init(any handle: any FluxStoreHandling) { self.handle = handle }

    /// Tells of a store.
    ///
    /// - Parameter handle: The handle of the store.
    public init<State>(_ handle: FluxStoreHandle<State>) { self.handle = handle }

    /// The type of its state.
    public var stateType: any FluxState.Type { handle.stateType }

    /// Its state after the last action that was applied.
    public var state: any FluxState { handle.anyState }

    /// The dispatcher that it is attached to; nil: none.
    public var dispatcher: FluxDispatcher? { handle.dispatcher }

    /// A number that no other store has, another one each time that it is attached or detached; 0 if it never was.
    ///
    /// While it moves from one dispatcher to another it is yet another, as `attached` finds it.
    ///
    /// Who finds the same before and after a look at the state knows that no other dispatcher had the store meanwhile. It takes no
    /// lock.
    public var place: UInt64 { handle.key }

    /// Its name, or the type of its state; the name stays for messages where its dispatcher has gone.
    public var description: String { handle.label ?? "FluxStore<\(stateType)>" }

    /// Its handle, where the state is of a type.
    ///
    /// - Parameter type: The type of the state.
    /// - Returns: The handle; nil if the state is of another type.
    public func handle<State>(of type: State.Type) -> FluxStoreHandle<State>? { handle as? FluxStoreHandle<State> }

    /// Whether the store takes a type of action: that of its state, or one that it reacts to.
    ///
    /// - Parameter type: The type of action.
    /// - Returns: True if it does.
    public func takes(_ type: any FluxAction.Type) -> Bool { !handle.reducers(of: ObjectIdentifier(type)).isEmpty }

    /// Whether this tells of a certain store.
    ///
    /// - Parameter store: Which store.
    /// - Returns: True if it does.
    public func isOf<State>(_ store: FluxStore<State>) -> Bool { handle === store.handle }

    /// Whether both tell of the same store.
    ///
    /// - Parameters:
    ///   - one: One.
    ///   - other: The other.
    /// - Returns: True if they do.
    public static func == (one: FluxStoreInfo, other: FluxStoreInfo) -> Bool { one.handle === other.handle }

    /// Hashes which store this tells of.
    ///
    /// - Parameter hasher: What to hash with.
    public func hash(into hasher: inout Swift.Hasher) { hasher.combine(ObjectIdentifier(handle)) }
}

/// The handle of a store of any type.
nonisolated protocol FluxStoreHandling: AnyObject, Sendable {
    var stateType: any FluxState.Type { get }
    var dispatcher: FluxDispatcher? { get }
    var key: UInt64 { get }
    var label: String? { get }
    var anyState: any FluxState { get }
    /// Which code runs under its lock.
    var handlerName: String { get }
    /// What the store does about a type of action, first things first.
    func reducers(of type: ObjectIdentifier) -> [FluxReducer]
    /// Takes an action of any type; returns how many changes were announced, nil if it is not attached there, or not of its types.
    func take<Action: FluxAction>(
        _ action: Action, from dispatcher: FluxDispatcher, _ wakes: inout FluxWakes, _ witness: FluxDispatchWitness?
    ) -> Int?
    func tell(_ observer: any FluxDispatcherObserver, isAttached: Bool)
    /// Takes the store out of its dispatcher, if that is the one; with nil, whichever it is.
    func leave(_ dispatcher: FluxDispatcher?) -> Bool
}

nonisolated extension FluxStoreHandle {
    var stateType: any FluxState.Type { State.self }

    var anyState: any FluxState { state }

    var handlerName: String { "\(State.self).handle(action: \(State.Action.self))" }

    func tell(_ observer: any FluxDispatcherObserver, isAttached: Bool) {
        if isAttached { observer.attached(self) } else { observer.detached(self) }
    }
}
