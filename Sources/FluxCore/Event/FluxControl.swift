import Dispatch
import Synchronization

/// Keeps account of the events in flight of a creator, and sees that they are converted.
///
/// It knows no types of the client's, so all of it is compiled once.
@usableFromInline
nonisolated final class FluxControl: Sendable {
    let clock: any _Concurrency.Clock<Swift.Duration>
    let isRuled: Bool
    let flights: FluxLock<FluxFlights>
    /// The creator's own serial queue: `DispatchQueue.main` does not run in every program.
    private let queue = DispatchQueue(label: "FluxActionCreator", autoreleaseFrequency: .workItem, target: .global())
    let tally = FluxCounts()
    /// When so many events have ended, the tasks that have are taken out of the flights.
    let nextSweep = Synchronization.Atomic<Int>(leastSweep)

    /// How many tasks that have ended are worth a sweep.
    static var leastSweep: Int { 256 }

    init(rules: [FluxRule<FluxAnyEvent>], clock: any _Concurrency.Clock<Swift.Duration>) {
        self.clock = clock
        isRuled = !rules.isEmpty
        flights = FluxLock(FluxFlights(rules: rules))
    }

    /// The creator's queue, for what prefers it all along.
    @usableFromInline var executor: FluxQueueExecutor { FluxQueueExecutor(queue) }

    // MARK: - Firing

    /// Takes in what is fired together, and returns its task.
    ///
    /// - Parameters:
    ///   - event: The event; an array of them if there are several.
    ///   - count: How many there are.
    ///   - parent: The task of all, if this is one of several that were fired together.
    ///   - keys: The key of each rule.
    ///   - converter: What is to convert them. No task keeps it, for the thread that fires and the one that converts
    ///     would fight over its count: the drain does, or the block on a queue, or the rules.
    ///   - queue: Where to convert.
    ///   - origin: What its actions carry; 0 if nobody watches.
    /// - Returns: The task.
    @usableFromInline
    func fire(
        _ event: any Sendable, count: Int, _ parent: FluxTask?, _ keys: [AnyHashable?],
        _ converter: any FluxConverting, on queue: DispatchQueue?, origin: UInt64
    ) -> FluxTask {
        fluxStopInsideHandle("fire")
        let task = FluxTask(event, self, count: count, parent: parent, origin: origin)
        if isRuled || queue != nil {
            decide { $0.fire(task, event, keys, converter, on: queue, &$1) }
        } else {
            let isFirst = flights.withLock { $0.fire(task) }
            if isFirst == true { startDrain(converter) }
            if isFirst == nil { drop(task) }
        }
        return task
    }

    private func drop(_ task: FluxTask) {
        task.end(.dropped)
        task.letGo()
    }

    private func startDrain(_ converter: any FluxConverting) {
        queue.async { self.drain(converter) }
    }

    private func drain(_ converter: any FluxConverting) {
        var batch: ContiguousArray<Unmanaged<FluxTask>> = []
        var spare: AnyObject?
        for _ in 0..<FluxLimits.batchesInARow {
            guard flights.withLock({ $0.inbox.take(&batch) }) else { return }
            for task in batch { FluxTask.begin(task, converter, &spare) }
            batch.removeAll(keepingCapacity: true)
        }
        // By way of the pool: the thread would go on with what is put on its own serial queue, and never be given back.
        DispatchQueue.global().async { self.startDrain(converter) }
    }

    // MARK: - Deciding

    /// Decides under the lock, and does what was decided outside it.
    func decide(_ body: (inout FluxFlights, inout FluxFlights.Chores) -> Void) {
        var chores = FluxFlights.Chores()
        let thread = FluxThreads.shared.current
        flights.withLock { flights in
            // Conditions and rules of the user's own run in here: they may not fire, cancel or dispatch.
            let outer = thread.pointee
            thread.pointee.handling = UnsafeRawPointer(fluxIdentity: self)
            thread.pointee.isRuling = true
            body(&flights, &chores)
            thread.pointee.handling = outer.handling
            thread.pointee.isRuling = outer.isRuling
        }
        if let converter = chores.first { startDrain(converter) }
        for chore in chores.others { perform(chore) }
        // What rules end does not come by where other tasks end.
        if isRuled && isSweepDue { sweep() }
    }

    private func perform(_ chore: FluxFlights.Chore) {
        switch chore {
        case .begin(let task, let converter, let queue):
            queue.async {
                var spare: AnyObject? = converter.isAsync ? FluxQueueExecutor(queue) : nil
                FluxTask.begin(.passRetained(task), converter, &spare)
            }
        case .drop(let task): drop(task)
        case .finish(let task, let outcome, let isWatched):
            tally.count(outcome, task.count)
            task.settle()
            task.finish(outcome, isWatched: isWatched)
        case .leave(let waiter): waiter.leave()
        case .sleep(let id, let duration): sleep(id, duration)
        case .wake(let sleeper): sleeper.cancel()
        case .letGo(let flight, let outcome):
            if case .failed(let error) = outcome { flight.converter.report(error, on: flight.event.event) }
            flight.task.letGo()
        case .release: break
        case .suspect(let suspect): suspect.check()
        }
    }

    private func sleep(_ id: UInt64, _ duration: Swift.Duration) {
        let end = FluxDeadline(in: duration, on: clock)
        let sleeper = _Concurrency.Task.detached { [self] in
            try? await end.reached()
            if !_Concurrency.Task.isCancelled { decide { $0.elapsed(id, &$1) } }
        }
        let isWanted = flights.withLock { $0.ruled?.keep(sleeper, id) ?? false }
        if !isWanted { sleeper.cancel() }
    }
}
