#if canImport(FluxCore)
    import FluxCore
#endif

/// What a rule knows of the events of one key.
nonisolated struct FluxRuleGroup {
    typealias ID = UInt64

    /// Those that have passed the rule, in that order.
    var members = FluxList<ID>()
    var lastTicket: UInt64 = 0
    /// The one that a debounce or throttle holds.
    var held: ID?
    /// Those that a concurrency limit holds, ended ones among them, which are passed over.
    var queue: ContiguousArray<ID> = []
    var queueStart = 0
    /// How many of them have not ended.
    var queued = 0
    var isTiming = false

    var isQueuing: Bool { queued > 0 }
    var isIdle: Bool { members.isEmpty && held == nil && !isQueuing && !isTiming }

    mutating func add(_ id: ID) -> UInt64 {
        lastTicket += 1
        members.insert(id, id: lastTicket)
        return lastTicket
    }

    func hasPlace(_ limit: Int) -> Bool { members.count < limit }

    /// Takes the first out of a queue that is not empty.
    mutating func next() -> ID {
        let next = queue[queueStart]
        queueStart += 1
        if queueStart > 64 && queueStart * 2 > queue.count {
            queue.removeFirst(queueStart)
            queueStart = 0
        }
        return next
    }

    /// Those that have passed the rule, in that order.
    var ids: [ID] {
        var (members, ids) = (members, [ID]())
        members.updateEach { ids.append($0) }
        return ids
    }

    mutating func enqueue(_ id: ID) {
        queue.append(id)
        queued += 1
    }

    /// One has ended that was in the queue; the ended are swept out once they are most.
    mutating func dequeue(isOpen: (ID) -> Bool) {
        queued -= 1
        if queue.count - queueStart <= 2 * queued + 64 { return }
        queue = ContiguousArray(queue[queueStart...].filter(isOpen))
        queueStart = 0
    }
}
