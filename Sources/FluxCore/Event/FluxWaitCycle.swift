import Synchronization

/// A conversion awaited an event that could not end before that conversion had; so it was ended instead.
///
/// Thread safety: a value.
nonisolated public struct FluxWaitCycle: Error, CustomStringConvertible {
    /// What happened and what to do instead, for a log.
    public var description: String {
        "A conversion awaited an event that cannot end before that conversion has ended: fire without awaiting."
    }
}

nonisolated extension FluxTask {
    /// The task whose conversion the calling Swift task runs or was made by, if its creator has rules.
    @TaskLocal static var conversion: FluxTask?

    @usableFromInline
    nonisolated(nonsending) func asConversion(_ body: nonisolated(nonsending) () async -> Void) async {
        await FluxTask.$conversion.withValue(self, operation: body)
    }

    /// Names the calling Swift task; 0 outside of any.
    static var caller: UInt { withUnsafeCurrentTask { name(of: $0) } }

    /// Names a Swift task by the address it is at; 0 for none.
    static func name(of task: _Concurrency.UnsafeCurrentTask?) -> UInt { unsafeBitCast(task, to: UInt.self) }

    /// Whether a Swift task is the one that runs the conversion of this task; false in those that it has made,
    /// for the conversion may well end before them.
    func isRun(by caller: UInt) -> Bool {
        caller != 0 && runner.load(ordering: .relaxed) == caller && !hasEnded
    }

    func outcomeAwaitedInside() async -> Outcome {
        let caller = FluxTask.caller
        let conversion = isRun(by: caller) ? self : FluxTask.conversion
        guard let conversion, conversion.isRun(by: caller) else { return await ended() }
        conversion.lock.withLock { $0.await(self) }
        let suspects = ([self] + lock.withLock { $0.parts }).map { FluxSuspect(task: $0, waiter: nil) }
        for suspect in suspects { suspect.task.ruledControl?.suspect(suspect) }
        endIfStuck()
        let outcome = await ended()
        for suspect in suspects { suspect.task.ruledControl?.clear(suspect) }
        conversion.lock.withLock { $0.stopAwaiting(self) }
        return outcome
    }

    /// Waits for the end, but not for longer than this can end before a conversion has that waits for it.
    func ended(unlessItNeeds conversion: FluxTask) async {
        // Asked before anybody else can see that it waits: others would end what is stuck.
        if isStuck(ifAwaitedBy: conversion) { return }
        let latch = FluxLatch()
        conversion.lock.withLock { $0.await(self) }
        let suspect = FluxSuspect(task: self, waiter: latch)
        ruledControl?.suspect(suspect)
        if !isStuck() { await end(wakes: latch) }
        ruledControl?.clear(suspect)
        conversion.lock.withLock { $0.stopAwaiting(self) }
    }

    /// Ends what can never end of itself.
    func endIfStuck() {
        for part in lock.withLock({ $0.parts }) { part.endIfStuck() }
        if isStuck() { end(.failed(FluxWaitCycle())) }
    }

    /// Whether the work can never end: all that it would need to is what in the end it waits for itself.
    ///
    /// What each task needs is asked for one after the other, with no lock over all of them. A task that is stuck once
    /// stays so, and whoever closes a circle looks after that: so the last one sees all of it.
    ///
    /// - Parameter conversion: The task whose conversion is about to wait for this.
    /// - Returns: Whether it is stuck.
    func isStuck(ifAwaitedBy conversion: FluxTask? = nil) -> Bool {
        var needs = FluxNeeds<ObjectIdentifier>()
        var open: ContiguousArray<FluxTask> = [self]
        // Kept until the end, so that no identifier is used again.
        var seen: ContiguousArray<FluxTask> = []
        while let task = open.popLast() {
            guard !needs.knows(ObjectIdentifier(task)) else { continue }
            seen.append(task)
            if task.gate.word.isClosed {
                needs.add(ObjectIdentifier(task), all: [], any: [])
                continue
            }
            let ahead = task.ruledControl?.ahead(of: task) ?? FluxAhead()
            var all = ahead.all + task.lock.withLock { $0.awaited + $0.parts }
            if task === conversion { all.append(self) }
            needs.add(
                ObjectIdentifier(task), all: all.map { ObjectIdentifier($0) },
                any: ahead.any.map { ObjectIdentifier($0) })
            open += all + ahead.any
        }
        return withExtendedLifetime(seen) { !needs.canEnd(ObjectIdentifier(self)) }
    }
}

/// Which of those who wait for each other can ever end: a pure machine.
///
/// One can end once all that it needs have ended, and one of those of which it needs any.
nonisolated struct FluxNeeds<ID: Hashable> {
    private struct Node {
        let all: [ID]
        let any: [ID]
        var canEnd = false
    }

    private var nodes: [ID: Node] = [:]
    private var order: [ID] = []

    func knows(_ id: ID) -> Bool { nodes[id] != nil }

    /// Adds one; whoever it needs has to be added too.
    mutating func add(_ id: ID, all: [ID], any: [ID]) {
        nodes[id] = Node(all: all, any: any)
        order.append(id)
    }

    /// - Complexity: O(*n*) for a row of *n*; O(*n*²) at worst.
    mutating func canEnd(_ id: ID) -> Bool {
        var isNew = true
        while isNew {
            isNew = false
            // Those found last first: they are what the others need.
            for id in order.reversed() {
                guard let node = nodes[id], !node.canEnd, node.all.allSatisfy({ nodes[$0]?.canEnd == true }),
                    node.any.isEmpty || node.any.contains(where: { nodes[$0]?.canEnd == true })
                else { continue }
                nodes[id]?.canEnd = true
                isNew = true
            }
        }
        return nodes[id]?.canEnd ?? true
    }
}

/// A task that a conversion awaits, and that a rule may make wait for that conversion later.
nonisolated struct FluxSuspect {
    let task: FluxTask
    /// Who gives up waiting in that case; nil: the task is ended.
    let waiter: FluxLatch?

    func check() {
        guard let waiter else { return task.endIfStuck() }
        if task.isStuck() { waiter.leave() }
    }
}

/// What a rule makes a task wait for.
nonisolated struct FluxAhead {
    /// All of these have to end.
    var all: ContiguousArray<FluxTask> = []
    /// One of these has to, if there are any.
    var any: ContiguousArray<FluxTask> = []
}
