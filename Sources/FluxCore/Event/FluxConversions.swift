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

    /// The hooks where the actions go; nil if nobody watches.
    @usableFromInline let watchers: @Sendable () -> FluxChain?

    @inlinable
    init(
        dependency: Converter.Dependency,
        watchers: @escaping @Sendable () -> FluxChain? = { nil },
        send: @escaping @Sendable (Converter.Action) -> Void
    ) {
        self.dependency = dependency
        self.watchers = watchers
        self.send = send
    }

    /// Counts events as under way, and sees that they are converted.
    @inlinable
    func fire(_ events: FluxConversion<Converter>.Events, on executionQueue: DispatchQueue?) {
        if threads.current.pointee.handling != nil { fluxStopImpureHandle("fire") }
        let origin = watchers().map { events.announce(to: $0) } ?? 0
        if let executionQueue {
            let conversion = lock.withLock { FluxConversion(self, epoch: $0.ledger.start(), events, origin) }
            executionQueue.async { conversion.run() }
        } else {
            let isFirst = lock.withLock { machine in
                machine.inbox.put(FluxConversion(self, epoch: machine.ledger.start(), events, origin))
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

        /// Tells that they were fired; returns the id of the first, those behind have the ids behind.
        @usableFromInline
        func announce(to chain: FluxChain) -> UInt64 {
            let events =
                switch self {
                case .one(let event): [event]
                case .many(let events): events
                }
            let first = FluxOrigin.make(events.count)
            for (offset, event) in events.enumerated() {
                for hooks in chain.hooks { hooks.fired(event, origin: FluxOrigin(id: first &+ UInt64(offset))) }
            }
            return first
        }
    }

    @usableFromInline let conversions: FluxConversions<Converter>
    @usableFromInline let epoch: Int
    @usableFromInline let events: Events
    /// The id of the first event; 0 if nobody watches.
    @usableFromInline let origin: UInt64

    @inlinable
    init(_ conversions: FluxConversions<Converter>, epoch: Int, _ events: Events, _ origin: UInt64) {
        self.origin = origin
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
        case .one(let event): convert(event, origin)
        case .many(let events):
            for (offset, event) in events.enumerated() { convert(event, origin == 0 ? 0 : origin &+ UInt64(offset)) }
        }
    }

    /// Converts an event; the handler is this object, which lives for as long as the converter keeps it.
    @inlinable
    func convert(_ event: Converter.Event, _ origin: UInt64) {
        if origin != 0 {
            return Converter.convert(event: event, dependency: conversions.dependency) { action in
                FluxOrigin.attach(origin) { self.conversions.send(action) }
            }
        }
        Converter.convert(event: event, dependency: conversions.dependency) { self.conversions.send($0) }
    }
}
