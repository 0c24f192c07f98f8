import Dispatch

/// What a control knows of one of its tasks.
nonisolated struct FluxFlight {
    /// Its number, in the order fired.
    var id: UInt64 = 0
    /// The last roll call that counted it.
    var counted: UInt64 = 0
}

/// What the lock of a creator guards: the events in flight, and those about to be converted.
///
/// A task that has ended stays in here until it is swept out: most tasks end without this lock.
nonisolated struct FluxFlights {
    /// Something to be done outside the lock.
    enum Chore {
        case begin(any FluxConverting, DispatchQueue)
        case drop(FluxTask)
        case finish(FluxTask, FluxTask.Outcome, isWatched: Bool)
        case leave(FluxLatch)
        case sleep(UInt64, Swift.Duration)
        case wake(_Concurrency.Task<Void, Never>)
        /// Held back until its task ended without being converted; what it holds is the user's.
        case letGo(any FluxConverting, FluxTask.Outcome)
        /// Awaited by a conversion; what has just been decided may be what it waits for in vain.
        case suspect(FluxTask)
    }

    struct Chores {
        /// The creator's queue has to be told that there is something to convert.
        var isFirst = false
        var others: ContiguousArray<Chore> = []
    }

    var inbox = FluxInbox<(any FluxConverting)?>()
    var isShutDown = false
    var ruled: FluxRuledFlights?
    /// How many events were ever fired.
    private(set) var fired = 0
    private var tasks: ContiguousArray<FluxTask> = []
    private var lastID: UInt64 = 0
    private var rollCall = FluxRollCall<FluxLatch>()

    init(rules: [FluxRule<FluxAnyEvent>]) {
        ruled = rules.isEmpty ? nil : FluxRuledFlights(rules: rules)
    }

    // MARK: - Firing

    /// Takes in what was fired together, where there are no rules; true: schedule a drain, nil: shut down.
    mutating func fire(_ conversion: any FluxConverting, _ task: FluxTask) -> Bool? {
        admit(task) ? inbox.put(conversion) : nil
    }

    /// Takes in what was fired together.
    mutating func fire(
        _ conversion: any FluxConverting,
        _ task: FluxTask,
        _ keys: [AnyHashable?],
        on queue: DispatchQueue?,
        _ chores: inout Chores
    ) {
        if !admit(task) { return chores.others.append(.drop(task)) }
        if ruled == nil { return launch(conversion, queue, &chores) }
        let effects = ruled!.fire(task, conversion, keys, queue)
        follow(effects, &chores)
    }

    /// Counts what was fired; false: it is dropped.
    private mutating func admit(_ task: FluxTask) -> Bool {
        fired += task.count
        if isShutDown { return false }
        lastID += 1
        task.flight.id = lastID
        tasks.append(task)
        return true
    }

    mutating func elapsed(_ id: UInt64, _ chores: inout Chores) {
        guard let effects = ruled?.elapsed(id) else { return }
        follow(effects, &chores)
    }

    private mutating func follow(_ effects: [FluxRuledFlights.Effect], _ chores: inout Chores) {
        for effect in effects {
            switch effect {
            case .start(let held): launch(held.conversion, held.queue, &chores)
            case .end(let task, let outcome, let held):
                if let held { chores.others.append(.letGo(held.conversion, outcome)) }
                let before = task.close(outcome)
                if before.isClosed { continue }
                task.control?.tally.count(outcome, task.count)
                land(task, &chores)
                chores.others.append(.finish(task, outcome, isWatched: before.isWatched))
            case .chore(let chore): chores.others.append(chore)
            }
        }
        for task in ruled?.suspects() ?? [] { chores.others.append(.suspect(task)) }
    }

    private mutating func launch(
        _ conversion: any FluxConverting, _ queue: DispatchQueue?, _ chores: inout Chores
    ) {
        if let queue {
            chores.others.append(.begin(conversion, queue))
        } else if inbox.put(conversion) {
            chores.isFirst = true
        }
    }

    // MARK: - Ending

    /// A supervised task has ended, of itself or because somebody cancelled it.
    mutating func ended(_ task: FluxTask, _ outcome: FluxTask.Outcome, _ chores: inout Chores) {
        land(task, &chores)
        guard ruled != nil else { return }
        let (held, effects) = ruled!.ended(task)
        if let held { chores.others.append(.letGo(held.conversion, outcome)) }
        follow(effects, &chores)
    }

    /// Tells those who wait for a task.
    private mutating func land(_ task: FluxTask, _ chores: inout Chores) {
        for latch in rollCall.gone(task.flight.id, counted: task.flight.counted) { chores.others.append(.leave(latch)) }
    }

    /// Keeps somebody until all that is in flight has ended; false if it has.
    mutating func wait(_ latch: FluxLatch) -> Bool {
        let call = rollCall.call()
        var open = 0
        for task in tasks where !task.gate.supervise().isClosed {
            task.flight.counted = call
            open += 1
        }
        return rollCall.wait(latch, for: open, last: lastID)
    }

    /// All tasks in flight, in the order fired.
    func open() -> ContiguousArray<FluxTask> {
        ContiguousArray(tasks.lazy.filter { !$0.gate.word.isClosed })
    }

    /// Takes out the tasks that have ended, to be released outside the lock; returns with them how many are left.
    mutating func sweep() -> (ended: ContiguousArray<FluxTask>, left: Int) {
        let ended = ContiguousArray(tasks.lazy.filter { $0.gate.word.isClosed })
        if !ended.isEmpty { tasks.removeAll { $0.gate.word.isClosed } }
        return (ended, tasks.count)
    }
}
