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
        init(id: UInt64, element: consuming Element) {
            self.id = id
            self.element = element
        }
    }

    @usableFromInline var firstElement: Element?
    /// The id of the first slot; 0 while there are no slots.
    @usableFromInline var firstID: UInt64 = 0
    @usableFromInline var rest: ContiguousArray<Slot> = []
    /// How many slots hold an element; of four bytes, so that a field behind it can share its word.
    @usableFromInline var count: UInt32 = 0

    @inlinable
    init() {}

    @inlinable var isEmpty: Bool { count == 0 }

    /// How many slots there are, the empty ones included: the positions 0 to this.
    @inlinable var positions: Int { firstID == 0 ? 0 : rest.count + 1 }

    /// Adds an element at the end; its id must be higher than all before, and than 0.
    @inlinable
    mutating func insert(_ element: consuming Element, id: UInt64) {
        count += 1
        if firstID != 0 { return rest.append(Slot(id: id, element: element)) }
        firstElement = element
        firstID = id
    }

    /// Runs a closure on the element at a position, in place; nil if the slot is empty.
    @inlinable @inline(__always)
    mutating func update<Result>(_ position: Int, _ body: (inout Element) -> Result) -> Result? {
        if position == 0 { return firstElement == nil ? nil : body(&firstElement!) }
        return rest[position - 1].element == nil ? nil : body(&rest[position - 1].element!)
    }

    /// Runs a closure on each element, in place and in order.
    @inlinable @inline(__always)
    mutating func updateEach(_ body: (inout Element) -> Void) {
        for position in 0..<positions { _ = update(position, body) }
    }

    /// Empties the slot of an id and returns what was in it; nil where there is none.
    ///
    /// It compacts, unless it is told that somebody relies on the positions.
    @inlinable
    mutating func remove(id: UInt64, compacting: Bool = true) -> Element? {
        guard let position = position(of: id), let element = take(position) else { return nil }
        count -= 1
        if compacting { compact() }
        return element
    }

    /// Removes the elements that are unwanted, and returns them in order.
    @inlinable
    mutating func removeAll(where isUnwanted: (Element) -> Bool = { _ in true }) -> ContiguousArray<Element> {
        var removed: ContiguousArray<Element> = []
        for position in 0..<positions where update(position, { isUnwanted($0) }) == true {
            removed.append(take(position)!)
        }
        count -= UInt32(removed.count)
        compact()
        return removed
    }

    /// The newest element.
    @inlinable var last: Element? {
        for slot in rest.reversed() {
            if let element = slot.element { return element }
        }
        return firstElement
    }

    /// Drops the empty slots at the end, so that the last is found at once, and all once they are most.
    @inlinable
    mutating func compact() {
        while let slot = rest.last, slot.element == nil { rest.removeLast() }
        guard positions > 2 * Int(count) else { return }
        if !rest.isEmpty { rest.removeAll { $0.element == nil } }
        if firstElement != nil { return }
        let next = rest.isEmpty ? nil : rest.removeFirst()
        firstID = next?.id ?? 0
        firstElement = next?.element
    }

    /// The position of an id, found by bisection.
    @inlinable
    func position(of id: UInt64) -> Int? {
        if firstID == id { return 0 }
        return fluxBisect(rest.count, for: id) { rest[$0].id }.map { $0 + 1 }
    }

    func contains(id: UInt64) -> Bool {
        position(of: id).map { $0 == 0 ? firstElement != nil : rest[$0 - 1].element != nil } ?? false
    }

    @inlinable
    mutating func take(_ position: Int) -> Element? {
        position == 0 ? fluxTake(&firstElement) : fluxTake(&rest[position - 1].element)
    }
}
