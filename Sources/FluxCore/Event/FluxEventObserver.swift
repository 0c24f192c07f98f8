/// An observer of the events whose actions go to a dispatcher or a store.
///
/// If a creator has schedulers, its other events may have to wait with their start, retry or end until `retried` or
/// `ended` has returned; conversions that already run continue. Be quick there, and wait for none of those events.
///
/// Thread safety: called on any thread, on several at once, with no lock held.
nonisolated public protocol FluxEventObserver: Sendable {
    /// Called when an event has been fired, before its conversion begins.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - task: Its task.
    func fired(_ event: any FluxEvent, _ task: FluxTask)

    /// Called when a conversion has failed and will be tried again, on the observers that are present at that time.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - attempt: The attempt that failed, counted from 1.
    ///   - error: The error that it failed with.
    ///   - task: The event's task.
    func retried(_ event: any FluxEvent, attempt: Int, _ error: any Swift.Error, _ task: FluxTask)

    /// Called when an event has ended; code that awaits its outcome learns it once this has returned.
    ///
    /// An observer that was notified of `fired` is notified of the end, even if it was removed in between. If the event
    /// was cancelled, its conversion may still be running, but it sends nothing any more. If the event ends while
    /// `fired` is still being called, the outcome may be known earlier.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - outcome: How the event ended.
    ///   - task: Its task.
    func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask)
}

nonisolated extension FluxEventObserver {
    /// Does nothing.
    public func fired(_ event: any FluxEvent, _ task: FluxTask) {}

    /// Does nothing.
    public func retried(_ event: any FluxEvent, attempt: Int, _ error: any Swift.Error, _ task: FluxTask) {}

    /// Does nothing.
    public func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask) {}
}
