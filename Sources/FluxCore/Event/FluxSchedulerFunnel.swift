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
nonisolated final class FluxSchedulerFunnel: Sendable {
    /// Something to be decided, or to be done once it is.
    struct Step {
        let body: () -> Void
    }

    private let schedulers: [any FluxScheduler]
    private let steps = FluxLock(FluxInbox<Step>())
    /// Held while schedulers are asked.
    private let deciding = FluxLock(())
    private let effects = FluxLock(FluxInbox<Step>())
    /// The events in flight, by their tasks.
    private let tickets = FluxLock<[ObjectIdentifier: FluxTicket]>([:])

    init(_ schedulers: [any FluxScheduler]) { self.schedulers = schedulers }

    // MARK: - Inputs

    /// Takes in an event, unless it was ended meanwhile; returns whether the caller is to convert it at once.
    func fired(_ ticket: FluxTicket) -> Bool {
        // Who ends it from here on finds the ticket, and takes it out again.
        tickets.withLock { $0[ObjectIdentifier(ticket.task)] = ticket }
        run(Step { if !ticket.task.isSettled { self.tell(ticket, 0) } })
        if let outcome = ticket.task.settledOutcome { ended(ticket.task, outcome) }
        return ticket.place.withLock { place in
            defer { place.start = .gone }
            return place.start == .offered
        }
    }

    /// Asks whether an event whose attempt has failed is tried again.
    ///
    /// - Parameters:
    ///   - task: Its work.
    ///   - error: What it failed with.
    ///   - tell: Tells of that, before the next attempt begins.
    /// - Returns: Whether it is tried again.
    func retries(_ task: FluxTask, _ error: any Error, _ tell: @escaping () -> Void) -> Bool {
        guard let ticket = tickets.withLock({ $0[ObjectIdentifier(task)] }) else { return false }
        var isYes = false
        run(
            Step {
                isYes = self.decide(ticket, error)
                if isYes { self.add(tell) }
            })
        return isYes
    }

    func ended(_ task: FluxTask, _ outcome: FluxTask.Outcome) {
        guard let ticket = tickets.withLock({ $0.removeValue(forKey: ObjectIdentifier(task)) }) else { return }
        run(Step { self.end(ticket, outcome) })
    }

    /// Takes in what is asked of a ticket, with any lock held by the caller.
    func request(_ step: Step) {
        // Not on the queue of the creator: a conversion may block that until it is cancelled.
        if steps.withLock({ $0.put(step) }) { DispatchQueue.global().async { self.run() } }
    }

    // MARK: - Deciding

    private func run(_ step: Step? = nil) {
        if let step { _ = steps.withLock { $0.put(step) } }
        // What was decided is let go of outside the lock: it may be the last reference to an event of the user's.
        var (batch, done): (ContiguousArray<Step>, ContiguousArray<Step>) = ([], [])
        deciding.withLock { _ in
            FluxPureCode.run("a FluxScheduler, or a condition of a rule") {
                while self.steps.withLock({ $0.take(&batch) }) {
                    for step in batch { step.body() }
                    done += batch
                    batch = []
                }
            }
        }
        done = []
        // Who does what was decided does that too which comes meanwhile.
        guard effects.withLock({ $0.claim() }) else { return }
        while effects.withLock({ $0.take(&batch) }) {
            for effect in batch { effect.body() }
            batch.removeAll(keepingCapacity: true)
        }
    }

    /// Hands an event on from where it is.
    func start(_ ticket: FluxTicket, from index: Int) {
        // Of one that has gone on from there it is a second call.
        if index < schedulers.count && ticket.place.withLock({ $0.index }) == index { tell(ticket, index + 1) }
    }

    /// Ends an event because a scheduler says so.
    func finish(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) { add { ticket.task.end(outcome) } }

    /// Hands an event on to the scheduler of an index, or behind the last into its conversion.
    private func tell(_ ticket: FluxTicket, _ index: Int) {
        ticket.place.withLock { $0.index = index }
        if index < schedulers.count { return schedulers[index].fired(ticket) }
        let (attempt, isOffered) = ticket.place.withLock { place in
            place.attempt += 1
            if !ticket.startsAtOnce || place.attempt > 1 || place.start == .gone { return (place.attempt, false) }
            place.start = .offered
            return (1, true)
        }
        if !isOffered { add { ticket.convert(attempt) } }
    }

    private func decide(_ ticket: FluxTicket, _ error: any Error) -> Bool {
        let attempt = ticket.place.withLock { $0.attempt }
        if ticket.task.isClosed { return false }
        // From here on it waits behind the last scheduler.
        ticket.place.withLock { $0.index = schedulers.count - 1 }
        let isYes = schedulers.contains { $0.retries(ticket, attempt: attempt, error) }
        if isYes && ticket.task.retry(after: attempt, error) { return true }
        ticket.place.withLock { $0.index = schedulers.count }
        return false
    }

    private func end(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) {
        let last = ticket.place.withLock { place in
            defer { place.index = .max }
            return place.index
        }
        for scheduler in schedulers.prefix(last == .max ? 0 : last + 1).reversed() { scheduler.ended(ticket, outcome) }
    }

    private func add(_ effect: @escaping () -> Void) { effects.withLock { $0.pending.append(Step(body: effect)) } }
}
