import Dispatch
import Synchronization

/// Keeps account of the events in flight of a creator, and sees that they are converted.
///
/// It knows no types of the client's, so all of it is compiled once.
@usableFromInline
nonisolated final class FluxControl: Sendable {
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

    // MARK: - Firing

    /// Makes the task of what is fired together; to be called before it is taken in.
    @usableFromInline
    func makeTask(count: Int, parent: FluxTask?) -> FluxTask {
        fluxStopInsideHandle("fire")
        return FluxTask(self, count: count, parent: parent)
    }

    /// Takes in what was fired together.
    @usableFromInline
    func fire(_ conversion: any FluxConverting, _ task: FluxTask, _ keys: [AnyHashable?], on queue: DispatchQueue?) {
        if isRuled || queue != nil { return decide { $0.fire(conversion, task, keys, on: queue, &$1) } }
        let isFirst = flights.withLock { $0.fire(conversion, task) }
        if isFirst == true { self.queue.async { self.drain() } }
        if isFirst == nil { task.end(.dropped) }
    }

    private func drain() {
        var batch: ContiguousArray<(any FluxConverting)?> = []
        for _ in 0..<FluxLimits.batchesInARow {
            guard flights.withLock({ $0.inbox.take(&batch) }) else { return }
            // Taken out one by one: a conversion has finished when it is released, not when the batch is.
            for index in batch.indices { fluxTake(&batch[index])?.begin(on: queue) }
            batch.removeAll(keepingCapacity: true)
        }
        // By way of the pool: the thread would go on with what is put on its own serial queue, and never be given back.
        DispatchQueue.global().async { self.queue.async { self.drain() } }
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
        if chores.isFirst { queue.async { self.drain() } }
        for chore in chores.others { perform(chore) }
    }

    private func perform(_ chore: FluxFlights.Chore) {
        switch chore {
        case .begin(let conversion, let queue): queue.async { conversion.begin(on: queue) }
        case .drop(let task): task.end(.dropped)
        case .finish(let task, let outcome, let isWatched): task.finish(outcome, isWatched: isWatched)
        case .leave(let waiter): waiter.leave()
        case .sleep(let id, let duration): sleep(id, duration)
        case .wake(let sleeper): sleeper.cancel()
        case .letGo(let conversion, .failed(let error)): conversion.report(error)
        case .letGo: break
        case .suspect(let task): task.endIfStuck()
        }
    }

    private func sleep(_ id: UInt64, _ duration: Swift.Duration) {
        let sleeper = _Concurrency.Task {
            try? await clock.sleep(for: duration)
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
        if tally.ended >= nextSweep.load(ordering: .relaxed) { sweep() }
    }

    /// Lets go of the tasks that have ended; a pass over those in flight for every so many that end.
    private func sweep() {
        let ended = flights.withLock { flights in
            let (ended, left) = flights.sweep()
            nextSweep.store(tally.ended + max(left, Self.leastSweep), ordering: .relaxed)
            return ended
        }
        withExtendedLifetime(ended) {}
    }

    /// Lets go of all tasks, which have ended: each keeps the control, and the control each.
    func letGo() {
        sweep()
    }

    func cancelAll() {
        fluxStopInsideHandle("cancelAll()")
        for task in flights.withLock({ $0.open() }) { task.cancel() }
    }

    var inFlight: Int {
        fluxStopInsideHandle("inFlight")
        return flights.withLock { $0.fired } - tally.ended
    }

    func flush() async {
        fluxStopInsideHandle("flush()")
        if let running = FluxTask.running, running.control === self {
            // It waits for each by itself, and for none that waits for it.
            for task in flights.withLock({ $0.open() }) { await task.ended(unlessItNeeds: running) }
            return
        }
        let latch = FluxLatch()
        flights.withLock { if $0.wait(latch) { latch.enter() } }
        await latch.wait()
    }

    func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        fluxStopInsideHandle("shutdown(within:)")
        flights.withLock { $0.isShutDown = true }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.flush() }
            group.addTask { try? await self.clock.sleep(for: duration) }
            await group.next()
            group.cancelAll()
        }
        cancelAll()
        return tally.totals
    }

    // MARK: - Those who wait for each other

    /// A conversion awaits a task: whatever is decided from now on may make it wait in vain.
    func suspect(_ task: FluxTask) {
        if isRuled { flights.withLock { $0.ruled?.suspect(task) } }
    }

    func ahead(of task: FluxTask) -> FluxAhead {
        isRuled ? flights.withLock { $0.ruled?.ahead(of: task) ?? FluxAhead() } : FluxAhead()
    }
}

/// An event being converted, without its types.
@usableFromInline
nonisolated protocol FluxConverting: AnyObject, Sendable {
    func begin(on queue: DispatchQueue)
    /// Tells whoever listens of an error that ended the event without its being converted.
    func report(_ error: any Error)
}

/// An event for the rules, without its type.
///
/// It does not keep the conversion: that ends with its last reference, and leaves the rules before it goes.
nonisolated struct FluxAnyEvent: FluxEvent {
    private let conversion: FluxGuarded<Unmanaged<AnyObject>>

    init(conversion: any FluxConverting) {
        self.conversion = FluxGuarded(.passUnretained(conversion))
    }

    func read<Converter: FluxActionConverter>(_ converter: Converter.Type) -> Converter.Event {
        conversion.value._withUnsafeGuaranteedRef {
            unsafeDowncast($0, to: FluxConversion<Converter>.self).event
        }
    }
}
