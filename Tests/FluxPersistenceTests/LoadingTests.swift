import FluxCore
import FluxPersistence
import Foundation
import TestSupport
import Testing

/// A store that continues from its stored state: what it does while it loads, and how the load may end.
@Suite struct LoadingTests {
    struct Broken: Error {}

    @Test func `A store exists at once, holds actions back and applies them in order to the loaded state`() async {
        let persistence = MemoryPersistence(Log(entries: [1, 2]))
        let gate = Gate()
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Log(entries: [-1]), dispatcher: nil, persistence: persistence)
        #expect(store.dispatch(action: .add(3)) == nil, "nothing has been announced")
        #expect(store.dispatch(action: .add(4)) == nil)
        #expect(store.state.entries == [-1])
        #expect(store.revision == 0)
        gate.open()
        let restoration = await store.ready
        expect(restoration, is: "restored")
        #expect(store.state.entries == [1, 2, 3, 4])
        #expect(store.revision == 3, "what was loaded is the first change")
        #expect(store.dispatch(action: .add(5)) == 4)
    }

    @Test func `Actions from the dispatcher are held back too, in one order with direct ones`() async {
        let persistence = MemoryPersistence<Log>()
        let (gate, dispatcher) = (Gate(), FluxDispatcher())
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher, persistence: persistence)
        #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 0)
        store.dispatch(action: .add(2))
        dispatcher.dispatch(action: Counter.Action.add(3))
        gate.open()
        let restoration = await store.ready
        expect(restoration, is: "empty")
        #expect(store.state.entries == [1, 2, 3])
        #expect(dispatcher.dispatch(action: Counter.Action.add(4)) == 1)
    }

    @Test func `Observers see which event a held-back action belongs to`() async {
        let persistence = MemoryPersistence<Counter>()
        let gate = Gate()
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        let origins = Origins()
        store.handle.withAccess { $0.observe(origins) }
        let creator = FluxActionCreator<CounterConverter>(store: store)
        let task = creator.fire(.add(1))
        _ = await task.outcome
        store.dispatch(action: .add(1))
        gate.open()
        _ = await store.ready
        #expect(origins.seen.values == [task.id, task.id, 0, 0], "before and after each")
    }

    /// Records the event behind each action, before and after the action is applied; 0 if there is none.
    private final class Origins: FluxStoreObserver {
        let seen = Recorder<UInt64>()

        func applying(_ change: FluxChange<Counter>) { seen.record(FluxTask.current?.id ?? 0) }

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? {
            seen.record(FluxTask.current?.id ?? 0)
            return nil
        }
    }

    @Test func `Subscriptions made during the load get the loaded state and then each change once`() async {
        let persistence = MemoryPersistence(Counter(count: 10))
        let gate = Gate()
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        let (every, current) = (Recorder<Int>(), Recorder<Int>())
        let tokens = [
            store.subscribe { every.record($0.count) },
            store.subscribe(startingWithCurrent: true) { current.record($0.count) },
        ]
        await current.count(1)
        store.dispatch(action: .add(1))
        store.dispatch(action: .add(1))
        gate.open()
        await store.flush()
        #expect(every.values == [10, 11, 12])
        #expect(current.values == [0, 10, 11, 12])
        withExtendedLifetime(tokens) {}
    }

    @Test func `With nothing stored a store starts from its initial state and announces nothing`() async {
        let store = FluxStore(
            initialState: Counter(count: 7), dispatcher: nil, persistence: MemoryPersistence<Counter>())
        let restoration = await store.ready
        expect(restoration, is: "empty")
        #expect(store.state.count == 7)
        #expect(store.revision == 0)
    }

    @Test func `After a failed load a store continues from its initial state and reports the failure`() async {
        let persistence = MemoryPersistence(Counter(count: 5))
        persistence.script.refuse(1)
        let failures = Recorder<FluxPersistenceFailure>()
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence, onFailure: { failures.record($0) })
        store.dispatch(action: .add(1))
        let restoration = await store.ready
        expect(restoration, is: "failed")
        #expect(store.state.count == 1)
        await failures.count(1)
        #expect(failures.values[0].operation == .load)
        #expect(failures.values[0].retryAfter == nil)
        #expect(failures.values[0].error is StorageScript.Refusal)
    }

    @Test func `A failed load is reported before ready returns, and no failed save at the same time`() async {
        struct Failing: FluxPersistence {
            func load() async throws -> Counter? { throw Broken() }
            func save(_ state: Counter) async throws { throw Broken() }
        }
        for _ in 0..<20 {
            let (isInside, overlaps, clock) = (Locked(false), Locked(0), TestClock())
            let (told, goesOn) = (Recorder<FluxPersistenceFailure.Operation>(), Recorder<Int>())
            let store = FluxStore(
                initialState: Counter(), dispatcher: nil, persistence: Failing(), backoff: .constant(.seconds(1)),
                clock: clock,
                onFailure: { failure in
                    if isInside.withLock({ isInside in
                        defer { isInside = true }
                        return isInside
                    }) {
                        overlaps.withLock { $0 += 1 }
                    }
                    // Long enough that a save which does not wait for this report would fail meanwhile.
                    if failure.operation == .load { usleep(5_000) }
                    told.record(failure.operation)
                    isInside.withLock { $0 = false }
                })
            store.dispatch(action: .add(1))
            _ = await store.ready
            goesOn.record(told.values.count)
            store.dispatch(action: .add(1))
            await told.count(2)
            #expect(told.values == [.load, .save])
            #expect(goesOn.values[0] >= 1)
            #expect(overlaps.current == 0)
        }
    }

    @Test func `After a timeout a store continues, and the late result of its load changes nothing`() async {
        let persistence = MemoryPersistence(Counter(count: 100))
        let (gate, clock, failures) = (Gate(), TestClock(), Recorder<FluxPersistenceFailure>())
        persistence.script.block(until: gate)
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence, loadTimeout: .seconds(5), clock: clock,
            onFailure: { failures.record($0) })
        store.dispatch(action: .add(1))
        await clock.sleepers(1)
        clock.advance(by: .seconds(4))
        #expect(store.state.count == 0)
        clock.advance(by: .seconds(1))
        let restoration = await store.ready
        expect(restoration, is: "timedOut")
        #expect(store.state.count == 1)
        persistence.script.block(until: nil)
        gate.open()
        await store.flush()
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(store.state.count == 2)
        #expect(store.revision == 2)
        #expect(persistence.current?.count == 2)
        #expect(failures.values.map(\.operation) == [.load])
    }

    @Test func `A load that ends in time is not affected by its timeout`() async {
        let clock = TestClock()
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: MemoryPersistence(Counter(count: 1)),
            loadTimeout: .seconds(5), clock: clock)
        let restoration = await store.ready
        expect(restoration, is: "restored")
        clock.advance(by: .seconds(10))
        await store.flush()
        #expect(store.state.count == 1)
    }

    @Test func `A cancelled wait for ready returns that the store is still loading`() async {
        let persistence = MemoryPersistence<Counter>()
        let gate = Gate()
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        let waiting = Task { await store.ready }
        waiting.cancel()
        expect(await waiting.value, is: "loading")
        let flushing = Task { await store.flush() }
        flushing.cancel()
        await flushing.value
        gate.open()
        expect(await store.ready, is: "empty")
    }

    @Test func `A store without a persistence is ready at once`() async {
        expect(await FluxStore(initialState: Counter(), dispatcher: nil).ready, is: "empty")
    }

    @Test func `A handler may dispatch during the load and while held-back actions are applied`() async {
        let persistence = MemoryPersistence(Counter(count: 10))
        let gate = Gate()
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        let seen = Recorder<Int>()
        let token = store.subscribe(startingWithCurrent: true) { [weak store] state in
            seen.record(state.count)
            if state.count < 14 { store?.dispatch(action: .add(1)) }
        }
        await seen.count(1)
        gate.open()
        await seen.count(7)
        #expect(seen.values == [0, 10, 11, 12, 13, 14, 15])
        withExtendedLifetime(token) {}
    }

    // MARK: - Release

    @Test func `A store that is released while it loads loses no action, and still delivers and saves`() async {
        let persistence = MemoryPersistence(Counter(count: 10))
        let (gate, seen, gone) = (Gate(), Recorder<Int>(), Gate())
        persistence.script.block(until: gate)
        var store: FluxStore? = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        let canary = Canary(gone)
        let token = store?.subscribe { seen.record($0.count + (canary === canary ? 0 : 1)) }
        store?.dispatch(action: .add(1))
        store = nil
        gate.open()
        await persistence.saved.count(1)
        #expect(persistence.saved.values.map(\.count) == [11])
        await seen.count(2)
        #expect(seen.values == [10, 11])
        withExtendedLifetime(token) {}
    }

    @Test func `A load that timed out keeps nothing of the store alive`() async {
        let persistence = MemoryPersistence<Owner>()
        let (gate, clock, gone) = (Gate(), TestClock(), Gate())
        persistence.script.block(until: gate)
        var store: FluxStore? = FluxStore(
            initialState: Owner(canary: Canary(gone)), dispatcher: nil, persistence: persistence,
            loadTimeout: .seconds(1), clock: clock, onFailure: { _ in })
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        _ = await store?.ready
        store = nil
        await gone.opened()
        gate.open()
    }

    // MARK: - Waiting and throwing

    @Test func `restored(from:) waits for the stored state`() async throws {
        let dispatcher = FluxDispatcher()
        let store = try await FluxStore.restored(
            from: MemoryPersistence(Counter(count: 5)), initialState: Counter(), dispatcher: dispatcher)
        #expect(store.state.count == 5)
        #expect(store.revision == 1)
        #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 1)
        expect(await store.ready, is: "restored")
        let empty = try await FluxStore.restored(
            from: MemoryPersistence<Counter>(), initialState: Counter(count: 3), dispatcher: nil)
        #expect(empty.state.count == 3)
        #expect(empty.revision == 0)
    }

    @Test(arguments: [false, true])
    func `restored(from:) ends at once if its task is cancelled, even if the load hangs`(isLog: Bool) async {
        let (persistence, log) = (MemoryPersistence<Owner>(), MemoryLog<Owner>())
        let script = isLog ? log.script : persistence.script
        let (gate, gone) = (Gate(), Gate())
        script.block(until: gate)
        let dispatcher = FluxDispatcher()
        let restoring = Task {
            let owner = Owner(canary: Canary(gone))
            if isLog { return try await FluxStore.restored(from: log, initialState: owner, dispatcher: dispatcher) }
            return try await FluxStore.restored(from: persistence, initialState: owner, dispatcher: dispatcher)
        }
        await script.calls.count(1)
        restoring.cancel()
        await #expect(throws: CancellationError.self) { try await restoring.value }
        // The hanging load keeps nothing of the store alive.
        await gone.opened()
        gate.open()
        #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 0)
    }

    @Test func `restored(from:) does not start a load in a cancelled task`() async {
        let persistence = MemoryPersistence(Counter(count: 5))
        let restoring = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await FluxStore.restored(from: persistence, initialState: Counter(), dispatcher: nil)
        }
        await #expect(throws: CancellationError.self) { try await restoring.value }
        #expect(persistence.script.calls.values.isEmpty)
    }

    @Test(.stress) func `Stress: restored(from:) returns a store or throws, whenever it is cancelled`() async {
        for round in 0..<500 {
            let persistence = MemoryPersistence(Counter(count: 5))
            let restoring = Task {
                try await FluxStore.restored(from: persistence, initialState: Counter(), dispatcher: nil)
            }
            for _ in 0..<round % 20 { await Task.yield() }
            restoring.cancel()
            switch await restoring.result {
            case .success(let store): #expect(store.state.count == 5)
            case .failure(let error): #expect(error is CancellationError)
            }
        }
    }

    @Test func `restored(from:) throws the error of the load and leaves no store behind`() async throws {
        let persistence = MemoryPersistence(Counter(count: 5))
        let dispatcher = FluxDispatcher()
        persistence.script.refuse(1)
        await #expect(throws: StorageScript.Refusal.self) {
            try await FluxStore.restored(from: persistence, initialState: Counter(), dispatcher: dispatcher)
        }
        #expect(dispatcher.dispatch(action: Counter.Action.add(1)) == 0)
        #expect(persistence.current?.count == 5)
    }

    @Test func `Actions are still held back while onFailure reports a failed load`() async {
        let persistence = MemoryPersistence<Counter>()
        let (gate, kept, counts) = (Gate(), Locked<FluxStore<Counter>?>(nil), Recorder<Int>())
        persistence.script.block(until: gate)
        persistence.script.refuse(1)
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence,
            onFailure: { _ in if let store = kept.current { counts.record(store.state.count) } })
        kept.withLock { $0 = store }
        store.dispatch(action: .add(1))
        gate.open()
        expect(await store.ready, is: "failed")
        #expect(counts.values == [0] && store.state.count == 1)
        kept.withLock { $0 = nil }
    }

    @Test func `failure() returns an error if its task is cancelled before the load has ended`() async {
        let (persistence, gate) = (MemoryPersistence<Counter>(), Gate())
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        let asking = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await store.handle.failure()
        }
        #expect(await asking.value is CancellationError)
        gate.open()
    }

    @Test(.timeLimit(.minutes(1))) func `Held-back actions are released with no lock held`() async {
        let (persistence, gate) = (MemoryPersistence<Post>(), Gate())
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Post(), dispatcher: nil, persistence: persistence)
        store.dispatch(action: .send(Letter(to: store)))
        gate.open()
        _ = await store.ready
        while store.state.count < 2 { await Task.yield() }
    }
}

/// A state that owns an object, so that a test can see when it is released.
struct Owner: FluxState {
    let canary: Canary
    mutating func handle(action: Counter.Action) -> Owner? { self }
}

func expect(_ restoration: FluxRestoration, is name: String, sourceLocation: SourceLocation = #_sourceLocation) {
    let found = String(describing: restoration).prefix { $0 != "(" }
    #expect(found == name, sourceLocation: sourceLocation)
}

/// Counts its actions, some of which use a store when they are released.
struct Post: FluxState {
    enum Action: FluxAction { case send(Letter), count }
    var count = 0
    mutating func handle(action: Action) -> Post? {
        count += 1
        return self
    }
}

final class Letter: Sendable {
    private let store: FluxStore<Post>
    init(to store: FluxStore<Post>) { self.store = store }
    deinit { store.dispatch(action: .count) }
}
