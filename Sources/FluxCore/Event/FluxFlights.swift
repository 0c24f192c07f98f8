import Dispatch

/// The place of a task among those in flight; guarded by the lock of its control.
nonisolated struct FluxFlight {
    /// Its number, in the order fired; 0 while it is not in flight.
    var id: UInt64 = 0
    var epoch = 0
    var previous: Unmanaged<FluxTask>?
    var next: Unmanaged<FluxTask>?
}

/// What the lock of a creator guards: the events in flight, the rules between them, and those about to be converted.
nonisolated struct FluxFlights {
    typealias Rules = FluxRuleMachine<FluxAnyEvent>

    /// Something to be done outside the lock.
    enum Chore {
        case begin(any FluxConverting, DispatchQueue)
        case finish(FluxTask, FluxTask.Machine.Closing)
        case leave(FluxLatch)
        case sleep(UInt64, Swift.Duration)
        case wake(_Concurrency.Task<Void, Never>)
        /// To be released: what it holds is the user's.
        case letGo(any FluxConverting)
    }

    struct Chores {
        /// The creator's queue has to be told that there is something to convert.
        var isFirst = false
        var others: ContiguousArray<Chore> = []
    }

    /// An event that a rule holds back, or that has not been looked at by all rules.
    private struct Held {
        let task: FluxTask
        let conversion: any FluxConverting
        let queue: DispatchQueue?
    }

    /// Somebody who waits for a timer to elapse.
    private struct Sleep {
        let timer: Rules.Timer
        var task: _Concurrency.Task<Void, Never>?
    }

    /// The events that rules know of.
    private struct Ruled {
        var rules: Rules
        var held: [UInt64: Held] = [:]
        var started: [UInt64: Unmanaged<FluxTask>] = [:]
        var sleeps: [UInt64: Sleep] = [:]
        var timers: [Rules.Timer: UInt64] = [:]
    }

    var ledger = FluxLedger<FluxLatch>()
    var inbox = FluxInbox<(any FluxConverting)?>()
    var isShutDown = false
    private(set) var inFlight = 0
    private(set) var totals = FluxShutdown(completed: 0, cancelled: 0, dropped: 0)
    private var ruled: Ruled?
    private var lastID: UInt64 = 0
    // The tasks in flight are a list in the order fired. None is retained: what converts a task keeps it, and takes it
    // out of here before it lets go.
    private var first: Unmanaged<FluxTask>?
    private var last: Unmanaged<FluxTask>?

    init(rules: [FluxRule<FluxAnyEvent>]) {
        ruled = rules.isEmpty ? nil : Ruled(rules: Rules(rules: rules))
    }

    // MARK: - Inputs

    /// Takes in what was fired together.
    mutating func fire(
        _ conversion: any FluxConverting,
        _ task: FluxTask,
        _ keys: [AnyHashable?],
        on queue: DispatchQueue?,
        _ chores: inout Chores
    ) {
        if isShutDown {
            totals.count(.dropped, task.count)
            if let closing = task.close(.dropped) { chores.others.append(.finish(task, closing)) }
            return
        }
        append(task)
        if ruled == nil { return launch(conversion, queue, &chores) }
        ruled!.held[lastID] = Held(task: task, conversion: conversion, queue: queue)
        follow(ruled!.rules.fire(lastID, FluxAnyEvent(conversion: conversion), keys: keys), &chores)
    }

    /// A task has ended, of itself or because somebody cancelled it.
    mutating func ended(_ task: FluxTask, _ outcome: FluxTask.Outcome, _ chores: inout Chores) {
        let id = task.flight.id
        guard land(task, outcome, &chores), ruled != nil else { return }
        follow(ruled!.rules.ended(id), &chores)
    }

    mutating func elapsed(_ id: UInt64, _ chores: inout Chores) {
        guard let timer = ruled?.sleeps.removeValue(forKey: id)?.timer else { return }
        ruled!.timers[timer] = nil
        follow(ruled!.rules.elapsed(timer), &chores)
    }

    /// Keeps the task that sleeps, to be cancelled; false: nobody wants it any longer.
    mutating func keep(_ task: _Concurrency.Task<Void, Never>, _ id: UInt64) -> Bool {
        ruled?.sleeps[id]?.task = task
        return ruled?.sleeps[id] != nil
    }

    /// Whether a rule holds a task back until another has ended.
    func waits(_ task: FluxTask, for other: FluxTask) -> Bool {
        guard let ruled, task.flight.id != 0, other.flight.id != 0 else { return false }
        return ruled.rules.waits(task.flight.id, for: other.flight.id)
    }

    /// All tasks in flight, in the order fired.
    func tasks() -> ContiguousArray<FluxTask> {
        var tasks: ContiguousArray<FluxTask> = []
        var next = first
        while let task = next?.takeUnretainedValue() {
            tasks.append(task)
            next = task.flight.next
        }
        return tasks
    }

    // MARK: - Support

    private mutating func follow(_ effects: [Rules.Effect], _ chores: inout Chores) {
        for effect in effects {
            switch effect {
            case .start(let id):
                guard let held = ruled!.held.removeValue(forKey: id) else { continue }
                ruled!.started[id] = .passUnretained(held.task)
                launch(held.conversion, held.queue, &chores)
            case .end(let id, let outcome):
                let started = ruled!.started[id]?.takeUnretainedValue()
                guard let task = started ?? ruled!.held[id]?.task, let closing = task.close(outcome) else { continue }
                _ = land(task, outcome, &chores)
                chores.others.append(.finish(task, closing))
            case .sleep(let timer, let duration):
                lastID += 1
                ruled!.timers[timer] = lastID
                ruled!.sleeps[lastID] = Sleep(timer: timer)
                chores.others.append(.sleep(lastID, duration))
            case .wake(let timer):
                if let id = ruled!.timers.removeValue(forKey: timer),
                    let task = ruled!.sleeps.removeValue(forKey: id)?.task
                {
                    chores.others.append(.wake(task))
                }
            }
        }
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

    private mutating func append(_ task: FluxTask) {
        lastID += 1
        inFlight += task.count
        task.flight.id = lastID
        task.flight.epoch = ledger.start()
        task.flight.previous = last
        last?._withUnsafeGuaranteedRef { $0.flight.next = .passUnretained(task) }
        last = .passUnretained(task)
        if first == nil { first = last }
    }

    /// Takes a task out of those in flight; false if it was out already.
    private mutating func land(_ task: FluxTask, _ outcome: FluxTask.Outcome, _ chores: inout Chores) -> Bool {
        let flight = task.flight
        if flight.id == 0 { return false }
        if let previous = flight.previous {
            previous._withUnsafeGuaranteedRef { $0.flight.next = flight.next }
        } else {
            first = flight.next
        }
        if let next = flight.next {
            next._withUnsafeGuaranteedRef { $0.flight.previous = flight.previous }
        } else {
            last = flight.previous
        }
        task.flight = FluxFlight()
        inFlight -= task.count
        totals.count(outcome, task.count)
        if ruled != nil {
            if let held = ruled!.held.removeValue(forKey: flight.id) { chores.others.append(.letGo(held.conversion)) }
            ruled!.started[flight.id] = nil
        }
        for waiter in ledger.finish(flight.epoch) { chores.others.append(.leave(waiter)) }
        return true
    }
}

/// What became of the events of a creator, by count.
///
/// Thread safety: a value.
nonisolated public struct FluxShutdown: Sendable, Equatable {
    /// Those that ran to their end, failed ones included.
    public internal(set) var completed: Int
    /// Those that were cancelled, by hand, by a rule or at the deadline.
    public internal(set) var cancelled: Int
    /// Those that never started: refused by a rule, or fired after the shutdown had begun.
    public internal(set) var dropped: Int

    mutating func count(_ outcome: FluxTask.Outcome, _ events: Int) {
        switch outcome {
        case .completed, .failed: completed += events
        case .cancelled: cancelled += events
        case .dropped: dropped += events
        }
    }
}
