/// An ordered list whose elements are removed by id: who is subscribed, which stores take an action, which events are in flight.
///
/// The order is that of the ids. A removed element leaves an empty slot; the slots are compacted once most of them are empty. The
/// first is kept in place: a list of one, the most frequent by far, allocates nothing.
///
/// ```swift
/// var tasks = FluxList<FluxTask>()
/// tasks.insert(task, id: task.id)
/// tasks.remove(id: task.id)
/// ```
///
/// Thread safety: a value.
@usableFromInline nonisolated struct FluxList<Element> {
    @usableFromInline typealias Slot = (id: UInt64, element: Element?)

    @usableFromInline var firstElement: Element?
    /// The id of the first slot; 0 while there are no slots.
    @usableFromInline var firstID: UInt64 = 0
    @usableFromInline var rest: ContiguousArray<Slot> = []
    /// How many slots hold an element; of four bytes, so that a field behind it can share its word.
    @usableFromInline var filled: UInt32 = 0

    /// Makes an empty list.
    @inlinable init() {}

    /// Whether it has no element.
    @inlinable var isEmpty: Bool { filled == 0 }

    /// The element of the highest id.
    var last: Element? { rest.last?.element ?? firstElement }

    /// How many slots there are, the empty ones included: the positions 0 to this.
    @inlinable var positions: Int { firstID == 0 ? 0 : rest.count + 1 }

    /// Adds an element in the place of its id.
    ///
    /// - Parameters:
    ///   - element: What to add.
    ///   - id: What to remove it by, other than 0 and those that are there; the lowest may come again.
    /// - Complexity: O(1), amortised, where the id is the highest so far; else O(*n*) for *n* elements.
    @inlinable mutating func insert(_ element: consuming Element, id: UInt64) {
        filled += 1
        if firstID == 0 || firstID == id {
            (firstElement, firstID) = (element, id)
        } else if id > rest.last?.id ?? firstID {
            rest.append((id, element))
        } else if id < firstID {
            rest.insert((firstID, Swift.exchange(&firstElement, with: nil)), at: 0)
            (firstElement, firstID) = (element, id)
        } else {
            // From the end: most that come late belong shortly before it.
            rest.insert((id, element), at: rest.lastIndex { $0.id < id }.map { $0 + 1 } ?? 0)
        }
    }

    /// Runs a closure on the element at a position, in place; nil if the slot is empty.
    @inlinable @inline(__always)
    mutating func update<Result>(_ position: Int, _ body: (inout Element) -> Result) -> Result? {
        if position == 0 { return firstElement == nil ? nil : body(&firstElement!) }
        return rest[position - 1].element == nil ? nil : body(&rest[position - 1].element!)
    }

    /// Runs a closure on the element of an id, in place; nil if there is none.
    @inlinable @inline(__always) @discardableResult
    mutating func update<Result>(id: UInt64, _ body: (inout Element) -> Result) -> Result? {
        position(of: id).flatMap { update($0, body) }
    }

    /// Runs a closure on each element, in place and in order.
    ///
    /// - Parameter body: Gets the element.
    /// - Complexity: O(*n*) for *n* elements.
    @inlinable @inline(__always) mutating func updateEach(_ body: (inout Element) -> Void) {
        for position in 0..<positions { _ = update(position, body) }
    }

    /// Removes an element.
    ///
    /// - Parameter id: What it was inserted with.
    /// - Returns: The element; nil where there is none of that id.
    /// - Complexity: O(log *n*) for *n* elements, amortised.
    @inlinable @discardableResult mutating func remove(id: UInt64) -> Element? {
        guard let position = position(of: id), let element = take(position) else { return nil }
        filled -= 1
        compact()
        return element
    }

    /// Removes the elements that are unwanted.
    ///
    /// - Parameter isUnwanted: Says so of each.
    /// - Returns: Those that were removed.
    /// - Complexity: O(*n*) for *n* elements.
    @inlinable mutating func removeAll(where isUnwanted: (Element) -> Bool) -> FluxList {
        var removed = FluxList()
        for position in 0..<positions where update(position, { isUnwanted($0) }) == true {
            removed.insert(take(position)!, id: position == 0 ? firstID : rest[position - 1].id)
        }
        filled -= removed.filled
        compact()
        return removed
    }

    /// The elements with their ids, in order: all, or those of lower ids than this.
    ///
    /// - Complexity: O(*n*) for *n* of these.
    @inlinable func pairs(before id: UInt64 = .max) -> [(id: UInt64, element: Element)] {
        (firstID < id ? firstElement.map { [(firstID, $0)] } ?? [] : [])
            + rest.prefix { $0.id < id }.compactMap { slot in slot.element.map { (slot.id, $0) } }
    }

    /// Drops the empty slots at the end, so that the last is found at once, and all once they are most; with nothing left, the room of
    /// a burst too.
    @inlinable mutating func compact() {
        while !rest.isEmpty && rest[rest.count - 1].element == nil { rest.removeLast() }
        if filled == 0 && rest.capacity > FluxLimits.keptCapacity(Slot.self) { rest = [] }
        guard positions > 2 * Int(filled) else { return }
        // Most go in the order in which they came: then the others move up, and none of them is retained.
        rest.removeFirst(rest.firstIndex { $0.element != nil } ?? rest.count)
        if 2 * rest.count > 3 * Int(filled) { rest.removeAll { $0.element == nil } }
        if firstElement != nil { return }
        (firstID, firstElement) = rest.isEmpty ? (0, nil) : rest.removeFirst()
    }

    /// The position of an id, found by bisection.
    @inlinable func position(of id: UInt64) -> Int? {
        if firstID == id { return 0 }
        // Most ids rise by one: then an element stands where its id says, and nobody has to look for it.
        let guess = id &- firstID &- 1
        if guess < rest.count && rest[Int(guess)].id == id { return Int(guess) + 1 }
        return fluxBisect(rest.count, for: id) { rest[$0].id }.map { $0 + 1 }
    }

    @inlinable mutating func take(_ position: Int) -> Element? {
        if position == 0 { return Swift.exchange(&firstElement, with: nil) }
        return Swift.exchange(&rest[position - 1].element, with: nil)
    }
}

/// The position of an id among ids in rising order, found by bisection; nil where there is none.
///
/// It is given positions rather than elements, so that no element is copied for a look at its id.
@inlinable @inline(__always)
nonisolated func fluxBisect(_ count: Int, for id: UInt64, _ idAt: (Int) -> UInt64) -> Int? {
    var low = 0
    var high = count
    while low < high {
        let middle = (low + high) / 2
        if idAt(middle) < id { low = middle + 1 } else { high = middle }
    }
    return low < count && idAt(low) == id ? low : nil
}
