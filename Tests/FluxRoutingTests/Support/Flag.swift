import Synchronization

/// A flag that costs a load, for races that a lock would hide.
final class Flag: Sendable {
    private let value = Atomic<Bool>(false)

    var isSet: Bool { value.load(ordering: .sequentiallyConsistent) }

    func set() {
        value.store(true, ordering: .sequentiallyConsistent)
    }
}
