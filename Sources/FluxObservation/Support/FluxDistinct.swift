#if canImport(FluxCore)
    import FluxCore
#endif

/// Tells whether a value counts as equal to the last one given to it, for consumers that want
/// only changes or skip values.
///
/// Thread safety: used by one thread at a time. Values are compared and released while its lock is free,
/// because this runs user code.
@usableFromInline
nonisolated final class FluxDistinct<Value: Sendable>: Sendable {
    /// Tells whether two values count as equal; nil if none do, and then no value is kept.
    @usableFromInline let isSame: (@Sendable (Value, Value) -> Bool)?
    /// Whether a lock or delivery of the library already excludes other threads: its own lock
    /// costs as much as all the rest.
    @usableFromInline let isAlone: Bool
    @usableFromInline let lock = FluxLock(())
    @exclusivity(unchecked) @usableFromInline nonisolated(unsafe) var last: Value?

    @inlinable
    init(by isSame: (@Sendable (Value, Value) -> Bool)?, after last: Value? = nil, isAlone: Bool = false) {
        (self.isSame, self.last, self.isAlone) = (isSame, last, isAlone)
    }

    /// Returns whether the value has changed.
    @inlinable func isChange(to new: Value) -> Bool { change(to: new) != nil }

    /// Returns the old value, nil for the first, and the new value; returns nil if nothing has changed.
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
