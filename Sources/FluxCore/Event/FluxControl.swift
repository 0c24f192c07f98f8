import Dispatch
import Synchronization

/// Keeps account of the events in flight of a creator, and sees that they are converted.
///
/// It knows no types of the client's, so all of it is compiled once.
@usableFromInline
nonisolated final class FluxControl: Sendable {
    @usableFromInline let threads = FluxThreads.shared
    let clock: any _Concurrency.Clock<Swift.Duration>
    let isRuled: Bool
    private let flights: FluxLock<FluxFlights>
    /// The creator's own serial queue: `DispatchQueue.main` does not run in every program.
    private let queue = DispatchQueue(label: "FluxActionCreator", autoreleaseFrequency: .workItem, target: .global())
    let tally = FluxTally()
    /// When so many events have ended, the tasks that have are taken out of the flights.
    private let nextSweep = Synchronization.Atomic<Int>(leastSweep)

    /// How many tasks that have ended are worth a sweep.
    private static var leastSweep: Int { 256 }

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
    @usableFromInline
    func fire(
        _ event: any Sendable, count: Int, _ parent: FluxTask?, _ keys: [AnyHashable?],
        _ converter: any FluxConverting, on queue: DispatchQueue?
    ) -> FluxTask {
        fluxStopInsideHandle("fire")
        let task = FluxTask(event, self, count: count, parent: parent)
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
    private func decide(_ body: (inout FluxFlights, inout FluxFlights.Chores) -> Void) {
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
        let sleeper = _Concurrency.Task.detached { [self] in
            try? await fluxSleep(duration, on: clock)
            if !_Concurrency.Task.isCancelled { decide { $0.elapsed(id, &$1) } }
        }
        let isWanted = flights.withLock { $0.ruled?.keep(sleeper, id) ?? false }
        if !isWanted { sleeper.cancel() }
    }

    // MARK: - Ending

    /// A task has ended.
    func ended(_ task: FluxTask, _ outcome: FluxTask.Outcome, isSupervised: Bool) {
        tally.count(outcome, task.count)
        if isSupervised { decide { $0.ended(task, outcome, &$1) } }
    }

    /// A pass over those in flight is due for every so many that end.
    var isSweepDue: Bool { tally.ended >= nextSweep.load(ordering: .sequentiallyConsistent) }

    /// Lets go of the tasks that have ended.
    func sweep() {
        let ended = flights.withLock { flights in
            let (ended, left) = flights.sweep()
            let next = flights.isLeft ? 0 : tally.ended + max(left, Self.leastSweep)
            nextSweep.store(next, ordering: .sequentiallyConsistent)
            return ended
        }
        for task in ended { task.release() }
    }

    /// The same for the last one that ended; once it is settled, only this call keeps the control.
    func sweep(settling task: FluxTask) {
        let keeper = Unmanaged.passRetained(self)
        task.settle()
        sweep()
        keeper.release()
    }

    /// Lets go of all tasks, as all have ended.
    ///
    /// The control must not go before they are settled. With rules they keep it, and the last to settle lets go of it.
    func letGo() {
        // The tasks are retained: whoever settles one sweeps, and lets go of all that are settled.
        let (late, ruled) = flights.withLock { flights in
            flights.isLeft = true
            nextSweep.store(0, ordering: .sequentiallyConsistent)
            return (isRuled ? [] : flights.unsettled(), fluxTake(&flights.ruled))
        }
        for sleeper in ruled?.sleepers ?? [] { sleeper.cancel() }
        for task in late { fluxWait(upTo: .seconds(60)) { task.isSettled } }
        sweep()
    }

    func cancelAll() {
        fluxStopInsideHandle("cancelAll()")
        // The last first: the end of one that runs must not start those that wait for it.
        let tasks = flights.withLock { $0.open() }
        for task in tasks.reversed() { task.end(.cancelled) }
        for task in tasks { task.awaitDispatches() }
    }

    var inFlight: Int {
        fluxStopInsideHandle("inFlight")
        // Counted, for what has just ended may not have been tallied yet.
        return flights.withLock { $0.countOpen() }
    }

    func flush() async {
        fluxStopInsideHandle("flush()")
        await flush(inside: conversionOfCaller)
    }

    /// The task whose conversion the calling Swift task runs, if it is one of this creator.
    private var conversionOfCaller: FluxTask? {
        let caller = FluxTask.caller
        return flights.withLock { $0.task(runBy: caller) }
    }

    private func flush(inside conversion: FluxTask?) async {
        if let conversion {
            // It waits for each by itself, and for none that waits for it.
            for task in flights.withLock({ $0.open() }) where task !== conversion {
                await task.ended(unlessItNeeds: conversion)
            }
            return
        }
        let latch = FluxLatch()
        flights.withLock { if $0.wait(latch) { latch.enter() } }
        await latch.wait()
    }

    func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        fluxStopInsideHandle("shutdown(within:)")
        flights.withLock { $0.isShutDown = true }
        let conversion = conversionOfCaller
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.flush(inside: conversion) }
            group.addTask { try? await fluxSleep(duration, on: self.clock) }
            await group.next()
            group.cancelAll()
        }
        cancelAll()
        // Each is tallied a moment after it has ended, by the thread that ended it.
        for task in flights.withLock({ $0.unsettled() }) { fluxWait(upTo: .seconds(2)) { task.isSettled } }
        return tally.totals
    }

    // MARK: - Those who wait for each other

    /// A conversion awaits a task: whatever is decided from now on may make it wait in vain.
    func suspect(_ suspect: FluxSuspect) {
        flights.withLock { $0.ruled?.suspect(suspect) }
    }

    func clear(_ suspect: FluxSuspect) {
        flights.withLock { $0.ruled?.clear(suspect) }
    }

    func ahead(of task: FluxTask) -> FluxAhead {
        isRuled ? flights.withLock { $0.ruled?.ahead(of: task) ?? FluxAhead() } : FluxAhead()
    }
}
