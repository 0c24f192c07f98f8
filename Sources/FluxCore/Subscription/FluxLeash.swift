/// Lets a handler that belongs to an object end its subscription once that is gone.
@usableFromInline
nonisolated final class FluxLeash: Sendable {
    /// Whether the object still lives; not to be asked under a lock, for this may be the last to let go of it.
    let isNeeded: @Sendable () -> Bool
    private let lock = FluxLock((subscriber: (any FluxCancellable)?.none, isCut: false))

    init(while isNeeded: @escaping @Sendable () -> Bool) {
        self.isNeeded = isNeeded
    }

    func hold(_ subscriber: any FluxCancellable) {
        let isCut = lock.withLock { leash in
            leash.subscriber = subscriber
            return leash.isCut
        }
        if isCut { subscriber.cancel() }
    }

    func cut() {
        let subscriber = lock.withLock { leash in
            leash.isCut = true
            return leash.subscriber
        }
        subscriber?.cancel()
    }
}

/// The subscriptions of a source that belong to objects: a source that never changes would keep the handlers of those
/// that are gone.
nonisolated struct FluxLeashes {
    private var all: ContiguousArray<FluxLeash> = []
    /// How many there are when it is time to look again.
    private var limit = 16

    /// Adds one; returns those to look at outside the lock, each of them once for every one added.
    mutating func add(_ leash: FluxLeash) -> ContiguousArray<FluxLeash> {
        all.append(leash)
        if all.count < limit { return [] }
        var suspects: ContiguousArray<FluxLeash> = []
        swap(&suspects, &all)
        return suspects
    }

    /// Takes those back whose objects live.
    mutating func putBack(_ needed: ContiguousArray<FluxLeash>) {
        all += needed
        limit = max(16, 2 * all.count)
    }
}

nonisolated extension FluxStoreExtras {
    /// Keeps the leash of an object, and ends the subscriptions of those that are gone; amortised in constant time.
    func keep(_ leash: FluxLeash) {
        let suspects = leashes.withLock { $0.add(leash) }
        if suspects.isEmpty { return }
        var needed: ContiguousArray<FluxLeash> = []
        for leash in suspects { if leash.isNeeded() { needed.append(leash) } else { leash.cut() } }
        leashes.withLock { $0.putBack(needed) }
    }
}
