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
    /// Whether a lock or a delivery of ours keeps two threads from using it at once: its own costs as much as all the rest.
    @usableFromInline let isAlone: Bool
    @usableFromInline let lock = FluxLock(())
    @exclusivity(unchecked) @usableFromInline nonisolated(unsafe) var last: Value?

    @inlinable
    init(by isSame: (@Sendable (Value, Value) -> Bool)?, after last: Value? = nil, isAlone: Bool = false) {
        (self.isSame, self.last, self.isAlone) = (isSame, last, isAlone)
    }

    /// Whether something has changed.
    @inlinable func isChange(to new: Value) -> Bool { change(to: new) != nil }

    /// What was before a change, nil for the first, and what is now; nil if nothing has changed.
    @inlinable @inline(__always)
    func change(to new: Value) -> (old: Value?, new: Value)? {
        // Not unwrapped: that would retain the closure.
        if isSame == nil { return (nil, new) }
        let old = isAlone ? last : lock.withLock { _ in last }
        if let old, isSame?(old, new) == true { return nil }
        if isAlone { last = new } else { lock.withLock { _ in last = new } }
        return (old, new)
    }
}
