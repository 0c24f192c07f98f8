/// Elements that wait for their turn on a serial queue: a pure state machine that requests at most one drain at a time.
///
/// | input  | idle                       | draining                               |
/// |--------|----------------------------|----------------------------------------|
/// | `put`  | kept; schedule a drain     | kept                                   |
/// | `take` | nothing; stays idle        | all kept elements; idle if none        |
@usableFromInline nonisolated struct FluxInbox<Element> {
    @usableFromInline var pending: ContiguousArray<Element> = []
    @usableFromInline var isDraining = false

    /// Keeps an element for the drain; returns true if the caller must schedule one.
    @inlinable mutating func put(_ element: consuming Element) -> Bool {
        pending.append(element)
        return !Swift.exchange(&isDraining, with: true)
    }

    /// Swaps an empty buffer for all kept elements; if there are none, returns false and becomes idle.
    @inlinable mutating func take(_ batch: inout ContiguousArray<Element>) -> Bool {
        isDraining = !pending.isEmpty
        if batch.capacity > FluxLimits.keptCapacity(Element.self) { batch = [] }
        swap(&pending, &batch)
        return isDraining
    }
}
