import Synchronization

/// A reference that is set once, by the first of several threads, and read without a lock.
///
/// `Synchronization.AtomicLazyReference` does that too, but is not compiled into who uses it: to read one takes thirty times as
/// long, and each wake of a queue reads two.
nonisolated struct FluxLazy<Object: AnyObject & Sendable>: ~Copyable, Sendable {
    private let reference = Synchronization.Atomic<Unmanaged<Object>?>(nil)

    deinit { reference.load(ordering: .acquiring)?.release() }

    /// The object, if there is one.
    var object: Object? { reference.load(ordering: .acquiring)?.takeUnretainedValue() }

    /// The object, made on first use; where two threads come at once, one of the two that they made is kept.
    func object(_ make: @autoclosure () -> Object) -> Object {
        if let object { return object }
        let made = Unmanaged.passRetained(make())
        let known = reference.compareExchange(expected: nil, desired: made, ordering: .acquiringAndReleasing).original
        if known != nil { made.release() }
        return (known ?? made).takeUnretainedValue()
    }
}
