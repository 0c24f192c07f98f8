#if canImport(FluxCore)
    import FluxCore
#endif

/// The value of a view and what it was computed from, as the state of a store of its own.
@usableFromInline
nonisolated struct FluxDerived<Value: Sendable>: FluxState {
    @usableFromInline
    struct Action: FluxAction {
        @usableFromInline let next: FluxDerived
        /// The cut of the value that the next one was compared with.
        @usableFromInline let known: UInt64
        @usableFromInline let isSame: Bool

        @inlinable
        init(next: FluxDerived, known: UInt64, isSame: Bool) {
            (self.next, self.known, self.isSame) = (next, known, isSame)
        }
    }

    @usableFromInline let value: Value
    /// What was announced last, which is as good as the value.
    @usableFromInline let announced: Value
    /// The sum of the stamps of all stores it follows from: these only grow, so it differs if one of them does.
    @usableFromInline let stamp: UInt64
    /// The number of the cut: no value takes the place of one of a later cut, as who sends the actions sees to.
    @usableFromInline let cut: UInt64

    @inlinable
    init(value: Value, announced: Value? = nil, stamp: UInt64, cut: UInt64) {
        (self.value, self.announced, self.stamp, self.cut) = (value, announced ?? value, stamp, cut)
    }

    @inlinable
    mutating func handle(action: Action) -> FluxDerived? {
        guard action.known == cut else { return nil }
        self = FluxDerived(
            value: action.next.value, announced: action.isSame ? announced : nil, stamp: action.next.stamp,
            cut: action.next.cut)
        return action.isSame ? nil : self
    }
}
