import Synchronization

/// A flag that costs one atomic load, for races that a lock would hide.
public final class Flag: Sendable {
    private let value = Atomic<Bool>(false)

    /// Creates a flag that is not set.
    public init() {}

    /// Whether the flag has been set.
    public var isSet: Bool { value.load(ordering: .sequentiallyConsistent) }

    /// Sets the flag permanently.
    public func set() {
        value.store(true, ordering: .sequentiallyConsistent)
    }
}
