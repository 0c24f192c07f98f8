import Dispatch

/// Keeps account of the events in flight of a creator, and sees that they are converted; it lives as long as either.
///
/// It knows no types of the client's, so all of it is compiled once.
@usableFromInline
nonisolated final class FluxControl: Sendable {
    let clock: any _Concurrency.Clock<Swift.Duration>
    private let flights: FluxLock<FluxFlights>
    private let threads = FluxThreads.shared
    /// The creator's own serial queue: `DispatchQueue.main` never runs in a server.
    private let queue = DispatchQueue(label: "FluxActionCreator", autoreleaseFrequency: .workItem, target: .global())

    /// After this many batches a drain goes to the end of its queue, so that no creator keeps a thread from the others.
    private static var batchesInARow: Int { 16 }

    init(rules: [FluxRule<FluxAnyEvent>], clock: any _Concurrency.Clock<Swift.Duration>) {
        self.clock = clock
        flights = FluxLock(FluxFlights(rules: rules))
    }

    /// Makes the task of what is fired together; to be called before it is taken in.
    @usableFromInline
    func makeTask(count: Int, parent: FluxTask?) -> FluxTask {
        if threads.current.pointee.handling != nil { fluxStopImpureHandle("fire") }
        return FluxTask(self, count: count, parent: parent)
    }

    /// Takes in what was fired together.
    @usableFromInline
    func fire(_ conversion: any FluxConverting, _ task: FluxTask, _ keys: [AnyHashable?], on queue: DispatchQueue?) {
        decide { $0.fire(conversion, task, keys, on: queue, &$1) }
    }

    /// Decides under the lock, and does what was decided outside it.
    private func decide(_ body: (inout FluxFlights, inout FluxFlights.Chores) -> Void) {
        var chores = FluxFlights.Chores()
        let thread = threads.current
        flights.withLock { flights in
            // Conditions and rules of the user's own run in here: they may not fire or dispatch.
            let outer = thread.pointee.handling
            thread.pointee.handling = UnsafeRawPointer(fluxIdentity: self)
            body(&flights, &chores)
            thread.pointee.handling = outer
        }
        if chores.isFirst { queue.async { self.drain() } }
        if !chores.others.isEmpty { perform(chores.others) }
    }

    private func perform(_ chores: ContiguousArray<FluxFlights.Chore>) {
        for chore in chores {
            switch chore {
            case .begin(let conversion, let queue): queue.async { conversion.begin() }
            case .finish(let task, let closing): task.finish(closing)
            case .leave(let waiter): waiter.leave()
            case .sleep(let id, let duration): sleep(id, duration)
            case .wake(let sleeper): sleeper.cancel()
            case .letGo: break
            }
        }
    }

    private func drain() {
        var batch: ContiguousArray<(any FluxConverting)?> = []
        for _ in 0..<Self.batchesInARow {
            guard flights.withLock({ $0.inbox.take(&batch) }) else { return }
            // Taken out one by one: a conversion has finished when it is released, not when the batch is.
            for index in batch.indices { fluxTake(&batch[index])?.begin() }
            batch.removeAll(keepingCapacity: true)
        }
        queue.async { self.drain() }
    }

    private func sleep(_ id: UInt64, _ duration: Swift.Duration) {
        let sleeper = _Concurrency.Task {
            try? await clock.sleep(for: duration)
            if !_Concurrency.Task.isCancelled { decide { $0.elapsed(id, &$1) } }
        }
        let isWanted = flights.withLock { $0.keep(sleeper, id) }
        if !isWanted { sleeper.cancel() }
    }

    // MARK: - Ending

    func ended(_ task: FluxTask, _ outcome: FluxTask.Outcome) {
        decide { $0.ended(task, outcome, &$1) }
    }

    func waits(_ task: FluxTask, for other: FluxTask) -> Bool {
        flights.withLock { $0.waits(task, for: other) }
    }

    func cancelAll() {
        for task in flights.withLock({ $0.tasks() }) { task.cancel() }
    }

    var inFlight: Int { flights.withLock { $0.inFlight } }

    func flush() async {
        let latch = FluxLatch()
        flights.withLock { if $0.ledger.wait(latch) { latch.enter() } }
        await latch.wait()
    }

    func shutdown(within duration: Swift.Duration) async -> FluxShutdown {
        flights.withLock { $0.isShutDown = true }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.flush() }
            group.addTask { try? await self.clock.sleep(for: duration) }
            await group.next()
            group.cancelAll()
        }
        cancelAll()
        return flights.withLock { $0.totals }
    }
}

/// An event being converted, without its types.
@usableFromInline
nonisolated protocol FluxConverting: AnyObject, Sendable {

    func begin()
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
