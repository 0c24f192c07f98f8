/// How the actions of one type get into the stores of one state type, without naming either.
@usableFromInline
nonisolated final class FluxEntrance: Sendable {
    /// Applies the action at an address to a core of the right type; returns the revision that announces it, 0 if none.
    ///
    /// For the actions of a state it captures nothing: made where the client's types are known, it is the specialised code
    /// itself. For those that a store reacts to besides, it captures the reaction.
    @usableFromInline typealias Apply =
        @Sendable (
            _ core: AnyObject, _ action: UnsafeRawPointer, _ wakes: inout FluxWakes<FluxWake>,
            _ passage: inout FluxPassage
        ) -> UInt64

    let action: ObjectIdentifier
    let state: any FluxState.Type
    /// Whether it leads to a reaction rather than to the state's own `handle`.
    let isReaction: Bool
    let apply: Apply

    @usableFromInline
    init(action: Any.Type, state: any FluxState.Type, isReaction: Bool = false, apply: @escaping Apply) {
        self.action = ObjectIdentifier(action)
        self.state = state
        self.isReaction = isReaction
        self.apply = apply
    }

    /// Applies an action, which must be of the right type, to a core.
    func apply(
        _ action: any FluxAction, to core: AnyObject, waking wakes: inout FluxWakes<FluxWake>,
        through passage: inout FluxPassage
    ) -> UInt64 {
        fluxWithAddress(of: action) { apply(core, $0, &wakes, &passage) }
    }
}

/// Calls a closure with the address of the action that an existential holds.
nonisolated func fluxWithAddress<Result>(of action: any FluxAction, _ body: (UnsafeRawPointer) -> Result) -> Result {
    func open<Action: FluxAction>(_ action: Action) -> Result {
        withUnsafePointer(to: action) { body(UnsafeRawPointer($0)) }
    }
    return open(action)
}
