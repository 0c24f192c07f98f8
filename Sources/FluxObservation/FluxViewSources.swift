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
    /// What it follows from, each once; views are not among them, but those of a group, which have no leaves.
    let leaves: [any FluxSource]
    let watch: @Sendable (_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription
    /// Whether the stores are always the same.
    let isFixed: Bool
    /// Whether a store may be read more than once in a cut.
    @usableFromInline let isShared: Bool
    /// Held while a cut is taken: of two that read the stores at the same time, neither would be the later one in all of them.
    private let cuts: FluxLock<Cuts>

    private struct Cuts {
        var number: UInt64 = 0
        /// Where the stores were in the last cut, where they are always the same: seldom does one move.
        var places: FluxPlaces?
        /// Used again and again, as long as it keeps nothing.
        let unshared = FluxCut(isShared: false)
    }

    @usableFromInline
    init(_ sources: [any FluxSource], stamp: (@Sendable () -> UInt64)? = nil) {
        cuts = FluxLock(Cuts())
        let tappable = sources.map { $0 as? any FluxTappable }
        let views = tappable.compactMap { $0?.sources }
        isFixed = tappable.allSatisfy { $0 != nil && $0?.sources?.isFixed != false }
        let all = zip(sources, tappable).flatMap { source, tappable in
            if let leaves = tappable?.sources?.leaves, !leaves.isEmpty { leaves } else { [source] }
        }
        // One of a type of the user's may be a value, which is not the same as any other.
        var seen: Set<ObjectIdentifier> = []
        let leaves = all.filter {
            !($0 is any FluxTappable) || seen.insert(ObjectIdentifier($0 as AnyObject)).inserted
        }
        self.leaves = leaves
        isShared = !isFixed || leaves.count < all.count || views.contains { $0.isShared }
        let fixed = isFixed ? leaves.flatMap { $0.stores } : nil
        stores = { fixed ?? leaves.flatMap { $0.stores } }
        let sum: @Sendable () -> UInt64 = { leaves.reduce(0) { $0 &+ $1.stamp } }
        // What was given was made where the types are known; but it would go every way to what is shared.
        self.stamp = isShared ? sum : stamp ?? sum
        watch = { changed in FluxSubscription(leaves.map { $0.watch(ended: {}, changed) }) }
    }

    /// Those of a group, which come and go.
    @usableFromInline
    init<Group, Key, Member, Source>(_ members: FluxMembers<Group, Key, Member, Source>) {
        (isFixed, isShared, leaves) = (false, true, [])
        cuts = FluxLock(Cuts())
        stamp = { members.stamp }
        stores = { members.stores }
        watch = { members.watch($0) }
    }

    /// Takes a cut, and what is made of it once no dispatcher is stopped.
    @inlinable
    func take<States, Value>(_ read: (FluxCut) -> States, _ compute: (States) -> Value) -> (
        number: UInt64, value: Value
    ) {
        while true {
            var states: States?
            if let number = cut({ states = read($0) }), let states { return (number, compute(states)) }
        }
    }

    /// Takes a cut, at a moment between two actions; nil: it has to be taken again, for a store has moved or come.
    ///
    /// It reads once at most: what was read before would go with the dispatchers stopped.
    @usableFromInline
    func cut(_ read: (FluxCut) -> Void) -> UInt64? {
        if let quick = cutWhereKnown(read) {
            if FluxPlaces.hold(quick.loose) { return quick.number }
            remember(nil)
            return nil
        }
        let stores = stores()
        let places = FluxPlaces(of: stores)
        let cut = FluxCut(isShared: isShared)
        let number = cuts.withLock { cuts in
            cuts.number += 1
            FluxDispatcher.paused(places.dispatchers) { read(cut) }
            return cuts.number
        }
        // Only now: who attaches a store holds what guards its place while it waits for the dispatcher.
        let now = isFixed ? stores : self.stores() + cut.found.stores
        let isSame = places.hold(now)
        if isFixed { remember(isSame ? places : nil) }
        if isSame { return number }
        return !isFixed && places.include(now, before: stores) ? number : nil
    }

    /// Takes a cut where the stores were in the last one, if none of them has left its dispatcher since.
    private func cutWhereKnown(_ read: (FluxCut) -> Void) -> (number: UInt64, loose: [FluxPlaces.Loose])? {
        cuts.withLock { cuts in
            guard let places = cuts.places else { return nil }
            let cut = isShared ? FluxCut() : cuts.unshared
            var isTaken = false
            FluxDispatcher.paused(places.dispatchers) {
                isTaken = places.isUntouched
                if isTaken { read(cut) }
            }
            if !isTaken { return nil }
            cuts.number += 1
            return (cuts.number, places.loose)
        }
    }

    private func remember(_ places: FluxPlaces?) {
        // What was known is let go of outside the lock.
        var places = places
        cuts.withLock { swap(&$0.places, &places) }
    }
}

