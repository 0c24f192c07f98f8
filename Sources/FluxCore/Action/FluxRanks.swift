/// A list in the order of priority, the highest first, and among equals in the order of registration: a pure state machine.
nonisolated struct FluxRanks<Element> {
    private struct Entry {
        let id: UInt64
        let priority: Int
        let element: Element
    }

    private var entries: ContiguousArray<Entry> = []
    private var lastID: UInt64 = 0

    var isEmpty: Bool { entries.isEmpty }
    var elements: ContiguousArray<Element> { ContiguousArray(entries.lazy.map(\.element)) }

    /// Adds an element behind those of its priority; returns the id to remove it by.
    mutating func add(_ element: Element, priority: Int) -> UInt64 {
        lastID += 1
        let place = entries.firstIndex { $0.priority < priority } ?? entries.count
        entries.insert(Entry(id: lastID, priority: priority, element: element), at: place)
        return lastID
    }

    /// Removes the element of an id; nil where there is none any more.
    mutating func remove(_ id: UInt64) -> Element? {
        entries.firstIndex { $0.id == id }.map { entries.remove(at: $0).element }
    }

    /// Removes the elements that are unwanted, and returns them in order.
    mutating func removeAll(where isUnwanted: (Element) -> Bool) -> ContiguousArray<Element> {
        let removed = entries.filter { isUnwanted($0.element) }
        entries.removeAll { isUnwanted($0.element) }
        return ContiguousArray(removed.map(\.element))
    }
}
