import Synchronization

/// How many elements a subscription was not handed; its token keeps it, so that it tells after the end too.
@usableFromInline
nonisolated final class FluxDrops: Sendable {
    @usableFromInline let count = Synchronization.Atomic<Int>(0)

    @usableFromInline
    init() {}
}

/// How many elements may wait in a mailbox of one member, and what happens to one more.
///
/// What changes is the mailbox's, under the lock of its store.
@usableFromInline
nonisolated final class FluxBound: Sendable {
    @usableFromInline
    enum Rule: Sendable {
        /// The oldest goes.
        case newest
        /// The new one is left out.
        case oldest
        /// The new one is left out, and all after it: the subscription ends once it got what waits.
        case failing(@Sendable (FluxOverflow) -> Void)
    }

    @usableFromInline let limit: Int
    @usableFromInline let rule: Rule
    /// The position of the first of the elements that wait; before it are empty places.
    @usableFromInline nonisolated(unsafe) var head = 0
    /// How many elements wait no longer.
    @usableFromInline nonisolated(unsafe) var passed = 0
    @usableFromInline let drops = FluxDrops()
    /// How many of the drops those who look on have been told of.
    @usableFromInline nonisolated(unsafe) var told = 0

    @usableFromInline
    init(_ rule: Rule, limit: Int) {
        Self.check(limit)
        self.limit = limit
        self.rule = rule
    }

    /// Stops the program where there is room for nothing.
    static func check(_ limit: Int) {
        fluxRequire(limit > 0, "a delivery with room for \(limit) changes delivers none. Give it room for 1 at least.")
    }

    /// The bound of a delivery; nil if it has none.
    @usableFromInline
    convenience init?(_ delivery: FluxDelivery) {
        switch delivery.kind {
        case .every, .latest: return nil
        case .newest(let limit): self.init(.newest, limit: limit)
        case .oldest(let limit): self.init(.oldest, limit: limit)
        }
    }

    /// How many were dropped since this was asked last.
    @usableFromInline
    func newDrops() -> Int {
        let all = drops.count.load(ordering: .relaxed)
        defer { told = all }
        return all - told
    }

    /// Counts what waits no longer because nobody is left to get it: those who wait for it would wait for good.
    @usableFromInline
    func passAll(_ positions: Int) {
        passed += positions - head
        head = 0
    }

    @usableFromInline
    func drop() {
        drops.count.add(1, ordering: .relaxed)
    }
}
