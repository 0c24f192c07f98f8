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

    /// Beside the sum of those of the members the number of changes of the group, spread over all bits: what one takes away with
    /// it another does not make up for.
    @inlinable var stamp: UInt64 {
        for _ in 0..<8 {
            let changes = group.stamp
            let sum = group.state.values.reduce(changes &* 0x9E37_79B9_7F4A_7C15) { $0 &+ source($1).stamp }
            // Of the same members that were counted.
            if group.stamp == changes { return sum }
        }
        // The group changes in something else all the time: a number that nothing else has, so that a cut is taken, which has them all.
        return .random(in: 0...(.max))
    }

    @usableFromInline var stores: [FluxStoreInfo] { group.stores + group.state.values.flatMap { source($0).stores } }

    /// Takes the states of those who are members at the moment of the cut.
    @inlinable
    func capture(in cut: FluxCut) -> @Sendable () -> [Key: Source.State] {
        let read = group.capture(in: cut)
        let (members, sources) = FluxPureCode.run("what leads to the members of a FluxView") {
            let members = read()
            return (members, members.mapValues(source))
        }
        // Before they are read. Kept until the dispatchers go on: letting go of a member may be letting go of what is the user's.
        let found = sources.values.flatMap { $0.knownStores }.map { FluxPlace($0) }
        cut.found.add(found, keeping: members)
        let captures = sources.mapValues { $0.capture(in: cut) }
        return { captures.mapValues { $0() } }
    }

    /// Watches the group and those who are in it, and keeps none of them.
    ///
    /// One that comes or goes is told of once it is watched, or is no longer.
    @usableFromInline
    func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
        let watch = FluxMemberWatch(self, changed)
        // No global queue, unlike all others: to go through thousands of members would keep a thread from all tasks.
        let alarm = FluxViewAlarm(isDue: true, on: DispatchQueue(label: "FluxView")) {
            watch.follow()
            changed()?.settle()
        }
        // Due from the start: so nobody follows beside the first who does.
        let token = group.watch { alarm.ring() }
        watch.follow()
        alarm.settle()
        return FluxSubscription([token, FluxSubscription { watch.end() }])
    }
}

/// Watches those who are members, one token for each.
nonisolated private final class FluxMemberWatch<
    Group: FluxSource, Key: Hashable & Sendable, Member: Sendable, Source: FluxSource
>: Sendable where Group.State == [Key: Member] {
    private typealias Tokens = [Key: (stores: [FluxStoreInfo], token: FluxSubscription)]

    private let members: FluxMembers<Group, Key, Member, Source>
    private let changed: @Sendable () -> (any FluxSettling)?
    /// Nil once it has ended.
    private let tokens = FluxLock<Tokens?>([:])

    init(_ members: FluxMembers<Group, Key, Member, Source>, _ changed: @escaping @Sendable () -> (any FluxSettling)?) {
        (self.members, self.changed) = (members, changed)
    }

    /// Watches those who are members now, and nobody else; called by one thread at a time.
    func follow() {
        guard let known = tokens.withLock({ $0 }) else { return }
        var next: Tokens = [:]
        for (key, member) in members.group.state {
            let source = members.source(member)
            let stores = source.stores
            // Another one may have come under the same key; of sources that are not ours the stores do not tell.
            let isOurs = (source as? any FluxObservableSource).map { $0.sources?.isFixed != false } ?? false
            let token = known[key].flatMap { isOurs && $0.stores == stores ? $0.token : nil }
            next[key] = (stores, token ?? source.watch(changed))
        }
        replace { $0 == nil ? nil : next }
    }

    func end() { replace { _ in nil } }

    /// What is replaced goes outside the lock.
    private func replace(_ change: (Tokens?) -> Tokens?) {
        let gone = tokens.withLock { tokens in
            let old = tokens
            tokens = change(tokens)
            return old
        }
        FluxPureCode.after { withExtendedLifetime(gone) {} }
    }
}
