#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxStorage {
    /// Loads what a store goes on from, and waits for that, or until the task is cancelled.
    ///
    /// In a task of its own: what the user wrote may never return, whoever cancels it, and keeps nothing of the store then.
    ///
    /// - Parameters:
    ///   - initialState: What the first action of a log without a snapshot is applied to.
    ///   - deadline: Sleeps until the time for the load is up; nil: there is no end to it.
    /// - Returns: What to go on from.
    /// - Throws: What the load throws, ``FluxLogGap``, ``FluxLogOverflow``, ``FluxLoadTimeout`` or `CancellationError`.
    @usableFromInline
    func load(
        initialState: State, until deadline: (@Sendable () async throws -> Void)? = nil
    ) async throws -> FluxRecovery<State> {
        try _Concurrency.Task.checkCancellation()
        let answer = FluxLoadPromise<FluxRecovery<State>>()
        // Kept by whoever waits for the load, and not by the load.
        let start = FluxLock(Optional(initialState))
        let loading = _Concurrency.Task { [log, place, path] in
            do {
                await FluxUnwritten.settle(at: place, before: path)
                try _Concurrency.Task.checkCancellation()
                let contents = try await FluxUnwritten.run(path, as: answer.mark) { try await log.current?.load() }
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

/// What a load comes to, for one who may give up on it: of the answers the first counts.
///
/// | answer             | from                                | what was read |
/// |--------------------|-------------------------------------|---------------|
/// | a value            | the load                            | counts        |
/// | an error           | the load, or the end of its time    | is void       |
/// | CancellationError  | whoever waits, in a cancelled task  | is void       |
nonisolated final class FluxLoadPromise<Value: Sendable>: Sendable {
    let mark: FluxCancellationFlag
    private let latch = FluxLatch()
    private let first = FluxLock<Swift.Result<Value, any Swift.Error>?>(nil)

    /// - Parameter whole: The load that this one is a part of, if any.
    init(partOf whole: FluxCancellationFlag? = nil) { mark = FluxCancellationFlag(partOf: whole) }

    /// Answers, unless there is an answer.
    ///
    /// - Parameter answer: The answer.
    /// - Returns: The one that counts.
    @discardableResult
    func give(_ answer: Swift.Result<Value, any Swift.Error>) -> Swift.Result<Value, any Swift.Error> {
        let counting = first.withLock { first in
            let counting = first ?? answer
            first = counting
            return counting
        }
        // Before the store goes on, and can save.
        if case .failure = counting { mark.void() }
        latch.open()
        return counting
    }

    /// Waits for the answer, or until the task is cancelled.
    func wait() async throws -> Value {
        await latch.wait()
        return try give(.failure(_Concurrency.CancellationError())).get()
    }
}

/// Says whether a store has not gone on from a load: then what that has found counts as not found.
///
/// The load's task carries it, in its ``FluxUnwritten/Scope``, so that it also reaches a ``FluxFile`` behind a persistence of one's own.
nonisolated final class FluxCancellationFlag: Sendable {
    private let isSet = FluxLock(false)
    private let whole: FluxCancellationFlag?

    init(partOf whole: FluxCancellationFlag?) { self.whole = whole }

    var isVoid: Bool { isSet.withLock { $0 } || whole?.isVoid ?? false }

    func void() { isSet.withLock { $0 = true } }

    /// Whether both are parts of one load: a persistence of one's own may look at its file more than once.
    func isPart(with other: FluxCancellationFlag) -> Bool { whole != nil && whole === other.whole }
}
