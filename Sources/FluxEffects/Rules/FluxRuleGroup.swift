/// What a rule knows about the events of one key.
nonisolated struct FluxRuleGroup {
    typealias ID = UInt64

    /// The place of an event that has passed the rule, and may have left since.
    ///
    /// In a run of slots whose events have left, the last slot has the length of the run as `before`, and the first
    /// slot has it as `behind`. So a search skips the run in one step. Both are 0 while the event has not left.
    private struct Slot {
        let place: UInt64
        var before = 0
        var behind = 0
    }

    /// The events that have passed the rule, by their places in the order in which they passed.
    private(set) var members: [UInt64: ID] = [:]
    /// The places of the members in order and, for a while, the places of some events that have left.
    private var order: ContiguousArray<Slot> = []
    /// The events that the rule holds, by their places in the order in which they arrived.
    private(set) var held: [UInt64: ID] = [:]
    /// No held event has a place before this one.
    private var firstHeld: UInt64 = 0
    private var lastPlace: UInt64 = 0
    /// When the timer of the group elapses; nil if it has none.
    var deadline: Swift.Duration?

    var isHolding: Bool { !held.isEmpty }
    var isIdle: Bool { members.isEmpty && !isHolding && deadline == nil }

    var ids: [ID] { order.compactMap { members[$0.place] } }

    /// Returns the last wanted event that has passed the rule before a place.
    func last(before place: UInt64, where isWanted: (ID) -> Bool) -> (place: UInt64, id: ID)? {
        var index = position(of: place) - 1
        while index >= 0 {
            let slot = order[index]
            if let id = members[slot.place], isWanted(id) { return (slot.place, id) }
            index -= Swift.max(slot.before, 1)
        }
        return nil
    }

    /// Returns the index of a place in `order` or, if it is not there, of the first place behind it.
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

    /// Removes the first held event and returns it.
    mutating func next() -> ID? {
        while isHolding {
            defer { firstHeld += 1 }
            if let id = held.removeValue(forKey: firstHeld) { return id }
        }
        return nil
    }

    /// Gives up the place of an event that has ended.
    mutating func leave(_ place: UInt64) {
        if held.removeValue(forKey: place) == nil, members.removeValue(forKey: place) != nil {
            let index = position(of: place)
            let before = index == 0 ? 0 : order[index - 1].before
            let behind = index == order.count - 1 ? 0 : order[index + 1].behind
            order[index + behind].before = before + 1 + behind
            order[index - before].behind = before + 1 + behind
        }
        // Slots of events that have left are removed once they are more than half of all.
        if order.count > 2 * members.count {
            order.removeAll { members[$0.place] == nil }
        }
    }
}
