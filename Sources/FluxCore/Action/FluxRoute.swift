/// The stores of one action type, in the order of priority and attachment.
///
/// The cores are retained by hand: a retain in the loop would be most of its cost.
nonisolated struct FluxRoute {
    struct Stop {
        let core: Unmanaged<AnyObject>
        let entrance: Unmanaged<FluxEntrance>
    }

    /// Those of another priority than 0, which few stores have.
    private struct Level {
        let priority: Int
        var stops = FluxSlots<Stop>()
    }

    private var stops = FluxSlots<Stop>()
    private var levels: ContiguousArray<Level> = []
    /// One per state type, each retained here for good.
    var entrances: ContiguousArray<FluxEntrance> = []

    var isEmpty: Bool { stops.isEmpty && levels.allSatisfy { $0.stops.isEmpty } }

    func contains(id: UInt64) -> Bool {
        stops.contains(id: id) || levels.contains { $0.stops.contains(id: id) }
    }

    mutating func insert(_ stop: Stop, id: UInt64, priority: Int) {
        if priority == 0 { return stops.insert(stop, id: id) }
        let place = levels.firstIndex { $0.priority <= priority } ?? levels.count
        if place == levels.count || levels[place].priority != priority {
            levels.insert(Level(priority: priority), at: place)
        }
        levels[place].stops.insert(stop, id: id)
    }

    mutating func remove(id: UInt64) -> Stop? {
        if let stop = stops.remove(id: id) { return stop }
        for index in levels.indices {
            guard let stop = levels[index].stops.remove(id: id) else { continue }
            if levels[index].stops.isEmpty { levels.remove(at: index) }
            return stop
        }
        return nil
    }

    @inline(__always)
    mutating func forEach(_ body: (Stop) -> Void) {
        if levels.isEmpty { return stops.updateEach { body($0) } }
        forEachSlot { _, _, stop in body(stop) }
    }

    func forEachSlot(_ body: (_ id: UInt64, _ priority: Int, Stop) -> Void) {
        for level in levels where level.priority > 0 { Self.forEach(level.stops) { body($0, level.priority, $1) } }
        Self.forEach(stops) { body($0, 0, $1) }
        for level in levels where level.priority < 0 { Self.forEach(level.stops) { body($0, level.priority, $1) } }
    }

    private static func forEach(_ slots: FluxSlots<Stop>, _ body: (UInt64, Stop) -> Void) {
        if let stop = slots.firstElement { body(slots.firstID, stop) }
        for slot in slots.rest {
            if let stop = slot.element { body(slot.id, stop) }
        }
    }
}
