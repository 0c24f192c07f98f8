#if canImport(FluxCore)
    import FluxCore
#endif

/// What a part of a state was, and what it is now.
@usableFromInline
nonisolated struct FluxPartChange<Value: Sendable>: Sendable {
    /// Nil for the first.
    @usableFromInline let old: Value?
    @usableFromInline let new: Value

    @inlinable
    init(old: Value?, new: Value) {
        (self.old, self.new) = (old, new)
    }
}

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

    /// What has changed; nil if nothing has.
    @inlinable
    func change(to new: Value) -> FluxPartChange<Value>? {
        guard let isSame else { return FluxPartChange(old: nil, new: new) }
        let old = last.withLock { $0 }
        if let old, isSame(old, new) { return nil }
        last.withLock { $0 = new }
        return FluxPartChange(old: old, new: new)
    }
}
