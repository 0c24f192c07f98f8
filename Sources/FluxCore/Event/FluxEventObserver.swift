/// Who is told of the events whose actions go to a dispatcher or a store.
///
/// Of a creator with schedulers nothing is done about its other events before `retried` or `ended` has returned: be quick, and wait
/// for none of them.
///
/// Thread safety: called on any thread, on several at once, with no lock held.
nonisolated public protocol FluxEventObserver: Sendable {
    /// An event was fired, and has not begun.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - task: Its work.
    func fired(_ event: any FluxEvent, _ task: FluxTask)

    /// A conversion has failed, and will be tried again; told to whoever is there by then.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - attempt: The attempt that failed, counted from 1.
    ///   - error: What it failed with.
    ///   - task: Its work.
    func retried(_ event: any FluxEvent, attempt: Int, _ error: any Swift.Error, _ task: FluxTask)

    /// An event has ended; its outcome is known to whoever awaits it once this has returned.
    ///
    /// Told to those who were told that it was fired, though removed meanwhile. Of one that is cancelled the conversion may still run,
    /// though it sends nothing any more; and while `fired` is being told of it the outcome may be known before.
    ///
    /// - Parameters:
    ///   - event: The event.
    ///   - outcome: How.
    ///   - task: Its work.
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
