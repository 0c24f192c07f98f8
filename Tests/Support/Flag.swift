import Synchronization

/// A flag that costs a load, for races that a lock would hide.
public final class Flag: Sendable {
    private let value = Atomic<Bool>(false)

    /// A flag that is not set.
    public init() {}

    /// Whether it has been set.
    public var isSet: Bool { value.load(ordering: .sequentiallyConsistent) }

    /// Sets it for good.
    public func set() {
        value.store(true, ordering: .sequentiallyConsistent)
    }
}
