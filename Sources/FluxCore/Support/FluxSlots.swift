/// An ordered list whose elements are removed by id: insertion order stays, removal is amortised O(log n).
///
/// A removed element leaves an empty slot; the slots are compacted once most of them are empty. Ids only grow, so the
/// slots are sorted by them.
@usableFromInline
struct FluxSlots<Element> {
    @usableFromInline
    struct Slot {
        @usableFromInline let id: UInt64
        @usableFromInline var element: Element?

        @inlinable
        init(id: UInt64, element: Element) {
            self.id = id
            self.element = element
        }
    }

    @usableFromInline var slots: ContiguousArray<Slot> = []
    /// How many slots hold an element.
    @usableFromInline var count = 0

    @inlinable
    init() {}

    @inlinable var isEmpty: Bool { count == 0 }

    /// Adds an element at the end; its id must be higher than all before.
    @inlinable
    mutating func insert(_ element: Element, id: UInt64) {
        slots.append(Slot(id: id, element: element))
        count += 1
    }

    /// Empties the slot of an id and returns what was in it; nil where there is none.
    ///
    /// - Parameter compacting: false while somebody relies on the positions of the slots.
    @inlinable
    mutating func remove(id: UInt64, compacting: Bool = true) -> Element? {
        guard let index = index(of: id), let element = slots[index].element else { return nil }
        slots[index].element = nil
        count -= 1
        if compacting { compact() }
        return element
    }

    /// Drops the empty slots once they are most of all.
    @inlinable
    mutating func compact() {
        guard slots.count > 2 * count else { return }
        slots.removeAll { $0.element == nil }
    }

    /// Empties the list and returns what was in it, in order.
    @inlinable
    mutating func removeAll() -> ContiguousArray<Element> {
        let elements = ContiguousArray(slots.lazy.compactMap(\.element))
        slots = []
        count = 0
        return elements
    }

    /// The position of an id, found by bisection.
    @inlinable
    func index(of id: UInt64) -> Int? {
        var low = 0
        var high = slots.count
        while low < high {
            let middle = (low + high) / 2
            if slots[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low < slots.count && slots[low].id == id ? low : nil
    }
}
