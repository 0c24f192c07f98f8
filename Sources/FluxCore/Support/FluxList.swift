/// An ordered list whose elements are removed by id: subscriptions, stores that take an action, events in flight.
///
/// The elements are in the order of their ids. A removed element leaves an empty slot; the slots are compacted once
/// most of them are empty. The first slot is stored in place: a list of one element, by far the most frequent,
/// allocates nothing.
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
    /// How many slots hold an element; four bytes, so that the field behind it can share its word.
    @usableFromInline var filled: UInt32 = 0

    /// Creates an empty list.
    @inlinable init() {}

    /// Whether the list has no element.
    @inlinable var isEmpty: Bool { filled == 0 }

    /// The element with the highest id.
    var last: Element? { rest.last?.element ?? firstElement }

    /// The number of slots, including the empty ones; positions are lower than this.
    @inlinable var positions: Int { firstID == 0 ? 0 : rest.count + 1 }

    /// Inserts an element at the place of its id.
    ///
    /// - Parameters:
    ///   - element: The element.
    ///   - id: The id to remove it by: not 0, and not the id of a slot. Only an empty first slot may get its id again.
    /// - Complexity: O(1), amortised, if the id is the highest so far; otherwise O(*n*) for *n* elements.
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
            // Searched from the end: most late ids belong shortly before it.
            rest.insert((id, element), at: rest.lastIndex { $0.id < id }.map { $0 + 1 } ?? 0)
        }
    }

    /// Runs a closure on the element at a position, in place; returns nil if the slot is empty.
    @inlinable @inline(__always)
    mutating func update<Result>(_ position: Int, _ body: (inout Element) -> Result) -> Result? {
        if position == 0 { return firstElement == nil ? nil : body(&firstElement!) }
        return rest[position - 1].element == nil ? nil : body(&rest[position - 1].element!)
    }

    /// Runs a closure on the element with an id, in place; returns nil if there is none.
    @inlinable @inline(__always) @discardableResult
    mutating func update<Result>(id: UInt64, _ body: (inout Element) -> Result) -> Result? {
        position(of: id).flatMap { update($0, body) }
    }

    /// Runs a closure on each element, in place and in order.
    ///
    /// - Parameter body: Receives the element.
    /// - Complexity: O(*n*) for *n* elements.
    @inlinable @inline(__always) mutating func updateEach(_ body: (inout Element) -> Void) {
        for position in 0..<positions { _ = update(position, body) }
    }

    /// Removes an element.
    ///
    /// - Parameter id: The id of the element.
    /// - Returns: The element; nil if no element has the id.
    /// - Complexity: O(log *n*) for *n* elements, amortised.
    @inlinable @discardableResult mutating func remove(id: UInt64) -> Element? {
        guard let position = position(of: id), let element = take(position) else { return nil }
        filled -= 1
        compact()
        return element
    }

    /// Removes the unwanted elements.
    ///
    /// - Parameter isUnwanted: Returns whether to remove an element.
    /// - Returns: The removed elements.
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

    /// Returns the elements with their ids, in order: all of them, or those with a lower id than the given one.
    ///
    /// - Complexity: O(*n*) for *n* of these.
    @inlinable func pairs(before id: UInt64 = .max) -> [(id: UInt64, element: Element)] {
        (firstID < id ? firstElement.map { [(firstID, $0)] } ?? [] : [])
            + rest.prefix { $0.id < id }.compactMap { slot in slot.element.map { (slot.id, $0) } }
    }

    /// Drops the empty slots at the end, and all empty slots once they are the majority.
    ///
    /// So the last element is found at once. When nothing is left, the memory of a burst is freed too.
    @inlinable mutating func compact() {
        while !rest.isEmpty && rest[rest.count - 1].element == nil { rest.removeLast() }
        if filled == 0 && rest.capacity > FluxLimits.keptCapacity(Slot.self) { rest = [] }
        guard positions > 2 * Int(filled) else { return }
        // Most elements leave in the order in which they came. The others then only move up, and none is retained.
        rest.removeFirst(rest.firstIndex { $0.element != nil } ?? rest.count)
        if 2 * rest.count > 3 * Int(filled) { rest.removeAll { $0.element == nil } }
        if firstElement != nil { return }
        (firstID, firstElement) = rest.isEmpty ? (0, nil) : rest.removeFirst()
    }

    /// Returns the position of an id, computed from the id or found by bisection.
    @inlinable func position(of id: UInt64) -> Int? {
        if firstID == id { return 0 }
        // Most ids rise by one. Then the position follows from the id, without a search.
        let guess = id &- firstID &- 1
        if guess < rest.count && rest[Int(guess)].id == id { return Int(guess) + 1 }
        return fluxBisect(rest.count, for: id) { rest[$0].id }.map { $0 + 1 }
    }

    @inlinable mutating func take(_ position: Int) -> Element? {
        if position == 0 { return Swift.exchange(&firstElement, with: nil) }
        return Swift.exchange(&rest[position - 1].element, with: nil)
    }
}

/// Returns the position of an id among ids in rising order, found by bisection; nil if the id is missing.
///
/// It reads ids by position, so that no element is copied to look at its id.
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
