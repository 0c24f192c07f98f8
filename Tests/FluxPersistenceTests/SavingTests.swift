import FluxCore
import FluxPersistence
import TestSupport
import Testing

/// A state is saved after it has changed: one save at a time, always of the newest state, and none is silently dropped.
@Suite struct SavingTests {
    @Test func `A change is followed by a save, and flush waits for it`() async {
        let persistence = MemoryPersistence<Counter>()
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(persistence.current?.count == 1)
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(persistence.current?.count == 2)
        #expect(persistence.script.overlaps == 0)
    }

    @Test func `Nothing is saved before the load has ended or without a change`() async {
        let persistence = MemoryPersistence(Counter(count: 1))
        let gate = Gate()
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        await persistence.script.calls.count(1)
        gate.open()
        await store.flush()
        #expect(persistence.script.calls.values == ["load"])
    }

    @Test func `Changes during a save lead to one more save, of the newest state`() async {
        let persistence = MemoryPersistence<Counter>()
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        _ = await store.ready
        let gate = Gate()
        persistence.script.block(until: gate)
        store.dispatch(action: .add(1))
        await persistence.script.calls.count(2)
        for _ in 0..<1_000 { store.dispatch(action: .add(1)) }
        gate.open()
        await store.flush()
        #expect(persistence.saved.values.map(\.count) == [1, 1_001])
    }

    @Test func `An unannounced change is saved with the next announced one`() async {
        let persistence = MemoryPersistence<Counter>()
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        store.dispatch(action: .addSilently(5))
        await store.flush()
        #expect(persistence.saved.values.isEmpty)
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(persistence.current?.count == 6)
    }

    @Test func `A failed save is reported and retried after growing pauses, with the newest state`() async {
        let persistence = MemoryPersistence<Counter>()
        let (clock, failures) = (TestClock(), Recorder<FluxPersistenceFailure>())
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence,
            backoff: .exponential(.seconds(1)), clock: clock, onFailure: { failures.record($0) })
        _ = await store.ready
        persistence.script.refuse(3)
        store.dispatch(action: .add(1))
        for seconds in [1, 2, 4] {
            await clock.sleepers(1)
            store.dispatch(action: .add(1))
            clock.advance(by: .seconds(seconds))
        }
        await store.flush()
        #expect(failures.values.map(\.operation) == [.save, .save, .save])
        #expect(failures.values.map(\.attempt) == [1, 2, 3])
        #expect(failures.values.map(\.retryAfter) == [.seconds(1), .seconds(2), .seconds(4)])
        #expect(persistence.saved.values.map(\.count) == [4])
    }

    @Test func `By default a failed save is retried after at most 5 seconds, however often it has failed`() async {
        let persistence = MemoryPersistence<Counter>()
        let (clock, failures) = (TestClock(), Recorder<FluxPersistenceFailure>())
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence, clock: clock,
            onFailure: { failures.record($0) })
        _ = await store.ready
        persistence.script.refuse(10)
        store.dispatch(action: .add(1))
        for _ in 0..<10 {
            await clock.sleepers(1)
            clock.advance(by: .seconds(60))
        }
        await store.flush()
        #expect(failures.values.compactMap(\.retryAfter).max() == .seconds(5))
        #expect(persistence.saved.values.map(\.count) == [1])
    }

    private final class PuttingOff: FluxStoreObserver {
        let finish = FluxLock<(@Sendable () -> Void)?>(nil)

        func ending(_ finish: @escaping @Sendable () -> Void) -> Bool {
            self.finish.withLock { $0 = finish }
            return true
        }

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
    }

    @Test
    func `If an observer delays the end of a released store, failure() reports only later changes`() async throws {
        let persistence = MemoryPersistence<Counter>()
        var store = Optional(FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence))
        let handle = try #require(store?.handle)
        let last = PuttingOff()
        handle.withAccess { $0.observe(last) }
        store?.dispatch(action: .add(1))
        await store?.flush()
        store = nil
        #expect(await handle.failure() == nil)
        _ = handle.withAccess { $0.apply(.action(.add(1))) }
        let error = await handle.failure().map { "\($0)" }
        #expect(error == "nothing is written any more, because the store was released")
        let finish = try #require(last.finish.withLock { $0 })
        finish()
        #expect(persistence.saved.values.map(\.count) == [1])
    }

    @Test func `Releasing the store saves pending changes, even after a failed save`() async {
        let persistence = MemoryPersistence<Counter>()
        let (clock, failures) = (TestClock(), Recorder<FluxPersistenceFailure>())
        do {
            let store = FluxStore(
                initialState: Counter(), dispatcher: nil, persistence: persistence, backoff: .constant(.seconds(1)),
                clock: clock, onFailure: { failures.record($0) })
            _ = await store.ready
            persistence.script.refuse(1)
            store.dispatch(action: .add(1))
        }
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        await persistence.saved.count(1)
        #expect(persistence.current?.count == 1)
        #expect(failures.values.count == 1)
    }

    @Test func `A released store releases its persistence once everything is saved`() async {
        let gone = Gate()
        do {
            let persistence = OwningPersistence(canary: Canary(gone))
            let store = FluxStore(initialState: Counter(), dispatcher: FluxDispatcher(), persistence: persistence)
            store.dispatch(action: .add(1))
            await store.flush()
        }
        await gone.opened()
    }

    @Test func `A cancelled flush returns, and the save continues`() async {
        let persistence = MemoryPersistence<Counter>()
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        _ = await store.ready
        let gate = Gate()
        persistence.script.block(until: gate)
        store.dispatch(action: .add(1))
        let flushing = Task { await store.flush() }
        await persistence.script.calls.count(2)
        flushing.cancel()
        await flushing.value
        #expect(persistence.current == nil)
        gate.open()
        await store.flush()
        #expect(persistence.current?.count == 1)
    }

    @Test func `The last save contains all actions from many threads and from the dispatcher`() async {
        let persistence = MemoryPersistence<Counter>()
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher, persistence: persistence)
        await onThreads(4) { index in
            for number in 1...500 {
                let action = Counter.Action.mark(producer: index, number: number)
                if index < 2 { store.dispatch(action: action) } else { dispatcher.dispatch(action: action) }
            }
        }
        await store.flush()
        #expect(persistence.current?.count == 2_000)
        #expect(persistence.current?.disorder == 0)
        #expect(persistence.script.overlaps == 0)
    }

    final class OwningPersistence: FluxPersistence {
        let canary: Canary
        init(canary: Canary) { self.canary = canary }
        func load() async throws -> Counter? { nil }
        func save(_ state: Counter) async throws {}
    }

    @Test(.timeLimit(.minutes(1)))
    func `The pause after a failed save begins before onFailure is called, which may move the clock`() async {
        let (persistence, clock) = (MemoryPersistence<Counter>(), TestClock())
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence, backoff: .constant(.seconds(1)),
            clock: clock, onFailure: { _ in clock.advance(by: .seconds(1)) })
        _ = await store.ready
        persistence.script.refuse(1)
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(persistence.current?.count == 1)
    }
}
