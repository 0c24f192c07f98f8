/// What waits for its turn on a serial queue: a pure state machine that asks for at most one drain at a time.
///
/// | input  | idle                       | draining                               |
/// |--------|----------------------------|----------------------------------------|
/// | `put`  | kept; schedule a drain     | kept                                   |
/// | `take` | nothing, and idle          | all that is kept; idle where none is   |
@usableFromInline nonisolated struct FluxInbox<Element> {
    @usableFromInline var pending: ContiguousArray<Element> = []
    @usableFromInline var isDraining = false

    /// Keeps an element for the drain; true: schedule one.
    @inlinable mutating func put(_ element: consuming Element) -> Bool {
        pending.append(element)
        return !Swift.exchange(&isDraining, with: true)
    }

    /// Swaps an empty buffer for all that is kept; false, and idle from here on, if that is nothing.
    @inlinable mutating func take(_ batch: inout ContiguousArray<Element>) -> Bool {
        isDraining = !pending.isEmpty
        if batch.capacity > FluxLimits.keptCapacity(Element.self) { batch = [] }
        swap(&pending, &batch)
        return isDraining
    }
}
