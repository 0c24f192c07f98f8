/// A load under way: the first answer counts, and after it neither the core nor the load is kept.
nonisolated final class FluxLoad<State: FluxState>: Sendable {
    private struct Race {
        var core: FluxStoreCore<State>?
        var task: _Concurrency.Task<Void, Never>?
    }

    /// What the task of the load carries.
    let mark = FluxLoadMark()
    private let lock: FluxLock<Race>

    init(_ core: FluxStoreCore<State>) {
        lock = FluxLock(Race(core: core))
    }

    /// The state of the core; nil once the load is over.
    var initialState: State? {
        lock.withLock { $0.core }?.read { $0.state }
    }

    /// Says which task loads, so that it can be cancelled.
    func isDone(by task: _Concurrency.Task<Void, Never>) {
        let isOver = lock.withLock { race in
            if race.core != nil { race.task = task }
            return race.core == nil
        }
        if isOver { task.cancel() }
    }

    /// Has the core go on, unless it has already.
    func end(_ recovery: FluxRecovery<State>) {
        let (core, task) = lock.withLock { race in (fluxTake(&race.core), fluxTake(&race.task)) }
        guard let core else { return }
        if case .timedOut = recovery.restoration {
            // Before the store goes on, and can save: from here on nothing that the load finds counts.
            mark.void()
            task?.cancel()
        }
        core.restore(recovery)
    }

    /// Goes on without it: from here on nothing that the load finds counts, and it does not keep the core.
    func giveUp() {
        let (core, task) = lock.withLock { race in (fluxTake(&race.core), fluxTake(&race.task)) }
        mark.void()
        task?.cancel()
        // Let go of outside the lock.
        withExtendedLifetime(core) {}
    }
}
