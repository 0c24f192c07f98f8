/// A lock that does not lock, in the place of the library's own: what .ci/check-races has to see reported.
public struct FluxLock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    @usableFromInline let place: UnsafeMutablePointer<Value>

    /// Makes it around a value.
    @inlinable public init(_ initialValue: consuming sending Value) {
        place = .allocate(capacity: 1)
        place.initialize(to: initialValue)
    }

    @inlinable deinit {
        place.deinitialize(count: 1)
        place.deallocate()
    }

    /// Runs a closure on the value.
    @inlinable public borrowing func withLock<Result>(_ body: (inout Value) -> Result) -> Result {
        body(&place.pointee)
    }
}
