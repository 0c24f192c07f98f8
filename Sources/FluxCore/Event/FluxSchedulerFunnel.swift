import Dispatch

/// Passes the events of a creator through its schedulers, one step at a time and in one order.
///
/// Lock, decide, unlock, run. A request on a ticket is a step too. One thread at a time carries out the decisions, in
/// the order decided, with no lock held. So a cancel during `fired` cannot leave a ticket behind in a scheduler, and no
/// later event overtakes one whose start was decided but has not been carried out.
///
/// | step      | decided                                                                     |
/// |-----------|-----------------------------------------------------------------------------|
/// | `fired`   | the first scheduler is called                                               |
/// | `start`   | the next scheduler is called; after the last, and for a retry: convert      |
/// | `end`     | end the task                                                                |
/// | `retries` | the schedulers are called until one returns true; `start` comes later       |
/// | `ended`   | the schedulers that the event has reached are called, the last first        |
@usableFromInline nonisolated final class FluxSchedulerFunnel: Sendable {
    /// A decision to make; returns what to do afterwards, without a lock.
    struct Step { let decide: () -> Effect? }

    struct Effect { let body: () -> Void }

    private let schedulers: [any FluxScheduler]
    private let steps = FluxLock(FluxInbox<Step>())
    /// The decisions to carry out; this lock is held while schedulers are called.
    private let effects = FluxLock(FluxInbox<Effect>())

    @usableFromInline init(_ schedulers: [any FluxScheduler]) { self.schedulers = schedulers }

    // MARK: - Inputs

    /// Accepts an event unless it has ended meanwhile; returns whether the caller must convert it at once.
    @usableFromInline func fired(_ ticket: FluxTicket) -> Bool {
        // Registered first: the event may have ended before this thread has carried out the decisions.
        ticket.task.onEnd { outcome in self.process(Step { self.end(ticket, outcome) }) }
        process(Step { ticket.task.isClosed ? nil : self.pass(ticket, to: 0) })
        return ticket.position.withLock { position in
            Swift.exchange(&position.isBegunByFire, with: false) && position.index == schedulers.count
        }
    }

    /// Returns whether an event whose attempt has failed is tried again.
    ///
    /// - Parameters:
    ///   - ticket: The event's ticket.
    ///   - error: The error that the attempt failed with.
    ///   - tell: Reports the failed attempt, before the next one begins.
    /// - Returns: Whether the event is tried again.
    func retries(_ ticket: FluxTicket, _ error: any Swift.Error, _ tell: @escaping () -> Void) -> Bool {
        var isYes = false
        let step = Step {
            if ticket.task.isClosed { return nil }
            // From here on the event is at the last scheduler: the next `start` converts it.
            ticket.position.withLock { $0.index = self.schedulers.count - 1 }
            isYes = self.schedulers.contains { $0.retries(ticket, attempt: ticket.task.attempt, error) }
            let dropped = isYes ? ticket.task.retry(after: error) : nil
            isYes = dropped != nil
            // The dropped values belong to the user and are released outside the lock.
            if isYes { return Effect { withExtendedLifetime(dropped) { ticket.task.tellRetried(tell) } } }
            ticket.position.withLock { $0.index = self.schedulers.count }
            return nil
        }
        process(step)
        return isYes
    }

    /// Accepts a request on a ticket; the caller may hold any lock.
    func request(_ step: Step) {
        // Not on the creator's queue: a conversion may block that until it is cancelled.
        if steps.withLock({ $0.put(step) }) { DispatchQueue.global().async { self.process() } }
    }

    // MARK: - Deciding

    /// Decides all steps that wait, with one that is added; carries out the effects, unless another thread does.
    private func process(_ step: Step? = nil, carriesOut: Bool = false) {
        if let step { _ = steps.withLock { $0.put(step) } }
        var (batch, decided) = (ContiguousArray<Step>(), ContiguousArray<Step>())
        var todo = ContiguousArray<Effect>()
        let carriesOut = effects.withLock { effects in
            FluxPureCode.run("a FluxScheduler, or a condition of a rule") {
                var carriesOut = carriesOut
                while steps.withLock({ $0.take(&batch) }) {
                    for step in batch { if let effect = step.decide(), effects.put(effect) { carriesOut = true } }
                    decided += batch
                    batch = []
                }
                return carriesOut
            }
        }
        // Released outside the lock: these may be the last references to a user's events.
        decided = []
        if !carriesOut { return }
        // The thread that carries out decisions also carries out those that arrive meanwhile, up to a limit. Then
        // another thread continues, because this one may be inside a caller's `fire`.
        for _ in 0..<FluxLimits.batchesInARow {
            guard effects.withLock({ $0.take(&todo) }) else { return }
            for effect in todo { effect.body() }
            todo.removeAll(keepingCapacity: true)
        }
        DispatchQueue.global().async { self.process(carriesOut: true) }
    }

    /// Passes an event on from its position.
    func start(_ ticket: FluxTicket, from index: Int) -> Effect? {
        // If the event has already left that position, this is a second call.
        let isThere = schedulers.indices.contains(index) && ticket.position.withLock { $0.index } == index
        return isThere ? pass(ticket, to: index + 1) : nil
    }

    /// Passes an event to the scheduler at an index or, after the last one, to its conversion.
    private func pass(_ ticket: FluxTicket, to index: Int) -> Effect? {
        let isBegunByFire = ticket.position.withLock { position in
            position.index = index
            return position.isBegunByFire
        }
        if index == schedulers.count { return isBegunByFire ? nil : Effect { ticket.convert(ticket) } }
        schedulers[index].fired(ticket)
        return nil
    }

    private func end(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) -> Effect? {
        let last = ticket.position.withLock { Swift.exchange(&$0.index, with: -1) }
        for scheduler in schedulers.prefix(last + 1).reversed() { scheduler.ended(ticket, outcome) }
        return nil
    }
}
