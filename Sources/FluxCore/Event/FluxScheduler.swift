/// Decides when an event is run: at once, later, in a row, instead of another, again, or never.
///
/// Schedulers of a creator stand one behind the other. An event comes to the first when it is fired; `ticket.start()` hands it
/// on to the next, and behind the last it is converted. Without a scheduler events are converted at once and in order.
///
/// ```swift
/// final class Pausable: FluxScheduler {
///     let held = FluxLock<[FluxTicket]?>(nil)  // nil: running
///     func fired(_ ticket: FluxTicket) {
///         if !held.withLock({ $0?.append(ticket) != nil }) { ticket.start() }
///     }
///     func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) {
///         held.withLock { $0?.removeAll { $0 === ticket } }
///     }
///     func pause() { held.withLock { $0 = $0 ?? [] } }
///     func resume() { for ticket in held.withLock({ Swift.exchange(&$0, with: nil) }) ?? [] { ticket.start() } }
/// }
/// ```
///
/// One may serve creators of many event types. Of each creator its functions are called one at a time, in one order: `fired` before
/// all else of a ticket, and `ended` last and once. They decide and enqueue, and may use no store, dispatcher or creator.
///
/// Thread safety: called on any thread; of several creators on several at once.
nonisolated public protocol FluxScheduler: AnyObject, Sendable {
    /// An event has come to this scheduler; it is in flight from `fire` on.
    ///
    /// - Parameter ticket: To start it, drop it or cancel it, now or later.
    func fired(_ ticket: FluxTicket)

    /// A conversion has failed: it may be tried again, by `ticket.start()` later.
    ///
    /// - Parameters:
    ///   - ticket: The event.
    ///   - attempt: The attempt that failed, counted from 1.
    ///   - error: What it failed with.
    /// - Returns: Whether this scheduler starts it again; else the next one is asked, and behind the last it has failed.
    func retries(_ ticket: FluxTicket, attempt: Int, _ error: any Swift.Error) -> Bool

    /// An event has ended that came to this scheduler, and no action of it is being dispatched; its outcome is known after this.
    ///
    /// - Parameters:
    ///   - ticket: The event.
    ///   - outcome: How it ended.
    func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome)
}

nonisolated extension FluxScheduler {
    /// By default nothing is tried again.
    public func retries(_ ticket: FluxTicket, attempt: Int, _ error: any Swift.Error) -> Bool { false }

    /// By default the end of an event changes nothing.
    public func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) {}
}

/// An event on its way through the schedulers of its creator.
///
/// What is asked of it is enqueued and done soon, so that it may be asked for under a scheduler's own lock.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxTicket: Sendable {
    /// Where an event stands; changed by the funnel alone, one step at a time.
    struct Place {
        /// The scheduler it has come to, -1 before the first and after the end; behind the last it is being converted.
        var index = -1
        /// Whether the thread that fires begins it, as long as that has not returned.
        var isBegunByFire: Bool
    }

    /// The event that was fired.
    public let event: any FluxEvent
    /// Its work.
    public let task: FluxTask
    let place: FluxLock<Place>
    /// Converts it, as the attempt that its task is at.
    let convert: @Sendable (FluxTicket) -> Void
    let funnel: FluxSchedulerFunnel

    @usableFromInline init(
        _ event: any FluxEvent, _ task: FluxTask, _ funnel: FluxSchedulerFunnel, isBegunByFire: Bool,
        convert: @escaping @Sendable (FluxTicket) -> Void
    ) {
        (self.event, self.task, self.funnel, self.convert) = (event, task, funnel, convert)
        place = FluxLock(Place(isBegunByFire: isBegunByFire))
    }

    /// Has the event go on: to the next scheduler, or into its conversion.
    ///
    /// A scheduler calls it once for each `fired`, and once for each time that it says yes in `retries`. Of an event that has ended
    /// it does nothing.
    public func start() {
        let index = place.withLock { $0.index }
        funnel.request(FluxSchedulerFunnel.Step { self.funnel.start(self, from: index) })
    }

    /// Ends the event as one that never started; one that has started is cancelled.
    public func drop() { end(.dropped) }

    /// Cancels the event, as ``FluxTask/cancel()`` does.
    public func cancel() { end(.cancelled) }

    private func end(_ outcome: FluxTask.Outcome) {
        funnel.request(FluxSchedulerFunnel.Step { FluxSchedulerFunnel.Effect { self.task.end(outcome) } })
    }
}
