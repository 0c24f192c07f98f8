import Dispatch
import Synchronization

#if canImport(FluxCore)
    import FluxCore
#endif

/// What a view reads and watches, without the type of anything: so it is compiled once, and not for each view.
@usableFromInline
nonisolated final class FluxViewSources: Sendable {
    /// Grows with each change of a source.
    @usableFromInline let stamp: @Sendable () -> UInt64
    /// The stores as they are now; one may be among them more than once.
    @usableFromInline let stores: @Sendable () -> [FluxStoreInfo]
    let watch: @Sendable (_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription
    /// Whether the stores are always the same.
    let isFixed: Bool
    /// Whether a store may be read more than once in a cut.
    private let isShared: Bool
    /// The number of the last cut, held while a cut is taken: of two that read the stores at the same time, neither would
    /// be the later one in all of them.
    private let cuts = FluxLock<UInt64>(0)

    @usableFromInline
    init(_ sources: [any FluxSource]) {
        isFixed = sources.allSatisfy { ($0 as? any FluxTappable)?.hasFixedStores == true }
        let fixed = isFixed ? sources.flatMap { $0.stores } : nil
        isShared = fixed.map { Set($0).count < $0.count } ?? true
        stores = { fixed ?? sources.flatMap { $0.stores } }
        stamp = { sources.reduce(0) { $0 &+ $1.stamp } }
        watch = { changed in FluxSubscription(sources.map { $0.watch(ended: {}, changed) }) }
    }

    /// Those of a group, which come and go.
    @usableFromInline
    init<Group, Key, Member, Source>(_ members: FluxMembers<Group, Key, Member, Source>) {
        (isFixed, isShared) = (false, true)
        stamp = { members.stamp }
        stores = { members.stores }
        watch = { members.watch($0) }
    }

    /// Takes a cut, at a moment between two actions; nil: it has to be taken again, for a store has moved or come.
    @usableFromInline
    func cut(_ capture: (FluxCut) -> Void) -> UInt64? {
        let (stores, cut) = (stores(), FluxCut(isShared: isShared))
        let paused = dispatchers(of: stores)
        let number = cuts.withLock { number in
            number += 1
            FluxDispatcher.paused(paused) { capture(cut) }
            return number
        }
        // Only now: who attaches a store holds what guards its place while it waits for the dispatcher.
        let now = dispatchers(of: isFixed ? stores : self.stores() + cut.found.stores)
        if now.elementsEqual(paused, by: ===) { return number }
        return Set(paused.map(ObjectIdentifier.init)).isSuperset(of: now.map(ObjectIdentifier.init)) ? number : nil
    }

    /// The dispatchers of stores at this moment; neighbours of one dispatcher count once.
    private func dispatchers(of stores: [FluxStoreInfo]) -> [FluxDispatcher] {
        var found: [FluxDispatcher] = []
        for store in stores {
            if let dispatcher = store.dispatcher, found.last !== dispatcher { found.append(dispatcher) }
        }
        return found
    }
}

/// Has something done on a queue, once for all the changes that come before it is.
///
/// A change that comes while it is due costs one load. It is due no longer when it begins: what it reads from there on has
/// all changes that found it due.
nonisolated final class FluxViewAlarm: FluxSettling {
    private let isDue: Synchronization.Atomic<Bool>
    private let queue: DispatchQueue
    private let work: @Sendable () -> Void

    init(isDue: Bool = false, on queue: DispatchQueue, _ work: @escaping @Sendable () -> Void) {
        self.isDue = Synchronization.Atomic(isDue)
        (self.queue, self.work) = (queue, work)
    }

    /// Whom to settle for it; nil: it is due already.
    func ring() -> (any FluxSettling)? {
        isDue.load(ordering: .relaxed) || isDue.exchange(true, ordering: .acquiringAndReleasing) ? nil : self
    }

    func settle() {
        queue.async {
            self.isDue.store(false, ordering: .sequentiallyConsistent)
            self.work()
        }
    }
}

/// The stores that were found while a cut was taken, where they come and go.
@usableFromInline
nonisolated final class FluxFoundStores: Sendable {
    fileprivate static let key = FluxFoundStores()
    private let all = FluxLock<[Found]>([])

    /// In a struct of its own for the lock.
    private struct Found { let stores: @Sendable () -> [FluxStoreInfo] }

    @usableFromInline func add(_ stores: @escaping @Sendable () -> [FluxStoreInfo]) {
        all.withLock { $0.append(Found(stores: stores)) }
    }

    var stores: [FluxStoreInfo] { all.withLock { $0 }.flatMap { $0.stores() } }
}

nonisolated extension FluxCut {
    @usableFromInline var found: FluxFoundStores { reading(of: FluxFoundStores.key) { FluxFoundStores() } }
}
