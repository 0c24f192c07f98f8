import Dispatch

/// What the lock of a creator guards: the events in flight, and those about to be converted.
///
/// A task that has ended stays in here until it is swept out: most tasks end without this lock. What a task has loaded
/// does not: it goes with its conversion.
nonisolated struct FluxFlights {
    /// Something to be done outside the lock.
    enum Chore {
        case begin(FluxTask, any FluxConverting, DispatchQueue)
        case drop(FluxTask)
        case finish(FluxTask, FluxTask.Outcome, isWatched: Bool)
        case leave(FluxLatch)
        case sleep(UInt64, Swift.Duration)
        case wake(_Concurrency.Task<Void, Never>)
        /// Held back until it ended without being converted: what it has loaded is the user's.
        case letGo(FluxRuledFlights.Flight, FluxTask.Outcome)
        case release(FluxRuledFlights.Flight)
        /// Awaited by a conversion; what has just been decided may be what it waits for in vain.
        case suspect(FluxSuspect)
    }

    struct Chores {
        /// There is something to convert again, with this, and the creator's queue has to be told.
        var first: (any FluxConverting)?
        var others: ContiguousArray<Chore> = []

        mutating func add(_ ended: FluxRuledFlights.Flight, _ outcome: FluxTask.Outcome) {
            others.append(ended.isHeld ? .letGo(ended, outcome) : .release(ended))
        }
    }

    var inbox = FluxInbox<Unmanaged<FluxTask>>()
    var isShutDown = false
    /// Nobody can fire any more, and nothing is being converted.
    var isLeft = false
    var ruled: FluxRuledFlights?
    /// In the order fired, each retained by hand: an array of references would count each again at a sweep.
    private(set) var tasks: ContiguousArray<Unmanaged<FluxTask>> = []
    private var lastID: UInt64 = 0
    /// Those who wait for a task and for all that were fired before it: the last one of them that had not ended.
    private var waiters: ContiguousArray<(last: UInt64, latch: FluxLatch)> = []

    init(rules: [FluxRule<FluxAnyEvent>]) {
        ruled = rules.isEmpty ? nil : FluxRuledFlights(rules: rules)
    }

    // MARK: - Firing

    /// Takes in what was fired together, where there are no rules; true: schedule a drain, nil: shut down.
    mutating func fire(_ task: FluxTask) -> Bool? {
        admit(task) ? inbox.put(.passRetained(task)) : nil
    }

    /// Takes in what was fired together.
    mutating func fire(
        _ task: FluxTask,
        _ event: any Sendable,
        _ keys: [AnyHashable?],
        _ converter: any FluxConverting,
        on queue: DispatchQueue?,
        _ chores: inout Chores
    ) {
        if !admit(task) { return chores.others.append(.drop(task)) }
        if ruled == nil { return launch(task, converter, queue, &chores) }
        let effects = ruled!.fire(task, event, keys, converter, queue)
        follow(effects, &chores)
    }

    /// Takes in what was fired; false: it is dropped.
    private mutating func admit(_ task: FluxTask) -> Bool {
        if isShutDown { return false }
        lastID += 1
        task.id = lastID
        tasks.append(.passRetained(task))
        return true
    }

    mutating func elapsed(_ id: UInt64, _ chores: inout Chores) {
        guard let effects = ruled?.elapsed(id) else { return }
        follow(effects, &chores)
    }

    private mutating func follow(_ effects: [FluxRuledFlights.Effect], _ chores: inout Chores) {
        for effect in effects {
            switch effect {
            case .start(let flight): launch(flight.task, flight.converter, flight.queue, &chores)
            case .end(let flight, let outcome):
                let end = flight.task.close(outcome)
                chores.add(flight, outcome)
                guard let end else { continue }
                land(flight.task, &chores)
                chores.others.append(.finish(flight.task, end.outcome, isWatched: end.before.isWatched))
            case .chore(let chore): chores.others.append(chore)
            }
        }
        for suspect in ruled?.suspects() ?? [] { chores.others.append(.suspect(suspect)) }
    }

    private mutating func launch(
        _ task: FluxTask, _ converter: any FluxConverting, _ queue: DispatchQueue?, _ chores: inout Chores
    ) {
        if let queue {
            chores.others.append(.begin(task, converter, queue))
        } else if inbox.put(.passRetained(task)) {
            chores.first = converter
        }
    }

    // MARK: - Ending

    /// A supervised task has ended, of itself or because somebody cancelled it.
    mutating func ended(_ task: FluxTask, _ outcome: FluxTask.Outcome, _ chores: inout Chores) {
        land(task, &chores)
        guard ruled != nil else { return }
        let (flight, effects) = ruled!.ended(task)
        if let flight { chores.add(flight, outcome) }
        follow(effects, &chores)
    }

    /// Keeps somebody until all that is in flight has ended; false if it has.
    mutating func wait(_ latch: FluxLatch) -> Bool {
        guard let last = lastOpen(upTo: lastID) else { return false }
        waiters.append((last, latch))
        return true
    }

    /// Moves on those who waited for a task.
    ///
    /// They wait for one task at a time, and each time for an earlier one: most events end in the order fired, so that
    /// it is the only one.
    private mutating func land(_ task: FluxTask, _ chores: inout Chores) {
        for index in waiters.indices.reversed() where waiters[index].last == task.id {
            if let last = lastOpen(upTo: task.id) {
                waiters[index].last = last
            } else {
                chores.others.append(.leave(waiters.remove(at: index).latch))
            }
        }
    }

    /// The last task that has not ended, of those with an id up to a limit; its end will be told.
    private func lastOpen(upTo limit: UInt64) -> UInt64? {
        var (low, high) = (0, tasks.count)
        while low < high {
            let middle = (low + high) / 2
            if tasks[middle]._withUnsafeGuaranteedRef({ $0.id }) <= limit { low = middle + 1 } else { high = middle }
        }
        for task in tasks[..<low].reversed() {
            let isOpen = task._withUnsafeGuaranteedRef { !$0.gate.supervise().isClosed }
            if isOpen { return task._withUnsafeGuaranteedRef { $0.id } }
        }
        return nil
    }

    /// The task whose conversion a Swift task runs.
    func task(runBy caller: UInt) -> FluxTask? {
        if caller == 0 { return nil }
        let task = tasks.first { $0._withUnsafeGuaranteedRef { $0.isRun(by: caller) } }
        return task?.takeUnretainedValue()
    }

    /// All tasks in flight.
    func open() -> ContiguousArray<FluxTask> {
        ContiguousArray(tasks.lazy.map { $0.takeUnretainedValue() }.filter { !$0.gate.word.isClosed })
    }

    /// How many events have not ended.
    func countOpen() -> Int {
        tasks.reduce(0) { sum, task in
            sum + task._withUnsafeGuaranteedRef { $0.gate.word.isClosed ? 0 : $0.count }
        }
    }

    /// The tasks whose end has not been seen to.
    func unsettled() -> ContiguousArray<FluxTask> {
        ContiguousArray(tasks.lazy.map { $0.takeUnretainedValue() }.filter { !$0.isSettled })
    }

    /// Takes out the tasks that have ended, to be released outside the lock, and tells how many are left.
    mutating func sweep() -> (ended: ContiguousArray<Unmanaged<FluxTask>>, left: Int) {
        var ended: ContiguousArray<Unmanaged<FluxTask>> = []
        var left: ContiguousArray<Unmanaged<FluxTask>> = []
        for task in tasks {
            if task._withUnsafeGuaranteedRef({ $0.isSettled }) { ended.append(task) } else { left.append(task) }
        }
        tasks = left
        return (ended, left.count)
    }
}
