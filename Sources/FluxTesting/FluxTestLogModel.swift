#if canImport(FluxReplication)
    import FluxReplication
#endif

/// A shared log as it has to be, without faults: a pure model.
nonisolated struct FluxTestLogModel<Entry: Sendable> {
    /// How many keys are known.
    let window: Int
    private var kept: [FluxSharedEntry<Entry>] = []
    private var keys: [String: UInt64] = [:]
    /// The known keys, in the order in which they came.
    private var order: [String] = []
    private(set) var end: UInt64 = 0
    private(set) var trimmed: UInt64 = 0
    private(set) var snapshot: FluxSharedSnapshot<Entry>?

    init(window: Int) { self.window = window }

    /// Adds an entry, unless its key is known; an entry without a key is always added.
    mutating func append(_ entry: Entry, key: String?) -> UInt64 {
        if let key, let known = keys[key] { return known }
        // With gaps, as in a stream that many keys share.
        end += end.isMultiple(of: 7) ? 3 : 1
        kept.append(FluxSharedEntry(position: end, entry: entry))
        guard let key else { return end }
        keys[key] = end
        order.append(key)
        if order.count > window { keys[order.removeFirst()] = nil }
        return end
    }

    func entries(after position: UInt64) -> [FluxSharedEntry<Entry>] {
        // Searched from the end: the entries passed on the way are copied anyway.
        let known = kept.lastIndex { $0.position <= position } ?? -1
        return Array(kept[(known + 1)...])
    }

    mutating func save(_ new: FluxSharedSnapshot<Entry>) {
        if new.position > snapshot?.position ?? 0 { snapshot = new }
    }

    mutating func trim(through position: UInt64) {
        guard position > trimmed else { return }
        trimmed = Swift.min(position, end)
        kept.removeAll { $0.position <= position }
    }
}

/// Random numbers from a seed: SplitMix64.
nonisolated struct FluxTestRandom: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        return mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 up to, but not including, the limit.
    mutating func next(below limit: Int) -> Int { Int(next() % UInt64(limit)) }

    /// Returns whether something happens that does so a number of times in a hundred.
    mutating func happens(_ times: Int) -> Bool { times > 0 && next(below: 100) < times }
}
