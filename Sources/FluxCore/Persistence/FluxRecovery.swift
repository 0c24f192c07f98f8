/// What a store goes on from: the state that was stored, or the initial one.
nonisolated struct FluxRecovery<State: FluxState>: Sendable {
    let restoration: FluxRestoration
    /// The state that was stored; nil: the initial one stays.
    var state: State?
    /// The revision of that state.
    var revision: UInt64 = 0
    /// The number of the last action in the log.
    var number: UInt64 = 0
    /// The number of the log's snapshot, if it has one.
    var snapshot: UInt64?

    init(_ restoration: FluxRestoration) {
        self.restoration = restoration
    }

    /// Goes on from what a persistence has loaded; its state is the first change that the store announces.
    init(state: State?) {
        restoration = state == nil ? .empty : .restored
        self.state = state
        revision = state == nil ? 0 : 1
    }

    /// Goes on from a snapshot and the actions after it.
    ///
    /// - Parameters:
    ///   - contents: What a log has loaded.
    ///   - initialState: What its first action was applied to if there is no snapshot.
    /// - Throws: ``FluxLogGap`` where an action is missing.
    init(_ contents: FluxLogContents<State>, initialState: State) throws(FluxLogGap) {
        let snapshot = contents.snapshot
        let isEmpty = snapshot == nil && contents.entries.isEmpty
        self.init(isEmpty ? .empty : .restored)
        if isEmpty { return }
        self.snapshot = snapshot?.number
        number = snapshot?.number ?? 0
        revision = snapshot?.revision ?? 0
        var state = snapshot?.state ?? initialState
        // As in a store: a `handle` that dispatches has to stop here too, or it would do so for the first time in a
        // recovery.
        let thread = FluxThreads.shared.current
        thread.pointee.handling = UnsafeRawPointer(bitPattern: 1)
        defer { thread.pointee.handling = nil }
        // An append that was reported as failed may be there twice, and a snapshot may have been taken after it.
        for entry in contents.entries where entry.number > number {
            guard entry.number == number + 1 else { throw FluxLogGap(expected: number + 1, found: entry.number) }
            number = entry.number
            if let next = state.handle(action: entry.action) {
                state = next
                revision &+= 1
            }
        }
        self.state = state
        // It is announced, so it has a number, even if no action that led to it was.
        revision = max(revision, 1)
    }
}

nonisolated extension FluxWriting {
    /// Goes on where a log has ended; one that could not be read is not written to.
    mutating func start<State>(from recovery: FluxRecovery<State>) {
        guard isLog else { return }
        switch recovery.restoration {
        case .loading, .timedOut, .failed: close()
        case .restored, .empty: resume(at: recovery.number, snapshot: recovery.snapshot)
        }
    }
}

nonisolated extension FluxKeeper {
    /// Asks the persistence or the log for what is stored.
    ///
    /// - Parameter initialState: Asked for afterwards, so that a load that is given up on does not keep it; nil then.
    /// - Returns: What to go on from; nil where nobody goes on from it.
    /// - Throws: What the load throws, or ``FluxLogGap``.
    func load(initialState: () -> State?) async throws -> FluxRecovery<State>? {
        switch storage {
        case .persistence(let persistence): return try await FluxRecovery(state: persistence.load())
        case .log(let log):
            let contents = try await log.load()
            return try initialState().map { try FluxRecovery(contents, initialState: $0) }
        }
    }

    /// Loads for a core that nobody else knows, and waits for that, or until the task is cancelled.
    ///
    /// In a task of its own: what the user wrote may never return, whoever cancels it.
    ///
    /// - Parameter core: Whose initial state it goes on from; not kept by a load that is given up on.
    /// - Returns: What to go on from.
    /// - Throws: What the load throws, ``FluxLogGap``, or `CancellationError`.
    func load(_ core: Core) async throws -> FluxRecovery<State> {
        try _Concurrency.Task.checkCancellation()
        let load = FluxLoad(core)
        let answer = FluxAnswer<FluxRecovery<State>>()
        load.isDone(
            by: _Concurrency.Task {
                do {
                    let recovery = try await FluxLoadMark.$current.withValue(load.mark) {
                        try await self.load(initialState: { load.initialState })
                    }
                    if let recovery { answer.give(.success(recovery)) }
                } catch {
                    answer.give(.failure(error))
                }
            })
        if let result = await answer.wait() { return try result.get() }
        load.giveUp()
        throw _Concurrency.CancellationError()
    }

    /// Loads, and has the core go on from what comes first, an answer or the end of the time for it.
    func startLoading(_ core: FluxStoreCore<State>) {
        let load = FluxLoad(core)
        let keeping = keeping
        let alarm = keeping.loadTimeout.map { timeout in
            let end = FluxDeadline(in: timeout, on: keeping.clock)
            return _Concurrency.Task.detached {
                do { try await end.reached() } catch { return }
                load.end(FluxRecovery(.timedOut))
            }
        }
        load.isDone(
            by: _Concurrency.Task.detached {
                do {
                    let recovery = try await FluxLoadMark.$current.withValue(load.mark) {
                        try await self.load(initialState: { load.initialState })
                    }
                    if let recovery { load.end(recovery) }
                } catch {
                    load.end(FluxRecovery(.failed(error)))
                }
                alarm?.cancel()
            })
    }
}
