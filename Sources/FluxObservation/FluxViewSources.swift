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
    /// Those of them that are known without reading a view: all but the members of groups, which each cut finds itself.
    let known: @Sendable () -> [FluxStoreInfo]
    /// What it follows from, each once; views are not among them, but those of a group, which have no leaves.
    let leaves: [any FluxSource]
    let watch: @Sendable (_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription
    /// Whether the stores are always the same.
    let isFixed: Bool
    /// Whether a store may be read more than once in a cut.
    let isShared: Bool
    /// Whether it follows from stores alone, from each of them once.
    @usableFromInline let isOfStores: Bool
    /// Held while a cut is taken: of two that read the stores at the same time, neither would be the later one in all of them.
    private let cuts: FluxLock<Cuts>

    private struct Cuts {
        var number: UInt64 = 0
        /// Where the stores were when they were last looked up, if they are always the same: seldom does one move.
        var places: FluxPlaces?
        /// Used again and again, as long as it keeps nothing.
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
        cuts = FluxLock(Cuts())
        let tappable = sources.map { $0 as? any FluxObservableSource }
        let views = tappable.compactMap { $0?.sources }
        isFixed = tappable.allSatisfy { $0 != nil && $0?.sources?.isFixed != false }
        let all = zip(sources, tappable).flatMap { source, tappable in
            if let leaves = tappable?.sources?.leaves, !leaves.isEmpty { leaves } else { [source] }
        }
        // One of a type of the user's may be a value, which is not the same as any other.
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
        // What was given was made where the types are known; but it would go down each row of views, every way to what is shared.
        self.stamp = isOfStores ? stamp ?? sum : sum
        watch = { changed in FluxSubscription(leaves.map { $0.watch(changed) }) }
    }

    /// Those of a group, which come and go.
    @usableFromInline
    init<Group, Key, Member, Source>(_ members: FluxMembers<Group, Key, Member, Source>) {
        (isFixed, isShared, isOfStores, leaves) = (false, true, false, [])
        cuts = FluxLock(Cuts())
        stamp = { members.stamp }
        stores = { members.stores }
        known = { members.group.knownStores }
        watch = { members.watch($0) }
    }

    /// Takes a cut, and what is made of it once no dispatcher is stopped; what was read for it and is of no use any more may be the
    /// last of it, and is shown to who has a lock.
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

    /// Takes a cut, at a moment between two actions; nil: it has to be taken again, for a store has moved or come.
    ///
    /// It reads once at most: what was read before would go with the dispatchers stopped.
    @usableFromInline
    func cut(_ read: (FluxCut) -> Void, _ spent: (Any) -> Void) -> UInt64? {
        if !isFixed {
            let (places, cut) = (FluxPlaces(of: stores()), FluxCut())
            spent((places, cut))
            let number = cuts.withLock { $0.take(cut, places, read) }
            return places.include(stores(), cut.found.places) ? number : nil
        }
        // Let go of outside the lock, with what was read.
        let shared = isShared ? FluxCut() : nil
        if let shared { spent(shared) }
        let known = cuts.withLock { cuts -> (number: UInt64, isSame: Bool)? in
            guard let places = cuts.places else { return nil }
            let number = cuts.take(shared ?? cuts.unshared, places, read)
            return (number, places.hold)
        }
        if let known, known.isSame { return known.number }
        // What was known is let go of outside the lock.
        let places = FluxPlaces(of: stores())
        if let gone = cuts.withLock({ Swift.exchange(&$0.places, with: places) }) { spent(gone) }
        return nil
    }
}

/// A store, and where it was: another number each time that it moves.
@usableFromInline
nonisolated struct FluxPlace: Sendable {
    let store: FluxStoreInfo
    let number: UInt64

    @usableFromInline
    init(_ store: FluxStoreInfo) { (self.store, number) = (store, store.place) }

    /// Whether the store has been there ever since.
    var isSame: Bool { store.place == number }
}

/// Where stores were attached, and so whom to stop so that none of them takes an action.
///
/// By the numbers of their places, for one that has moved away and come back was not stopped meanwhile.
nonisolated private struct FluxPlaces {
    /// Neighbours of one dispatcher have it once.
    private(set) var dispatchers: [FluxDispatcher] = []
    private var places: [FluxPlace] = []

    init(of stores: [FluxStoreInfo]) {
        for store in stores {
            // First: one that moves meanwhile is in another place by then.
            places.append(FluxPlace(store))
            guard let dispatcher = store.dispatcher, dispatchers.last !== dispatcher else { continue }
            dispatchers.append(dispatcher)
        }
    }

    /// Whether each store has been where it was ever since.
    var hold: Bool { places.allSatisfy(\.isSame) }

    /// Whether those stores that were asked about before the cut, or found in it, have not moved, and the dispatchers of all
    /// were stopped.
    ///
    /// Of any other one that has left its dispatcher nobody knows which one that was.
    func include(_ stores: [FluxStoreInfo], _ found: [FluxPlace]) -> Bool {
        let known = Dictionary((places + found).map { ($0.store, $0) }) { first, _ in first }
        let stopped = Swift.Set(dispatchers.map(ObjectIdentifier.init))
        return (stores + found.map(\.store)).allSatisfy { store in
            // Before the place: so it is that of this place, or of one before.
            let dispatcher = store.dispatcher
            if let place = known[store] {
                if !place.isSame { return false }
            } else if dispatcher == nil && store.place != 0 {
                return false
            }
            return dispatcher.map { stopped.contains(ObjectIdentifier($0)) } ?? true
        }
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
        // Relaxed: this is called under the lock of what has changed, and the work takes that lock after it has cleared the mark. So
        // who finds it set comes before the work, which will see the change. The exchange only picks one of several.
        isDue.load(ordering: .relaxed) || isDue.exchange(true, ordering: .acquiringAndReleasing) ? nil : self
    }

    func settle() {
        queue.async {
            self.isDue.store(false, ordering: .sequentiallyConsistent)
            self.work()
        }
    }
}

/// What a view computes for a cut, once for all the ways on which others came to it.
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

/// The stores that were found while a cut was taken, where they come and go.
@usableFromInline
nonisolated final class FluxFoundStores: Sendable {
    fileprivate static let key = FluxFoundStores()
    private let all = FluxLock<[(places: [FluxPlace], kept: any Sendable)]>([])

    @usableFromInline func add(_ places: [FluxPlace], keeping kept: any Sendable) {
        all.withLock { $0.append((places, kept)) }
    }

    /// Where they were before they were read.
    var places: [FluxPlace] { all.withLock { $0 }.flatMap(\.places) }
}

nonisolated extension FluxSource {
    @usableFromInline var knownStores: [FluxStoreInfo] {
        (self as? any FluxObservableSource)?.sources?.known() ?? stores
    }
}

nonisolated extension FluxCut {
    @usableFromInline var found: FluxFoundStores { reading(of: FluxFoundStores.key) { FluxFoundStores() } }
}
