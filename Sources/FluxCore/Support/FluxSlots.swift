/// An ordered list whose elements are removed by id: the order stays, removal is amortised O(log n).
///
/// A removed element leaves an empty slot; the slots are compacted once most of them are empty. Ids only grow, so the
/// slots are sorted by them. The first slot is kept in place: a list of one, the most frequent by far, allocates nothing.
@usableFromInline
nonisolated struct FluxSlots<Element> {
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

    @usableFromInline var first: Slot?
    @usableFromInline var rest: ContiguousArray<Slot> = []
    /// How many slots hold an element; of four bytes, so that a field behind it can share its word.
    @usableFromInline var count: UInt32 = 0

    @inlinable
    init() {}

    @inlinable var isEmpty: Bool { count == 0 }

    /// How many slots there are, the empty ones included: the positions 0 to this.
    @inlinable var positions: Int { first == nil ? 0 : rest.count + 1 }

    @inlinable
    subscript(position: Int) -> Element? {
        get { position == 0 ? first?.element : rest[position - 1].element }
        _modify {
            if position == 0 { yield &first!.element } else { yield &rest[position - 1].element }
        }
    }

    /// Adds an element at the end; its id must be higher than all before.
    @inlinable
    mutating func insert(_ element: Element, id: UInt64) {
        count += 1
        if first == nil { first = Slot(id: id, element: element) } else { rest.append(Slot(id: id, element: element)) }
    }

    /// Empties the slot of an id and returns what was in it; nil where there is none.
    ///
    /// It compacts, unless it is told that somebody relies on the positions.
    @inlinable
    mutating func remove(id: UInt64, compacting: Bool = true) -> Element? {
        guard let position = position(of: id), let element = fluxTake(&self[position]) else { return nil }
        count -= 1
        if compacting { compact() }
        return element
    }

    /// Drops the empty slots once they are most of all.
    @inlinable
    mutating func compact() {
        guard positions > 2 * Int(count) else { return }
        rest.removeAll { $0.element == nil }
        if first?.element == nil { first = rest.isEmpty ? nil : rest.removeFirst() }
    }

    /// Removes the elements that are unwanted, and returns them in order.
    @inlinable
    mutating func removeAll(where isUnwanted: (Element) -> Bool = { _ in true }) -> ContiguousArray<Element> {
        var removed: ContiguousArray<Element> = []
        for position in 0..<positions {
            guard let element = self[position], isUnwanted(element) else { continue }
            removed.append(element)
            self[position] = nil
        }
        count -= UInt32(removed.count)
        compact()
        return removed
    }

    @inlinable @inline(__always)
    func forEach(_ body: (Element) -> Void) {
        if let element = first?.element { body(element) }
        for slot in rest {
            if let element = slot.element { body(element) }
        }
    }

    /// The position of an id, found by bisection.
    @inlinable
    func position(of id: UInt64) -> Int? {
        if first?.id == id { return 0 }
        var low = 0
        var high = rest.count
        while low < high {
            let middle = (low + high) / 2
            if rest[middle].id < id { low = middle + 1 } else { high = middle }
        }
        return low < rest.count && rest[low].id == id ? low + 1 : nil
    }
}
