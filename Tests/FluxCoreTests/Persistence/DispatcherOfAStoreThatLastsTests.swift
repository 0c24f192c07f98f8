import FluxCore
import Testing

/// A store that loads and saves, behind a dispatcher: reactions, middleware, hooks and histories.
@Suite struct DispatcherOfAStoreThatLastsTests {
    let dispatcher = FluxDispatcher()

    @Test func `Reactions are held back during the load, and applied in their place`() async {
        let (persistence, gate) = (MemoryPersistence(Log(entries: [1])), Gate())
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher, persistence: persistence)
        store.on(LogOut.self) { state, _ in state.entries.append(-1) }
        dispatcher.add(2)
        #expect(dispatcher.dispatch(action: LogOut()) == 0)
        store.dispatch(action: .add(3))
        #expect(store.state.entries.isEmpty)
        gate.open()
        _ = await store.ready
        #expect(store.state.entries == [1, 2, -1, 3])
        #expect(store.revision == 4)
        await store.flush()
        #expect(persistence.saved.values.last?.entries == [1, 2, -1, 3])
    }

    @Test func `A reaction puts a snapshot into a log, and actions go on after it`() async throws {
        let log = MemoryLog<Log>()
        do {
            let store = FluxStore(initialState: Log(), dispatcher: dispatcher, log: log)
            store.on(LogOut.self) { state, _ in state.entries = [] }
            try await store.dispatch(durably: .add(1))
            dispatcher.dispatch(action: LogOut())
            await store.flush()
            #expect(log.contents.snapshot?.state.entries == [])
            try await store.dispatch(durably: .add(2))
        }
        let recovered = try await FluxStore.restored(from: log, initialState: Log(), dispatcher: nil)
        #expect(recovered.state.entries == [2])
        #expect(recovered.revision == 3)
    }

    @Test func `Middleware sees an action when it is dispatched, and what it makes of it is what is kept`() async throws
    {
        let (log, gate) = (MemoryLog<Log>(), Gate())
        log.script.block(until: gate)
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher, log: log)
        let counts = Recorder<Int>()
        dispatcher.add(
            .on(Counter.Action.self) { action, next in
                if case .add(0) = action { return }
                counts.record(next.changes(by: Counter.Action.add(10)).count + next(Counter.Action.add(20)))
            })
        store.add(.on(Counter.Action.self) { action, next in if case .add(20) = action { next(action) } })
        for number in 0...1 { dispatcher.add(number) }
        gate.open()
        _ = await store.ready
        dispatcher.add(2)
        #expect(counts.values == [0, 1], "held back, then applied")
        #expect(store.state.entries == [20, 20])
        log.script.block(until: nil)
        await store.flush()
        let recovered = try await FluxStore.restored(from: log, initialState: Log(), dispatcher: nil)
        #expect(recovered.state.entries == [20, 20])
    }

    @Test func `Hooks of the store are told of what was held back when it is applied`() async {
        let (persistence, gate) = (MemoryPersistence(Log(entries: [1])), Gate())
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: persistence)
        let watcher = Watcher()
        store.watch(watcher)
        store.dispatch(action: .add(2))
        store.dispatch(action: .addSilently(2))
        #expect(watcher.notes.values == [.dispatched(nil), .dispatched(nil)])
        gate.open()
        _ = await store.ready
        #expect(watcher.notes.values.suffix(2) == [.applied(revision: 2), .applied(revision: nil)])
    }

    @Test func `A durable dispatch is told to hooks and subscribers of actions, and recorded`() async throws {
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher, log: MemoryLog<Log>())
        let (watcher, seen) = (Watcher(), Recorder<UInt64?>())
        store.watch(watcher)
        let history = FluxHistory(store, limit: 3)
        let token = dispatcher.subscribeActions { seen.record($0.revision) }
        try await store.dispatch(durably: .add(1))
        await seen.count(1)
        #expect(watcher.notes.values == [.dispatched(nil), .applied(revision: 1)])
        #expect(seen.values == [1] && history.entries.count == 1)
        token.unsubscribe()
    }

    // MARK: - History

    @Test func `What is undone is saved too`() async {
        let persistence = MemoryPersistence<Log>()
        let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: persistence)
        _ = await store.ready
        let history = FluxHistory(store, limit: 10)
        store.dispatch(action: .add(1))
        store.dispatch(action: .add(2))
        await store.flush()
        history.undo()
        await store.flush()
        #expect(persistence.current?.entries == [1])
    }

    @Test func `A log has what was undone as a snapshot, and later actions go on after it`() async throws {
        let log = MemoryLog<Log>()
        do {
            let store = FluxStore(initialState: Log(), dispatcher: nil, log: log)
            _ = await store.ready
            let history = FluxHistory(store, limit: 10)
            try await store.dispatch(durably: .add(1))
            try await store.dispatch(durably: .add(2))
            history.undo()
            try await store.dispatch(durably: .add(3))
        }
        let recovered = try await FluxStore.restored(from: log, initialState: Log(), dispatcher: nil)
        #expect(recovered.state.entries == [1, 3])
        #expect(recovered.revision == 4)
    }

    @Test func `A history that was begun before the load goes back to what was loaded, not behind it`() async {
        let (persistence, gate) = (MemoryPersistence(Log(entries: [1])), Gate())
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: persistence)
        let history = FluxHistory(store, limit: 10)
        store.dispatch(action: .add(2))
        #expect(history.undo() == nil && history.jump(to: 0) == nil, "nothing has been applied")
        gate.open()
        _ = await store.ready
        #expect(history.start.entries == [1])
        #expect(history.replay().map(\.entries) == [[1, 2]])
        #expect(history.undo() == 3 && history.undo() == nil)
        #expect(store.state.entries == [1])
    }
}
