import Synchronization

/// A reference that is set once, by the first of several threads, and read without a lock.
///
/// `Synchronization.AtomicLazyReference` does the same, but is not compiled into its caller: reading one takes thirty
/// times as long, and each wake of a queue reads two.
nonisolated struct FluxLazy<Object: AnyObject & Sendable>: ~Copyable, Sendable {
    private let reference = Synchronization.Atomic<Unmanaged<Object>?>(nil)

    deinit { reference.load(ordering: .acquiring)?.release() }

    /// The object, if there is one.
    var object: Object? { reference.load(ordering: .acquiring)?.takeUnretainedValue() }

    /// Returns the object, created on first use; if two threads create one at once, one of the two is kept.
    func object(_ make: @autoclosure () -> Object) -> Object {
        if let object { return object }
        let made = Unmanaged.passRetained(make())
        let known = reference.compareExchange(expected: nil, desired: made, ordering: .acquiringAndReleasing).original
        if known != nil { made.release() }
        return (known ?? made).takeUnretainedValue()
    }
}
