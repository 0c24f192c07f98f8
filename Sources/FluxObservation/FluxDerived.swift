#if canImport(FluxCore)
    import FluxCore
#endif

/// The value of a view with its stamp and its cut, as the state of the view's own store.
@usableFromInline
nonisolated struct FluxDerived<Value: Sendable>: FluxState {
    @usableFromInline
    struct Action: FluxAction {
        @usableFromInline let next: FluxDerived
        /// The number of the cut of the value that `next` was compared with.
        @usableFromInline let known: UInt64
        @usableFromInline let isSame: Bool

        @inlinable
        init(next: FluxDerived, known: UInt64, isSame: Bool) {
            (self.next, self.known, self.isSame) = (next, known, isSame)
        }
    }

    @usableFromInline let value: Value
    /// The value announced last, which counts as equal to `value`.
    @usableFromInline let announced: Value
    /// The stamp of the sources from before the cut; stamps of stores only grow, so it differs if one of them has
    /// changed.
    @usableFromInline let stamp: UInt64
    /// The number of the cut; the sender of the actions ensures that no value replaces one of a later cut.
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
