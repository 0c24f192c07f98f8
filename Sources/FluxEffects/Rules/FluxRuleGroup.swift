/// What a rule knows of the events of one key.
nonisolated struct FluxRuleGroup {
    typealias ID = UInt64

    /// Those that have passed the rule, by their places in that order.
    private(set) var members: [UInt64: ID] = [:]
    /// Those that the rule holds, by the order in which they came.
    private(set) var held: [UInt64: ID] = [:]
    /// No place before this one is taken by any that is held.
    private var firstHeld: UInt64 = 0
    private var lastPlace: UInt64 = 0
    var isTiming = false

    var isHolding: Bool { !held.isEmpty }
    var isIdle: Bool { members.isEmpty && !isHolding && !isTiming }

    var ids: [ID] { members.sorted { $0.key < $1.key }.map(\.value) }

    /// The last that has passed the rule before a place, of those that are wanted.
    func last(before place: UInt64, where isWanted: (ID) -> Bool) -> (key: UInt64, value: ID)? {
        members.filter { $0.key < place }.sorted { $0.key < $1.key }.last { isWanted($0.value) }
    }

    mutating func add(_ id: ID) -> UInt64 {
        lastPlace += 1
        members[lastPlace] = id
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
        if held.removeValue(forKey: place) == nil { members[place] = nil }
    }
}
