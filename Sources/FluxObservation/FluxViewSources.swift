import Dispatch
import Synchronization

#if canImport(FluxCore)
    import FluxCore
#endif

/// The sources that a view reads and watches, with their types erased: compiled once, and not for each view.
@usableFromInline
nonisolated final class FluxViewSources: Sendable {
    /// A number that differs after each change of a source.
    @usableFromInline let stamp: @Sendable () -> UInt64
    /// The current stores; a store may be among them more than once.
    @usableFromInline let stores: @Sendable () -> [FluxStoreInfo]
    /// The stores that are known without reading a view: all except those of group members,
    /// which each cut finds itself.
    let known: @Sendable () -> [FluxStoreInfo]
    /// The sources at the bottom, each once.
    ///
    /// Views are replaced by their leaves, except views of groups, which have none.
    let leaves: [any FluxSource]
    let watch: @Sendable (_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription
    /// Whether the stores are always the same.
    let isFixed: Bool
    /// Whether a store may be read more than once in a cut.
    let isShared: Bool
    /// Whether all sources are stores, each of them once.
    @usableFromInline let isOfStores: Bool
    /// Held while a cut is taken: if two cuts read the stores at the same time, neither would be
    /// the later one in all stores.
    private let cuts = FluxLock(Cuts())

    private struct Cuts {
        var number: UInt64 = 0
        /// Where the stores were at the last lookup, if the stores are always the same; they rarely move.
        var places: FluxPlaces?
        /// Reused for every unshared cut, because it keeps no readings.
        let unshared = FluxCut(isShared: false)

        /// Reads while no action is under way at those places; returns the number of the cut.
        mutating func take(_ cut: FluxCut, _ places: FluxPlaces, _ read: (FluxCut) -> Void) -> UInt64 {
            number += 1
            FluxDispatcher.paused(places.dispatchers) { read(cut) }
            return number
        }
    }

    @usableFromInline
    init(_ sources: [any FluxSource], stamp: (@Sendable () -> UInt64)? = nil) {
        let tappable = sources.map { $0 as? any FluxObservableSource }
        let views = tappable.compactMap { $0?.sources }
        isFixed = tappable.allSatisfy { $0 != nil && $0?.sources?.isFixed != false }
        let all = zip(sources, tappable).flatMap { source, tappable in
            if let leaves = tappable?.sources?.leaves, !leaves.isEmpty { leaves } else { [source] }
        }
        // A source of a user's type may be a value, which is the same as no other.
        var seen: Swift.Set<ObjectIdentifier> = []
        let leaves = all.filter {
            !($0 is any FluxObservableSource) || seen.insert(ObjectIdentifier($0 as AnyObject)).inserted
        }
        self.leaves = leaves
        isShared = !isFixed || leaves.count < all.count || views.contains { $0.isShared }
        isOfStores = !isShared && views.isEmpty
        let fixed = isFixed ? leaves.flatMap { $0.stores } : nil
        stores = { fixed ?? leaves.flatMap { $0.stores } }
        known = { fixed ?? leaves.flatMap { $0.knownStores } }
        let sum: @Sendable () -> UInt64 = { leaves.reduce(0) { $0 &+ $1.stamp } }
        // The given closure was created where the types are known, but with views it would follow
        // every path to each shared source.
        self.stamp = isOfStores ? stamp ?? sum : sum
        watch = { changed in FluxSubscription(leaves.map { $0.watch(changed) }) }
    }

    /// Creates the sources of a view of a group, whose members come and go.
    @usableFromInline
    init<Group, Key, Member, Source>(_ members: FluxMembers<Group, Key, Member, Source>) {
        (isFixed, isShared, isOfStores, leaves) = (false, true, false, [])
        stamp = { members.stamp }
        stores = { members.stores }
        known = { members.group.knownStores }
        watch = { members.watch($0) }
    }

    /// Takes a cut, and computes the value from it once no dispatcher is paused.
    ///
    /// Readings that are no longer needed may be last references. They are passed to `spent`,
    /// for a caller that holds a lock.
    @inlinable
    func take<States, Value>(
        _ read: (FluxCut) -> States, _ compute: (States) -> Value, spent: (Any) -> Void = { _ in }
    ) -> (number: UInt64, value: Value) {
        while true {
            var states: States?
            let number = cut({ states = read($0) }, spent)
            guard let states = consume states else { continue }
            if let number { return (number, compute(states)) }
            spent(states)
        }
    }

    /// Takes a cut between two actions; returns nil if it must be taken again, because a store has moved or was added.
    ///
    /// It reads at most once: repeated here, it would release the earlier readings while the dispatchers are paused.
    @usableFromInline
    func cut(_ read: (FluxCut) -> Void, _ spent: (Any) -> Void) -> UInt64? {
        if !isFixed {
            let (places, cut) = (FluxPlaces(of: stores()), FluxCut())
            spent((places, cut))
            // Compared while the dispatchers are paused: a store that moves later was read where it had been.
            var haveStayed = true
            let number = cuts.withLock { cuts in
                cuts.take(cut, places) { cut in
                    read(cut)
                    haveStayed = cut.found.places.allSatisfy(\.isSame)
                }
            }
            // Asked again: a source of the user's own may have read other stores than it named before.
            let named = known() + cut.found.named
            return haveStayed && places.include(named, cut.found.places) ? number : nil
        }
        // Released outside the lock, together with the readings.
        let shared = isShared ? FluxCut() : nil
        if let shared { spent(shared) }
        let known = cuts.withLock { cuts -> (number: UInt64, isSame: Bool)? in
            guard let places = cuts.places else { return nil }
            let number = cuts.take(shared ?? cuts.unshared, places, read)
            return (number, places.hold)
        }
        if let known, known.isSame { return known.number }
        // The old places are released outside the lock.
        let places = FluxPlaces(of: stores())
        if let gone = cuts.withLock({ Swift.exchange(&$0.places, with: places) }) { spent(gone) }
        return nil
    }
}

/// A store and the number of its place, which is another one each time the store moves.
nonisolated struct FluxPlace: Sendable {
    let store: FluxStoreInfo
    let number: UInt64

    init(_ store: FluxStoreInfo) { (self.store, number) = (store, store.place) }

    /// Whether the store has not moved since.
    var isSame: Bool { store.place == number }
}

/// Where stores were attached, and therefore which dispatchers to pause to keep actions from these stores.
///
/// Places are compared by number: a store that has moved away and come back was not paused meanwhile.
nonisolated private struct FluxPlaces {
    /// Adjacent stores of one dispatcher add it once.
    private(set) var dispatchers: [FluxDispatcher] = []
    private var places: [FluxPlace] = []

    init(of stores: [FluxStoreInfo]) {
        for store in stores {
            // Read before the dispatcher: a store that moves in between no longer has this place.
            places.append(FluxPlace(store))
            guard let dispatcher = store.dispatcher, dispatchers.last !== dispatcher else { continue }
            dispatchers.append(dispatcher)
        }
    }

    /// Whether no store has moved since.
    var hold: Bool { places.allSatisfy(\.isSame) }

    /// Whether the dispatchers of all stores that a cut has read were paused, and no store has moved since the lookup.
    ///
    /// A store found in the cut where its dispatcher was looked up was on a paused dispatcher, and may have moved since.
    /// For any other store that has left its dispatcher, that dispatcher is unknown, and the result is false.
    func include(_ stores: [FluxStoreInfo], _ found: [FluxPlace]) -> Bool {
        let before = Dictionary(places.map { ($0.store, $0) }) { first, _ in first }
        let known = before.merging(found.map { ($0.store, $0) }) { first, _ in first }
        let sure = Swift.Set(found.filter { before[$0.store]?.number == $0.number }.map(\.store))
        let stopped = Swift.Set(dispatchers.map(ObjectIdentifier.init))
        return (stores + found.map(\.store)).allSatisfy { store in
            if sure.contains(store) { return true }
            // Read before the place is compared, so it belongs to this place or to an earlier one.
            let dispatcher = store.dispatcher
            if let place = known[store], !place.isSame { return false }
            if before[store] == nil && dispatcher == nil && store.place != 0 { return false }
            return dispatcher.map { stopped.contains(ObjectIdentifier($0)) } ?? true
        }
    }
}

/// Runs work on a queue, once for all the changes that come before the work begins.
///
/// A change that comes while the work is pending costs one load. The work is no longer pending once it begins:
/// everything it reads from then on has all changes that found it pending.
nonisolated final class FluxViewAlarm: FluxSettling {
    private let isDue: Synchronization.Atomic<Bool>
    private let queue: DispatchQueue
    private let work: @Sendable () -> Void

    init(isDue: Bool = false, on queue: DispatchQueue, _ work: @escaping @Sendable () -> Void) {
        self.isDue = Synchronization.Atomic(isDue)
        (self.queue, self.work) = (queue, work)
    }

    /// Marks the work as pending; returns the object to settle, or nil if the work was pending already.
    func ring() -> (any FluxSettling)? {
        // Relaxed: the caller holds, or has held since, the lock of the source that has changed, and the work takes
        // that lock after it has cleared the mark. A caller that finds the mark set therefore comes before the work,
        // which will see the change. The exchange only picks one of several callers.
        isDue.load(ordering: .relaxed) || isDue.exchange(true, ordering: .acquiringAndReleasing) ? nil : self
    }

    func settle() {
        queue.async {
            self.isDue.store(false, ordering: .sequentiallyConsistent)
            self.work()
        }
    }
}

/// The value that a view computes for a cut, once for all paths on which other views reach it.
@usableFromInline
nonisolated final class FluxOnce<Value: Sendable>: Sendable {
    private let compute: @Sendable () -> Value
    private let known = FluxLock<Value?>(nil)

    @usableFromInline init(_ compute: @escaping @Sendable () -> Value) { self.compute = compute }

    @usableFromInline var value: Value {
        if let known = known.withLock({ $0 }) { return known }
        let value = compute()
        known.withLock { $0 = value }
        return value
    }
}

/// The stores found while a cut was taken, where stores come and go.
@usableFromInline
nonisolated final class FluxFoundStores: Sendable {
    fileprivate static let key = FluxFoundStores()
    private struct Found {
        let places: [FluxPlace]
        let named: @Sendable () -> [FluxStoreInfo]
    }

    private let all = FluxLock<[Found]>([])

    /// Adds stores as a source names them; the closure is kept until the dispatchers resume.
    @usableFromInline func add(_ named: @escaping @Sendable () -> [FluxStoreInfo]) {
        let places = named().map { FluxPlace($0) }
        all.withLock { $0.append(Found(places: places, named: named)) }
    }

    /// The places of the stores before they were read.
    var places: [FluxPlace] { all.withLock { $0 }.flatMap(\.places) }
    /// The stores as their sources name them now.
    var named: [FluxStoreInfo] { all.withLock { $0 }.flatMap { $0.named() } }
}

nonisolated extension FluxSource {
    @usableFromInline var knownStores: [FluxStoreInfo] {
        (self as? any FluxObservableSource)?.sources?.known() ?? stores
    }
}

nonisolated extension FluxCut {
    @usableFromInline var found: FluxFoundStores { reading(of: FluxFoundStores.key) { FluxFoundStores() } }
}
