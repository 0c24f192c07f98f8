#if canImport(FluxCore)
    import FluxCore
#endif

/// Tells whether a value is as good as the last that it was told of: for those who want changes, or miss what comes between.
///
/// Thread safety: used by one thread at a time; what is compared and let go of is the user's, and no lock of this is held.
@usableFromInline
nonisolated final class FluxDistinct<Value: Sendable>: Sendable {
    /// Whether two are as good as equal; nil: none are, and none is kept.
    @usableFromInline let isSame: (@Sendable (Value, Value) -> Bool)?
    @usableFromInline let last: FluxLock<Value?>

    @inlinable
    init(by isSame: (@Sendable (Value, Value) -> Bool)?, after last: Value? = nil) {
        self.isSame = isSame
        self.last = FluxLock(last)
    }

    /// What was before a change, nil for the first, and what is now; nil if nothing has changed.
    @inlinable
    func change(to new: Value) -> (old: Value?, new: Value)? {
        guard let isSame else { return (nil, new) }
        let old = last.withLock { $0 }
        if let old, isSame(old, new) { return nil }
        last.withLock { $0 = new }
        return (old, new)
    }
}
