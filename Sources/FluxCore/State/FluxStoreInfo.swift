/// A reference to a store of any type, as observers and other modules receive it.
///
/// It keeps the store's state in memory, but keeps the store neither alive nor attached: release it after use.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxStoreInfo: Sendable, Hashable, CustomStringConvertible {
    let handle: any FluxStoreHandling

    init(any handle: any FluxStoreHandling) { self.handle = handle }

    /// Creates a reference to a store.
    ///
    /// - Parameter handle: The handle of the store.
    public init<State>(_ handle: FluxStoreHandle<State>) { self.handle = handle }

    /// The type of the store's state.
    public var stateType: any FluxState.Type { handle.stateType }

    /// The store's state after the last applied action.
    public var state: any FluxState { handle.anyState }

    /// The dispatcher that the store is attached to; nil if there is none.
    public var dispatcher: FluxDispatcher? { handle.dispatcher }

    /// A number unique to the store, which changes with each attach and detach; 0 if the store was never attached.
    ///
    /// While the store moves from one dispatcher to another, it has yet another number, which an observer's
    /// ``FluxDispatcherObserver/attached(_:)`` reads.
    ///
    /// If the number is the same before and after reading the state, no other dispatcher had the store in between.
    /// Reading the number takes no lock.
    public var place: UInt64 { handle.placeKey }

    /// The store's name, or else the type of its state; messages keep showing the name after its dispatcher has gone.
    public var description: String { handle.label ?? "FluxStore<\(stateType)>" }

    /// Returns the store's handle if its state is of a type.
    ///
    /// - Parameter type: The type of the state.
    /// - Returns: The handle; nil if the state is of another type.
    public func handle<State>(of type: State.Type) -> FluxStoreHandle<State>? { handle as? FluxStoreHandle<State> }

    /// Returns whether the store takes a type of action: that of its state, or one that it reacts to.
    ///
    /// - Parameter type: The type of action.
    /// - Returns: True if it does.
    /// - Complexity: O(*r*) for *r* reactions of the store.
    public func takes(_ type: any FluxAction.Type) -> Bool { !handle.reducers(of: ObjectIdentifier(type)).isEmpty }

    /// Returns whether this refers to a given store.
    ///
    /// - Parameter store: The store.
    /// - Returns: True if it does.
    public func isOf<State>(_ store: FluxStore<State>) -> Bool { handle === store.handle }

    /// Returns whether two references refer to the same store.
    ///
    /// - Parameters:
    ///   - one: One reference.
    ///   - other: The other reference.
    /// - Returns: True if they do.
    public static func == (one: FluxStoreInfo, other: FluxStoreInfo) -> Bool { one.handle === other.handle }

    /// Hashes the identity of the store.
    ///
    /// - Parameter hasher: The hasher to use.
    public func hash(into hasher: inout Swift.Hasher) { hasher.combine(ObjectIdentifier(handle)) }
}

/// The handle of a store of any type.
nonisolated protocol FluxStoreHandling: AnyObject, Sendable {
    var stateType: any FluxState.Type { get }
    var dispatcher: FluxDispatcher? { get }
    var placeKey: UInt64 { get }
    var label: String? { get }
    var anyState: any FluxState { get }
    /// The name of the code that runs under the store's lock, for messages.
    var handlerName: String { get }
    /// Returns the reducers of the store for a type of action, in the order in which they run.
    func reducers(of type: ObjectIdentifier) -> [FluxReducer]
    /// Applies an action of any type.
    ///
    /// Returns how many changes were announced; nil if the store is not attached to the dispatcher, or does not take
    /// the type.
    func take<Action: FluxAction>(
        _ action: Action, from dispatcher: FluxDispatcher, _ wakes: inout FluxWakes, _ witness: FluxDispatchWitness?
    ) -> Int?
    func tell(_ observer: any FluxDispatcherObserver, isAttached: Bool)
    /// Detaches the store from a dispatcher if it is attached to that one; with nil, from any dispatcher.
    func detach(from dispatcher: FluxDispatcher?) -> Bool
}

nonisolated extension FluxStoreHandle {
    var stateType: any FluxState.Type { State.self }

    var anyState: any FluxState { state }

    var handlerName: String {
        "\(State.self).handle(action: \(State.Action.self))\(label.map { " of the store \($0)" } ?? "")"
    }

    func tell(_ observer: any FluxDispatcherObserver, isAttached: Bool) {
        if isAttached { observer.attached(self) } else { observer.detached(self) }
    }
}
