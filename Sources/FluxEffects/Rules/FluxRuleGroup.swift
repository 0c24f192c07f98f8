/// What a rule knows of the events of one key.
nonisolated struct FluxRuleGroup {
    typealias ID = UInt64

    /// A place, of one that has passed the rule or of one that has left since.
    ///
    /// Of a row of such that have left the last knows how many they are, and so does the first: the row is passed in one step. One
    /// that has not left knows of none.
    private struct Slot {
        let place: UInt64
        var before = 0
        var behind = 0
    }

    /// Those that have passed the rule, by their places in that order.
    private(set) var members: [UInt64: ID] = [:]
    /// Their places in order, and for a while those of some that have left.
    private var order: ContiguousArray<Slot> = []
    /// Those that the rule holds, by the order in which they came.
    private(set) var held: [UInt64: ID] = [:]
    /// No place before this one is taken by any that is held.
    private var firstHeld: UInt64 = 0
    private var lastPlace: UInt64 = 0
    /// When its timer elapses; nil: it has none.
    var deadline: Swift.Duration?

    var isHolding: Bool { !held.isEmpty }
    var isIdle: Bool { members.isEmpty && !isHolding && deadline == nil }

    var ids: [ID] { order.compactMap { members[$0.place] } }

    /// The last that has passed the rule before a place, of those that are wanted.
    func last(before place: UInt64, where isWanted: (ID) -> Bool) -> (place: UInt64, id: ID)? {
        var index = position(of: place) - 1
        while index >= 0 {
            let slot = order[index]
            if let id = members[slot.place], isWanted(id) { return (slot.place, id) }
            index -= Swift.max(slot.before, 1)
        }
        return nil
    }

    /// Where a place stands, or else the first behind it.
    private func position(of place: UInt64) -> Int {
        var (low, high) = (0, order.count)
        while low < high {
            let middle = (low + high) / 2
            if order[middle].place < place { low = middle + 1 } else { high = middle }
        }
        return low
    }

    mutating func add(_ id: ID) -> UInt64 {
        lastPlace += 1
        members[lastPlace] = id
        order.append(Slot(place: lastPlace))
        return lastPlace
    }

    mutating func hold(_ id: ID) -> UInt64 {
        lastPlace += 1
        if !isHolding { firstHeld = lastPlace }
        held[lastPlace] = id
        return lastPlace
    }

    /// Takes the first out of those that are held.
    mutating func next() -> ID? {
        while isHolding {
            defer { firstHeld += 1 }
            if let id = held.removeValue(forKey: firstHeld) { return id }
        }
        return nil
    }

    /// One has ended that was in a place.
    mutating func leave(_ place: UInt64) {
        if held.removeValue(forKey: place) == nil, members.removeValue(forKey: place) != nil {
            let index = position(of: place)
            let before = index == 0 ? 0 : order[index - 1].before
            let behind = index == order.count - 1 ? 0 : order[index + 1].behind
            order[index + behind].before = before + 1 + behind
            order[index - before].behind = before + 1 + behind
        }
        // Taken out once they are half of all.
        if order.count > 2 * members.count {
            order.removeAll { members[$0.place] == nil }
        }
    }
}
