#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxStorage {
    /// Loads the recovery that a store resumes from; waits until the load has ended or the task is cancelled.
    ///
    /// The load runs in its own task, because the user's code may never return, even if it is cancelled. A load that
    /// never returns keeps nothing of the store in memory.
    ///
    /// - Parameters:
    ///   - initialState: The state that the first action of a log without a snapshot is applied to.
    ///   - deadline: Sleeps until the time limit for the load is reached; nil: there is no limit.
    /// - Returns: The recovery that the store resumes from.
    /// - Throws: The error of the load, ``FluxLogGap``, ``FluxLogOverflow``, ``FluxLoadTimeout`` or
    ///   `CancellationError`.
    @usableFromInline
    func load(
        initialState: State, until deadline: (@Sendable () async throws -> Void)? = nil
    ) async throws -> FluxRecovery<State> {
        try _Concurrency.Task.checkCancellation()
        let answer = FluxLoadPromise<FluxRecovery<State>>()
        // Emptied when the wait ends, so that a load that never returns does not keep the state.
        let start = FluxLock(Optional(initialState))
        let loading = _Concurrency.Task { [log, place, rank] in
            do {
                await FluxUnwritten.settle(at: place, before: rank)
                try _Concurrency.Task.checkCancellation()
                let contents = try await FluxUnwritten.run(rank, as: answer.flag) { try await log.current?.load() }
                guard let contents, let initialState = start.withLock({ $0 }) else { return }
                answer.give(.success(try FluxRecovery(contents, initialState: initialState)))
            } catch {
                answer.give(.failure(error))
            }
        }
        let timing = _Concurrency.Task.detached { [loadTimeout] in
            guard let deadline, let loadTimeout, (try? await deadline()) != nil else { return }
            answer.give(.failure(FluxLoadTimeout(limit: loadTimeout)))
        }
        defer {
            loading.cancel()
            timing.cancel()
            _ = start.withLock { Swift.exchange(&$0, with: nil) }
        }
        return try await answer.wait()
    }
}

/// The result of a load that the waiting task may give up on: the first answer counts.
///
/// | answer            | from                                 | what was read |
/// |-------------------|--------------------------------------|---------------|
/// | a value           | the load                             | counts        |
/// | an error          | the load, or its time limit          | is void       |
/// | CancellationError | the waiting task, if it is cancelled | is void       |
nonisolated final class FluxLoadPromise<Value: Sendable>: Sendable {
    let flag: FluxCancellationFlag
    private let latch = FluxLatch()
    private let first = FluxLock<Swift.Result<Value, any Swift.Error>?>(nil)

    /// - Parameter whole: The load that this one is a part of, if any.
    init(partOf whole: FluxCancellationFlag? = nil) { flag = FluxCancellationFlag(partOf: whole) }

    /// Gives the answer, unless there already is one.
    ///
    /// - Parameter answer: The answer.
    /// - Returns: The answer that counts.
    @discardableResult
    func give(_ answer: Swift.Result<Value, any Swift.Error>) -> Swift.Result<Value, any Swift.Error> {
        let counting = first.withLock { first in
            let counting = first ?? answer
            first = counting
            return counting
        }
        // Before the latch opens, because the store then continues and can save.
        if case .failure = counting { flag.void() }
        latch.open()
        return counting
    }

    /// Waits for the answer, or until the task is cancelled.
    func wait() async throws -> Value {
        await latch.wait()
        return try give(.failure(_Concurrency.CancellationError())).get()
    }
}

/// Says whether a load is void: the store did not resume from it, so its result counts as not found.
///
/// The task of the load carries the flag in its ``FluxUnwritten/Scope``, so that it also reaches a ``FluxFile`` inside
/// the user's own persistence.
nonisolated final class FluxCancellationFlag: Sendable {
    private let isSet = FluxLock(false)
    private let whole: FluxCancellationFlag?

    init(partOf whole: FluxCancellationFlag?) { self.whole = whole }

    var isVoid: Bool { isSet.withLock { $0 } || whole?.isVoid ?? false }

    func void() { isSet.withLock { $0 = true } }

    /// Whether both are parts of one load: the user's own persistence may load its file more than once.
    func isPart(with other: FluxCancellationFlag) -> Bool { whole != nil && whole === other.whole }
}
