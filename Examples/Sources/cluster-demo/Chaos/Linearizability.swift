/// Whether a history of one key's reads and writes could have come from one list in one place.
///
/// The algorithm is Wing and Gong's with Lowe's memory, as in Porcupine. It takes operations one after another, each at
/// a moment between its call and its return. When none can be taken, it takes back the last one. It never retries a
/// combination of taken operations and state.
struct Linearizability {
    /// An operation and its result.
    struct Operation {
        enum Kind {
            /// Adds an item, which was then at an index; nil: it is unknown whether the item was added.
            case append(UInt64, index: Int?)
            /// Reads a list.
            case read(Digest)
        }

        let kind: Kind
        let call: UInt64
        /// When it was known to be over; the largest number: never.
        let end: UInt64

        /// Returns the list after the operation, or nil if it cannot happen now.
        func apply(to list: Digest) -> Digest? {
            switch kind {
            case .append(let item, let index):
                if let index, index != list.count { return nil }
                var list = list
                list.add(item)
                return list
            case .read(let seen): return seen == list ? list : nil
            }
        }
    }

    private struct Tried: Hashable {
        let taken: [UInt64]
        let list: Digest
    }

    /// Returns whether the history is linearizable.
    static func holds(_ operations: [Operation]) -> Bool {
        // Calls and returns in the order of time, as a linked list from which taken operations are removed. A call goes
        // before a return of the same moment, which allows more histories.
        var events: [(time: UInt64, isReturn: Bool, operation: Int)] = []
        for (number, operation) in operations.enumerated() {
            events.append((operation.call, false, number))
            events.append((operation.end, true, number))
        }
        events.sort { ($0.time, $0.isReturn ? 1 : 0) < ($1.time, $1.isReturn ? 1 : 0) }
        let head = events.count
        var next = Array(1...events.count + 1)
        next[head] = 0
        var previous = Array(-1..<events.count)
        previous[0] = head
        if events.isEmpty { return true }
        var returns = Array(repeating: 0, count: operations.count)
        for (place, event) in events.enumerated() where event.isReturn { returns[event.operation] = place }

        var list = Digest()
        var taken = Array(repeating: UInt64(0), count: (operations.count + 63) / 64)
        var tried: Set<Tried> = []
        var calls: [(place: Int, list: Digest)] = []
        var place = next[head]
        while next[head] != head {
            let event = events[place]
            let operation = operations[event.operation]
            let bit = UInt64(1) << UInt64(event.operation % 64)
            if !event.isReturn {
                if let after = operation.apply(to: list) {
                    taken[event.operation / 64] |= bit
                    if tried.insert(Tried(taken: taken, list: after)).inserted {
                        calls.append((place, list))
                        list = after
                        for gone in [place, returns[event.operation]] {
                            next[previous[gone]] = next[gone]
                            previous[next[gone]] = previous[gone]
                        }
                        place = next[head]
                        continue
                    }
                    taken[event.operation / 64] &= ~bit
                }
                place = next[place]
            } else {
                // All operations with an end are taken; the others may never have happened.
                if operation.end == .max { return true }
                guard let last = calls.popLast() else { return false }
                list = last.list
                let number = events[last.place].operation
                taken[number / 64] &= ~(UInt64(1) << UInt64(number % 64))
                for back in [returns[number], last.place] {
                    next[previous[back]] = back
                    previous[next[back]] = back
                }
                place = next[last.place]
            }
        }
        return true
    }
}
