/// What the rules other than `every` do; kept apart so that the lossless path stays as short as it reads.
nonisolated extension FluxMailbox {
    /// Keeps an element by another rule than `every`.
    ///
    /// An element that goes is released in here, under the lock and inside the `apply` that put another in: as the old
    /// state is.
    @inlinable
    mutating func keep(_ element: consuming Element) {
        guard let bound else {
            isMarked = true
            return
        }
        let isFull = pending.count - bound.head >= bound.limit
        if isFull || isMarked {
            bound.drop()
            switch bound.rule {
            case .newest: _ = popFirst(bound)
            case .oldest: return
            case .failing:
                isMarked = true
                return
            }
        }
        pending.append(element)
    }

    /// Takes out the first of the elements that wait, amortised in constant time.
    @inlinable
    mutating func popFirst(_ bound: FluxBound) -> Element? {
        if pending.isEmpty { return nil }
        let element = fluxTake(&pending[bound.head])
        bound.head += 1
        bound.passed += 1
        if bound.head == pending.count {
            pending.removeAll(keepingCapacity: pending.capacity <= FluxLimits.keptCapacity)
            bound.head = 0
        } else if bound.head >= 16 && bound.head * 2 >= pending.count {
            pending.removeFirst(bound.head)
            bound.head = 0
        }
        return element
    }

    /// Makes a batch of the current element, for the members if it is new to them and for those who joined if to them.
    @inlinable
    mutating func conflate(_ batch: inout Batch, newest: UInt64, current: Element?) {
        for index in batch.joined.indices {
            if batch.joined[index].startsWithCurrent || batch.joined[index].start < newest {
                batch.joined[index].snapshot = current
            }
            batch.joined[index].start = newest
        }
        if isMarked { batch.elements.append(current) }
        isMarked = false
        batch.first = newest
    }

    /// Makes a batch of one element; once none is left of those before the one that had no room, says so.
    @inlinable
    mutating func takeFirst(_ batch: inout Batch, newest: UInt64) {
        // The one member joined before any element was put, so it gets each: any number after its start does.
        batch.first = newest
        batch.dropped = bound?.newDrops() ?? 0
        if let bound, let element = popFirst(bound) { batch.elements.append(element) }
        guard isMarked && pending.isEmpty else { return }
        isMarked = false
        batch.overflow = bound
    }
}
