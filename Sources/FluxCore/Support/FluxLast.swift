/// A value that one handler keeps from one call to the next.
///
/// It is safe without a lock: a handler is never called twice at once, and the lock of its store lies between two calls.
@usableFromInline
nonisolated final class FluxLast<Value>: @unchecked Sendable {
    @usableFromInline var value: Value

    @inlinable
    init(_ value: Value) {
        self.value = value
    }
}
