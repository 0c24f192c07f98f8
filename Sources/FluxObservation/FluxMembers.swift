import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// The members of a group, which come and go, as the sources of a view.
@usableFromInline
nonisolated struct FluxMembers<Group: FluxSource, Key: Hashable & Sendable, Member: Sendable, Source: FluxSource>:
    Sendable
where Group.State == [Key: Member] {
    @usableFromInline let group: Group
    @usableFromInline let source: @Sendable (Member) -> Source

    @inlinable
    init(_ group: Group, _ source: @escaping @Sendable (Member) -> Source) {
        (self.group, self.source) = (group, source)
    }

    /// The sum of the members' stamps, plus the group's stamp spread over all bits.
    ///
    /// Without the spread, another change could make up for the stamp that a removed member takes with it.
    @inlinable var stamp: UInt64 {
        for _ in 0..<8 {
            let (changes, members) = (group.stamp, members)
            let sum = members.values.reduce(changes &* 0x9E37_79B9_7F4A_7C15) { $0 &+ source($1).stamp }
            // The group did not change meanwhile, so these are the members that were counted.
            if group.stamp == changes { return sum }
        }
        // The group's stamp keeps changing. A random number equals no known stamp, so a cut is
        // taken, which has all changes.
        return .random(in: 0...(.max))
    }

    @usableFromInline var stores: [FluxStoreInfo] { group.stores + members.values.flatMap { source($0).stores } }

    /// The current members; one that goes meanwhile, an object of the user, is released once no lock is held.
    @inlinable var members: [Key: Member] {
        let members = group.state
        FluxPureCode.after { withExtendedLifetime(members) {} }
        return members
    }

    /// Captures the states of the members at the moment of the cut.
    @inlinable
    func capture(in cut: FluxCut) -> @Sendable () -> [Key: Source.State] {
        let read = group.capture(in: cut)
        let (members, sources) = FluxPureCode.run("what leads to the members of a FluxView") {
            let members = read()
            return (members, members.mapValues(source))
        }
        // Recorded before the stores are read. The members are kept until the dispatchers resume, because releasing a
        // member may release an object of the user.
        cut.found.add { withExtendedLifetime(members) { sources.values.flatMap { $0.knownStores } } }
        let captures = sources.mapValues { $0.capture(in: cut) }
        return { captures.mapValues { $0() } }
    }

    /// Watches the group and its current members, and keeps none of the members alive.
    ///
    /// A member that comes or goes is reported once watching it has begun or ended.
    @usableFromInline
    func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
        let watch = FluxMemberWatch(self, changed)
        // Unlike the library's other queues, it does not target a global one: going through thousands of members would
        // keep a thread of that pool from all tasks.
        let alarm = FluxViewAlarm(isDue: true, on: DispatchQueue(label: "FluxView")) {
            watch.follow()
            changed()?.settle()
        }
        // The alarm starts out pending, so no other thread calls `follow()` alongside the call below.
        let token = group.watch { alarm.ring() }
        watch.follow()
        alarm.settle()
        return FluxSubscription([token, FluxSubscription { watch.end() }])
    }
}

/// Watches the current members, with one token for each.
nonisolated private final class FluxMemberWatch<
    Group: FluxSource, Key: Hashable & Sendable, Member: Sendable, Source: FluxSource
>: Sendable where Group.State == [Key: Member] {
    private typealias Tokens = [Key: (stores: [FluxStoreInfo], token: FluxSubscription)]

    private let members: FluxMembers<Group, Key, Member, Source>
    private let changed: @Sendable () -> (any FluxSettling)?
    /// Nil once watching has ended.
    private let tokens = FluxLock<Tokens?>([:])

    init(_ members: FluxMembers<Group, Key, Member, Source>, _ changed: @escaping @Sendable () -> (any FluxSettling)?) {
        (self.members, self.changed) = (members, changed)
    }

    /// Watches exactly the current members; called by one thread at a time.
    func follow() {
        guard let known = tokens.withLock({ $0 }) else { return }
        var next: Tokens = [:]
        for (key, member) in members.group.state {
            let source = members.source(member)
            let stores = source.stores
            // Another member may have taken the same key. If the stores are equal, the known token still fits, but only
            // for a store or for a view whose stores never change.
            let isOurs = (source as? any FluxObservableSource).map { $0.sources?.isFixed != false } ?? false
            let token = known[key].flatMap { isOurs && $0.stores == stores ? $0.token : nil }
            next[key] = (stores, token ?? source.watch(changed))
        }
        replace(with: next)
    }

    func end() { replace(with: nil) }

    /// Replaces the tokens unless watching has ended; the old ones are released outside the lock.
    private func replace(with next: Tokens?) {
        let gone = tokens.withLock { $0 == nil ? nil : Swift.exchange(&$0, with: next) }
        FluxPureCode.after { withExtendedLifetime(gone) {} }
    }
}
