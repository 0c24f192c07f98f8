import FluxCore
import FluxPersistence
import TestSupport
import Testing

/// Changes other than by an action of the state, in a store that loads and saves: held back, saved, and logged.
@Suite struct ChangesOfAStoreThatLastsTests {
    struct LogOut: FluxAction {}
    struct Undo: FluxAction {}

    let dispatcher = FluxDispatcher()

    private func clearAtLogOut(_ store: FluxStore<Log>, _ body: @escaping @Sendable (inout Log) -> Void) {
        _ = store.handle.route(LogOut.self) { action in
            .other(action) { state in
                body(&state)
                return true
            }
        }
    }

    @Test func `Reactions are held back during the load and applied in order with the actions`() async {
        let (persistence, gate) = (MemoryPersistence(Log(entries: [1])), Gate())
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher, persistence: persistence)
        clearAtLogOut(store) { $0.entries.append(-1) }
        dispatcher.dispatch(action: Counter.Action.add(2))
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

    @Test func `A reaction writes a snapshot to the log, and later actions are appended after it`() async throws {
        let log = MemoryLog<Log>()
        do {
            let store = FluxStore(initialState: Log(), dispatcher: dispatcher, log: log)
            clearAtLogOut(store) { $0.entries = [] }
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

    @Test func `A state that replaces another is saved too`() async {
        let persistence = MemoryPersistence<Log>()
        let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: persistence)
        _ = await store.ready
        store.dispatch(action: .add(1))
        await store.flush()
        store.handle.withAccess { _ = $0.replace(with: Log(entries: [9]), by: Undo()) }
        await store.flush()
        #expect(persistence.current?.entries == [9])
    }

    @Test func `A state that replaces another is recovered from a log, with the actions after it`() async throws {
        let log = MemoryLog<Log>()
        do {
            let store = FluxStore(initialState: Log(), dispatcher: nil, log: log)
            _ = await store.ready
            try await store.dispatch(durably: .add(1))
            try await store.dispatch(durably: .add(2))
            store.handle.withAccess { _ = $0.replace(with: Log(entries: [1]), by: Undo()) }
            try await store.dispatch(durably: .add(3))
        }
        let recovered = try await FluxStore.restored(from: log, initialState: Log(), dispatcher: nil)
        #expect(recovered.state.entries == [1, 3])
        #expect(recovered.revision == 4)
    }

    /// Records the changes that it is notified of.
    final class Watcher: FluxStoreObserver {
        let notes = Recorder<String>()

        func applied(_ change: FluxChange<Log>, _ state: Log, revision: UInt64?) -> (any FluxSettling)? {
            let kind =
                switch change {
                case .action: "action"
                case .other: "other"
                case .replaced: "replaced"
                }
            notes.record("\(kind) \(revision.map { "\($0)" } ?? "-") \(state.entries)")
            return nil
        }
    }

    @Test func `Observers are notified of the loaded state, and of each held-back action as it is applied`() async {
        let (persistence, gate) = (MemoryPersistence(Log(entries: [1])), Gate())
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: persistence)
        let watcher = Watcher()
        store.handle.withAccess { $0.observe(watcher) }
        store.dispatch(action: .add(2))
        store.dispatch(action: .addSilently(2))
        #expect(watcher.notes.values.isEmpty)
        gate.open()
        _ = await store.ready
        #expect(watcher.notes.values == ["replaced 1 [1]", "action 2 [1, 2]", "action - [1, 2]"])
    }

    @Test func `Observers are notified of a durable dispatch`() async throws {
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher, log: MemoryLog<Log>())
        let watcher = Watcher()
        store.handle.withAccess { $0.observe(watcher) }
        try await store.dispatch(durably: .add(1))
        #expect(watcher.notes.values == ["action 1 [1]"])
    }

    @Test func `A released store saves its state and releases its features, whether or not it had loaded`() async {
        for opens in [true, false] {
            let (persistence, gate, gone) = (MemoryPersistence<Log>(), Gate(), Gate())
            persistence.script.block(until: gate)
            if opens { gate.open() }
            do {
                let store = FluxStore(initialState: Log(), dispatcher: nil, persistence: persistence)
                let canary = Canary(gone)
                _ = store.handle.feature(Kept.self) { Kept(canary) }
                store.dispatch(action: .add(1))
                if opens { _ = await store.ready }
            }
            gate.open()
            await gone.opened()
            await persistence.saved.count(1)
            #expect(persistence.saved.values.map(\.entries) == [[1]])
        }
    }

    final class Kept: Sendable {
        let canary: Canary
        init(_ canary: Canary) { self.canary = canary }
    }
}