/// Where stores were attached, and so whom to stop so that none of them takes an action.
///
/// By the numbers of their attachments, for one that has moved away and come back was not stopped meanwhile.
nonisolated private struct FluxPlaces {
    struct Place: Equatable {
        let dispatcher: ObjectIdentifier?
        let number: UInt64

        init(_ store: FluxStoreInfo) { self.init(store.attachment) }

        init(_ attachment: (dispatcher: FluxDispatcher?, number: UInt64)) {
            (dispatcher, number) = (attachment.dispatcher.map(ObjectIdentifier.init), attachment.number)
        }
    }

    typealias Loose = (store: FluxStoreInfo, place: Place)

    /// Neighbours of one dispatcher have it once.
    private(set) var dispatchers: [FluxDispatcher] = []
    /// How many stores had left each of them, while those that are asked about were there.
    private var departures: [(all: FluxDepartures, count: UInt64)] = []
    /// Of each store.
    private var places: [Place] = []
    /// The stores of no dispatcher.
    private(set) var loose: [Loose] = []

    init(of stores: [FluxStoreInfo]) {
        for store in stores {
            let attachment = store.attachment
            places.append(Place(attachment))
            guard let dispatcher = attachment.dispatcher else {
                loose.append((store, Place(attachment)))
                continue
            }
            if dispatchers.last === dispatcher { continue }
            dispatchers.append(dispatcher)
            let all = FluxDepartures.of(dispatcher)
            departures.append((all, all.count))
        }
    }

    /// Whether no store has left one of the dispatchers, which are stopped, so that those that were attached still are.
    var isUntouched: Bool { departures.allSatisfy { $0.all.count == $0.count } }

    /// Whether stores of no dispatcher have been that ever since.
    static func hold(_ loose: [Loose]) -> Bool { loose.allSatisfy { Place($0.store) == $0.place } }

    /// Whether stores are those that were asked about, and each has been where it was ever since.
    func hold(_ stores: [FluxStoreInfo]) -> Bool {
        stores.count == places.count && stores.indices.allSatisfy { Place(stores[$0]) == places[$0] }
    }

    /// Whether the dispatchers of stores were stopped, and none of those that were asked about has moved.
    ///
    /// Of another one that has left its dispatcher nobody knows which one that was.
    func include(_ stores: [FluxStoreInfo], before: [FluxStoreInfo]) -> Bool {
        let known = Dictionary(zip(before, places)) { $1 }
        let stopped = Set(dispatchers.map(ObjectIdentifier.init))
        return stores.allSatisfy { store in
            let place = Place(store)
            if let before = known[store] {
                if before != place { return false }
            } else if place.dispatcher == nil && place.number != 0 {
                return false
            }
            return place.dispatcher.map(stopped.contains) ?? true
        }
    }
}

/// Counts the stores that leave a dispatcher: while it is the same, all that were there still are.
nonisolated private final class FluxDepartures: FluxDispatcherObserver {
    private let counted = Synchronization.Atomic<UInt64>(0)
    private let isLooking = FluxLock(false)

    /// That of a dispatcher, which has one from when it is first asked for.
    static func of(_ dispatcher: FluxDispatcher) -> FluxDepartures {
        let departures = dispatcher.feature(FluxDepartures.self) { FluxDepartures() }
        departures.isLooking.withLock { isLooking in
            if !isLooking { dispatcher.observe(departures) }
            isLooking = true
        }
        return departures
    }

    // Relaxed: counted with the dispatcher stopped, and compared so.
    var count: UInt64 { counted.load(ordering: .relaxed) }

    func attached<State>(_ handle: FluxStoreHandle<State>) {}

    func detached<State>(_ handle: FluxStoreHandle<State>) { counted.add(1, ordering: .relaxed) }
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
