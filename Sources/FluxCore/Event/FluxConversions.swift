import Dispatch

/// What a creator and its events in flight share; it lives as long as either.
@usableFromInline
nonisolated final class FluxConversions<Converter: FluxActionConverter>: Sendable {
    @usableFromInline
    struct Machine {
        @usableFromInline var ledger = FluxLedger<FluxLatch>()
        @usableFromInline var inbox = FluxInbox<FluxConversion<Converter>?>()

        @inlinable
        init() {}
    }

    @usableFromInline let dependency: Converter.Dependency
    @usableFromInline let send: @Sendable (Converter.Action) -> Void
    @usableFromInline let lock = FluxLock(Machine())
    @usableFromInline let threads = FluxThreads.shared
    /// The creator's own serial queue: `DispatchQueue.main` does not run in every program.
    @usableFromInline let queue = DispatchQueue(
        label: "FluxActionCreator", autoreleaseFrequency: .workItem, target: .global())

    @inlinable
    init(dependency: Converter.Dependency, send: @escaping @Sendable (Converter.Action) -> Void) {
        self.dependency = dependency
        self.send = send
    }

    /// Counts events as under way, and sees that they are converted.
    @inlinable
    func fire(_ events: FluxConversion<Converter>.Events, on executionQueue: DispatchQueue?) {
        if threads.current.pointee.handling != nil { fluxStopImpureHandle("fire") }
        if let executionQueue {
            let conversion = lock.withLock { FluxConversion(self, epoch: $0.ledger.start(), events) }
            executionQueue.async { conversion.run() }
        } else {
            let isFirst = lock.withLock { machine in
                machine.inbox.put(FluxConversion(self, epoch: machine.ledger.start(), events))
            }
            if isFirst { queue.async { self.drain() } }
        }
    }

    @inlinable
    func drain() {
        var batch: ContiguousArray<FluxConversion<Converter>?> = []
        for _ in 0..<FluxLimits.batchesInARow {
            guard lock.withLock({ $0.inbox.take(&batch) }) else { return }
            // Taken out one by one: a conversion has finished when it is released, not when the batch is.
            for index in batch.indices { fluxTake(&batch[index])?.run() }
            batch.removeAll(keepingCapacity: true)
        }
        // By way of the pool: the thread would go on with what is put on its own serial queue, and never be given back.
        DispatchQueue.global().async { self.queue.async { self.drain() } }
    }

    @usableFromInline
    func finish(_ epoch: Int) {
        for waiter in lock.withLock({ $0.ledger.finish(epoch) }) { waiter.leave() }
    }

    func flush() async {
        let latch = FluxLatch()
        lock.withLock { if $0.ledger.wait(latch) { latch.enter() } }
        await latch.wait()
    }
}

/// The events of one `fire` in flight: they have finished once nobody holds this any longer.
@usableFromInline
nonisolated final class FluxConversion<Converter: FluxActionConverter>: Sendable {
    @usableFromInline
    enum Events: Sendable {
        case one(Converter.Event)
        case many([Converter.Event])
    }

    @usableFromInline let conversions: FluxConversions<Converter>
    @usableFromInline let epoch: Int
    @usableFromInline let events: Events

    @inlinable
    init(_ conversions: FluxConversions<Converter>, epoch: Int, _ events: Events) {
        self.conversions = conversions
        self.epoch = epoch
        self.events = events
    }

    deinit {
        conversions.finish(epoch)
    }

    @inlinable
    func run() {
        switch events {
        case .one(let event): convert(event)
        case .many(let events): for event in events { convert(event) }
        }
    }

    /// Converts an event; the handler is this object, which lives for as long as the converter keeps it.
    @inlinable
    func convert(_ event: Converter.Event) {
        Converter.convert(event: event, dependency: conversions.dependency) { self.conversions.send($0) }
    }
}
