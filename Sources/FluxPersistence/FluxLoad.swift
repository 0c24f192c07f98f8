#if canImport(FluxCore)
    import FluxCore
#endif

/// A load under way: the first answer counts, and after it nothing of a store is kept, though the load go on.
///
/// In a task of its own: what the user wrote may never return, whoever cancels it.
nonisolated final class FluxLoad<State: FluxState>: Sendable {
    typealias Answer = Swift.Result<FluxRecovery<State>, any Error>

    /// What the load is for; nil once it is over.
    private struct Purpose {
        let initialState: State
        let tell: @Sendable (Answer) -> Void
    }

    private struct Race {
        var purpose: Purpose?
        var tasks: [_Concurrency.Task<Void, Never>] = []
    }

    private let cancellation = FluxLoadCancellation()
    private let race: FluxLock<Race>

    /// Begins to load.
    ///
    /// - Parameters:
    ///   - storage: Where from.
    ///   - initialState: What the first action of a log without a snapshot is applied to.
    ///   - tell: Gets what the load has come to, unless it is given up before.
    init(_ storage: FluxStorage<State>, initialState: State, _ tell: @escaping @Sendable (Answer) -> Void) {
        race = FluxLock(Race(purpose: Purpose(initialState: initialState, tell: tell)))
        cancelAtTheEnd(
            _Concurrency.Task {
                do {
                    let recovery = try await FluxLoadCancellation.$current.withValue(cancellation) {
                        try await load(storage)
                    }
                    if let recovery { end(.success(recovery)) }
                } catch {
                    end(.failure(error))
                }
            })
    }

    /// Goes on without it from a moment on.
    ///
    /// - Parameters:
    ///   - deadline: Sleeps until then.
    ///   - error: Says why.
    func giveUp(after deadline: @escaping @Sendable () async throws -> Void, _ error: any Error) {
        cancelAtTheEnd(
            _Concurrency.Task.detached {
                do { try await deadline() } catch { return }
                self.giveUp(error)
            })
    }

    /// Goes on without it: from here on nothing that the load finds counts.
    func giveUp(_ error: any Error) {
        end(.failure(error)) { self.cancellation.cancel() }
    }

    /// - Parameters:
    ///   - answer: What it has come to, unless there was an answer before.
    ///   - prepare: Comes before the store goes on, and can save.
    private func end(_ answer: Answer, preparing prepare: () -> Void = {}) {
        var over = Race()
        race.withLock { swap(&over, &$0) }
        guard let purpose = over.purpose else { return }
        prepare()
        for task in over.tasks { task.cancel() }
        purpose.tell(answer)
    }

    private func cancelAtTheEnd(_ task: _Concurrency.Task<Void, Never>) {
        let isOver = race.withLock { race in
            if race.purpose != nil { race.tasks.append(task) }
            return race.purpose == nil
        }
        if isOver { task.cancel() }
    }

    /// Asks for what is stored; nil where nobody goes on from it.
    private func load(_ storage: FluxStorage<State>) async throws -> FluxRecovery<State>? {
        switch storage {
        case .persistence(let persistence): return try await FluxRecovery(state: persistence.load())
        case .log(let log):
            let contents = try await log.load()
            // Asked for afterwards, so that a load that is given up on does not keep it.
            return try race.withLock { $0.purpose?.initialState }.map { try FluxRecovery(contents, initialState: $0) }
        }
    }
}

nonisolated extension FluxRecovery {
    /// Loads for a store that is not there yet, and waits for that, or until the task is cancelled.
    ///
    /// - Parameters:
    ///   - storage: Where from.
    ///   - initialState: What the first action of a log without a snapshot is applied to.
    /// - Returns: What to go on from.
    /// - Throws: What the load throws, ``FluxLogGap``, or `CancellationError`.
    @usableFromInline
    static func load(from storage: FluxStorage<State>, initialState: State) async throws -> FluxRecovery {
        try _Concurrency.Task.checkCancellation()
        let promise = FluxStoragePromise<FluxRecovery>()
        let load = FluxLoad(storage, initialState: initialState) { promise.keep($0) }
        if let result = await promise.wait() { return try result.get() }
        load.giveUp(_Concurrency.CancellationError())
        throw _Concurrency.CancellationError()
    }
}

/// Says whether a store has given up on a load: then what that has found counts as not found.
///
/// The load's task carries it, so that it also reaches a ``FluxFile`` behind a persistence of one's own.
nonisolated final class FluxLoadCancellation: Sendable {
    /// That of the load whose task, or a task of which, is running.
    @TaskLocal static var current: FluxLoadCancellation?

    private let lock = FluxLock(false)
    /// The load that this one is a part of, if any.
    private let whole: FluxLoadCancellation?

    init(partOf whole: FluxLoadCancellation? = nil) {
        self.whole = whole
    }

    var isCancelled: Bool { lock.withLock { $0 } || whole?.isCancelled ?? false }

    /// Cancels the load for good.
    func cancel() {
        lock.withLock { $0 = true }
    }
}

/// What work elsewhere has come to, for a task that may give up waiting for it.
nonisolated final class FluxStoragePromise<Value: Sendable>: Sendable {
    private let latch = FluxLatch()
    private let result = FluxLock<Swift.Result<Value, any Error>?>(nil)

    init() {
        latch.enter()
    }

    func keep(_ answer: Swift.Result<Value, any Error>) {
        result.withLock { $0 = answer }
        latch.leave()
    }

    /// Waits for the answer; nil: the task that waits was cancelled before there was one.
    func wait() async -> Swift.Result<Value, any Error>? {
        await latch.wait()
        return result.withLock { $0 }
    }

    /// Waits for the answer, also in a task that is cancelled.
    func waitToTheEnd() async throws -> Value? {
        await latch.waitToTheEnd()
        return try result.withLock { $0 }?.get()
    }
}
