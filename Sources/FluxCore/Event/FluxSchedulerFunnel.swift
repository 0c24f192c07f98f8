import Dispatch

/// Takes what happens to the events of a creator with schedulers through those, one step at a time and in one order.
///
/// Lock, decide, unlock, run: what is asked of tickets is a step too, and what was decided is done by one thread at a time, in
/// the order decided, with no lock held. So a cancel during `fired` cannot leave a ticket behind in a scheduler, and no later
/// event overtakes one that was released and has not started.
///
/// | step      | decided                                                                     |
/// |-----------|-----------------------------------------------------------------------------|
/// | `fired`   | the first scheduler is told                                                 |
/// | `start`   | the next scheduler is told; behind the last, and of a retry: convert        |
/// | `end`     | end it                                                                      |
/// | `retries` | the schedulers are asked; the first yes waits for `start`                   |
/// | `ended`   | those that were told of it are told of its end, the last first              |
@usableFromInline nonisolated final class FluxSchedulerFunnel: Sendable {
    /// Something to be decided; says what is to be done then, without a lock.
    struct Step { let decide: () -> Effect? }

    struct Effect { let body: () -> Void }

    private let schedulers: [any FluxScheduler]
    private let steps = FluxLock(FluxInbox<Step>())
    /// What was decided; held while schedulers are asked.
    private let effects = FluxLock(FluxInbox<Effect>())

    @usableFromInline init(_ schedulers: [any FluxScheduler]) { self.schedulers = schedulers }

    // MARK: - Inputs

    /// Takes in an event, unless it was ended meanwhile; returns whether the caller is to convert it at once.
    @usableFromInline func fired(_ ticket: FluxTicket) -> Bool {
        // First, for it may have ended before this thread comes back from what is decided.
        ticket.task.onEnd { outcome in self.run(Step { self.end(ticket, outcome) }) }
        run(Step { ticket.task.isClosed ? nil : self.tell(ticket, 0) })
        return ticket.place.withLock { place in
            Swift.exchange(&place.isBegunByFire, with: false) && place.index == schedulers.count
        }
    }

    /// Asks whether an event whose attempt has failed is tried again.
    ///
    /// - Parameters:
    ///   - ticket: The event.
    ///   - error: What it failed with.
    ///   - tell: Tells of that, before the next attempt begins.
    /// - Returns: Whether it is tried again.
    func retries(_ ticket: FluxTicket, _ error: any Swift.Error, _ tell: @escaping () -> Void) -> Bool {
        var isYes = false
        let step = Step {
            if ticket.task.isClosed { return nil }
            // From here on it waits behind the last scheduler.
            ticket.place.withLock { $0.index = self.schedulers.count - 1 }
            isYes = self.schedulers.contains { $0.retries(ticket, attempt: ticket.task.attempt, error) }
            let dropped = isYes ? ticket.task.retry(after: error) : nil
            isYes = dropped != nil
            // What is dropped is the user's, and let go of outside the lock.
            if isYes { return Effect { withExtendedLifetime(dropped) { ticket.task.tellRetried(tell) } } }
            ticket.place.withLock { $0.index = self.schedulers.count }
            return nil
        }
        run(step)
        return isYes
    }

    /// Takes in what is asked of a ticket, with any lock held by the caller.
    func request(_ step: Step) {
        // Not on the queue of the creator: a conversion may block that until it is cancelled.
        if steps.withLock({ $0.put(step) }) { DispatchQueue.global().async { self.run() } }
    }

    // MARK: - Deciding

    private func run(_ step: Step? = nil, isMine: Bool = false) {
        if let step { _ = steps.withLock { $0.put(step) } }
        var (batch, decided) = (ContiguousArray<Step>(), ContiguousArray<Step>())
        var todo = ContiguousArray<Effect>()
        let isMine = effects.withLock { effects in
            FluxPureCode.run("a FluxScheduler, or a condition of a rule") {
                var isMine = isMine
                while steps.withLock({ $0.take(&batch) }) {
                    for step in batch { if let effect = step.decide(), effects.put(effect) { isMine = true } }
                    decided += batch
                    batch = []
                }
                return isMine
            }
        }
        // Let go of outside the lock: it may be the last reference to an event of the user's.
        decided = []
        if !isMine { return }
        // Who does what was decided does for a while what comes meanwhile; then it goes on elsewhere, for the thread may be that of
        // somebody who has fired.
        for _ in 0..<FluxLimits.batchesInARow {
            guard effects.withLock({ $0.take(&todo) }) else { return }
            for effect in todo { effect.body() }
            todo.removeAll(keepingCapacity: true)
        }
        DispatchQueue.global().async { self.run(isMine: true) }
    }

    /// Hands an event on from where it is.
    func start(_ ticket: FluxTicket, from index: Int) -> Effect? {
        // Of one that has gone on from there it is a second call.
        let isThere = schedulers.indices.contains(index) && ticket.place.withLock { $0.index } == index
        return isThere ? tell(ticket, index + 1) : nil
    }

    /// Hands an event on to the scheduler of an index, or behind the last into its conversion.
    private func tell(_ ticket: FluxTicket, _ index: Int) -> Effect? {
        let isBegunByFire = ticket.place.withLock { place in
            place.index = index
            return place.isBegunByFire
        }
        if index == schedulers.count { return isBegunByFire ? nil : Effect { ticket.convert(ticket) } }
        schedulers[index].fired(ticket)
        return nil
    }

    private func end(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) -> Effect? {
        let last = ticket.place.withLock { Swift.exchange(&$0.index, with: -1) }
        for scheduler in schedulers.prefix(last + 1).reversed() { scheduler.ended(ticket, outcome) }
        return nil
    }
}
