/// Decides when an event runs: at once, later, after another, instead of another, again, or never.
///
/// The schedulers of a creator form a chain. The first receives an event when it is fired; `ticket.start()` passes the
/// event to the next, and after the last the event is converted. Without a scheduler, events are converted at once and
/// in order.
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
///     func resume() {
///         _ = held.withLock { held in  // keeps later events behind these
///             for ticket in held ?? [] { ticket.start() }
///             return Swift.exchange(&held, with: nil)  // released once the lock is free
///         }
///     }
/// }
/// ```
///
/// A scheduler may serve creators of many event types. For each creator, its functions are called one at a time, in one
/// order: for a ticket, `fired` comes first, and `ended` last and once. They decide and enqueue, and may use no store,
/// dispatcher or creator.
///
/// Thread safety: called on any thread; with several creators, on several threads at once.
nonisolated public protocol FluxScheduler: AnyObject, Sendable {
    /// Called when an event has reached this scheduler; the event has been in flight since `fire`.
    ///
    /// - Parameter ticket: The ticket to start, drop or cancel the event with, now or later.
    func fired(_ ticket: FluxTicket)

    /// Called when a conversion has failed, to decide whether `ticket.start()` will try it again later.
    ///
    /// - Parameters:
    ///   - ticket: The event's ticket.
    ///   - attempt: The attempt that failed, counted from 1.
    ///   - error: The error that it failed with.
    /// - Returns: Whether this scheduler will start the event again. If not, the next scheduler is called; after the
    ///   last one, the event has failed.
    func retries(_ ticket: FluxTicket, attempt: Int, _ error: any Swift.Error) -> Bool

    /// Called when an event that reached this scheduler has ended, and none of its actions is being dispatched.
    ///
    /// The outcome of the event becomes known after this call.
    ///
    /// - Parameters:
    ///   - ticket: The event's ticket.
    ///   - outcome: How the event ended.
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
/// Its functions enqueue a request, which is carried out afterwards. A scheduler may therefore call them while holding
/// its own lock.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxTicket: Sendable {
    /// The position of an event; only the funnel changes it, one step at a time.
    struct Position {
        /// The scheduler that the event has reached; -1 before the first and after the end.
        ///
        /// The index after the last scheduler means that the event is being converted.
        var index = -1
        /// Whether the firing thread begins the conversion; true only until that thread returns from the funnel.
        var isBegunByFire: Bool
    }

    /// The event that was fired.
    public let event: any FluxEvent
    /// The event's task.
    public let task: FluxTask
    let position: FluxLock<Position>
    /// Converts the event, as the current attempt of its task.
    let convert: @Sendable (FluxTicket) -> Void
    let funnel: FluxSchedulerFunnel

    @usableFromInline init(
        _ event: any FluxEvent, _ task: FluxTask, _ funnel: FluxSchedulerFunnel, isBegunByFire: Bool,
        convert: @escaping @Sendable (FluxTicket) -> Void
    ) {
        (self.event, self.task, self.funnel, self.convert) = (event, task, funnel, convert)
        position = FluxLock(Position(isBegunByFire: isBegunByFire))
    }

    /// Passes the event on to the next scheduler or, after the last one, starts its conversion.
    ///
    /// A scheduler calls it once for each `fired`, and once each time it returns true from `retries`. Does nothing if
    /// the event has ended.
    public func start() {
        let index = position.withLock { $0.index }
        funnel.request(FluxSchedulerFunnel.Step { self.funnel.start(self, from: index) })
    }

    /// Drops the event if it has not started; otherwise cancels it.
    public func drop() { end(.dropped) }

    /// Cancels the event, as ``FluxTask/cancel()`` does.
    public func cancel() { end(.cancelled) }

    private func end(_ outcome: FluxTask.Outcome) {
        funnel.request(FluxSchedulerFunnel.Step { FluxSchedulerFunnel.Effect { self.task.end(outcome) } })
    }
}
