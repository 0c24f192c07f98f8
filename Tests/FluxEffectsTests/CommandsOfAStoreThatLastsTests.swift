import FluxCore
import FluxEffects
import FluxPersistence
import FluxTesting
import TestSupport
import Testing

/// Commands change a state without an action, and what is stored must include these changes.
@Suite struct CommandsOfAStoreThatLastsTests {
    struct Add: FluxCommand {
        let amount: Int

        func begin(state: inout Counter) { state.count += 1_000 }
        func execute(state: Counter, dependency: Void) async throws -> Int { amount }
        func reduce(state: inout Counter, output: Int) { state.count += output - 1_000 }
    }

    @Test func `A log gets a snapshot for the changes of a command, and later actions follow it`() async throws {
        let log = MemoryLog<Counter>()
        do {
            let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log)
            try await store.dispatch(durably: .add(1))
            _ = await store.run(Add(amount: 10)).outcome
            try await store.dispatch(durably: .add(100))
            await store.flush()
        }
        let recovered = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
        #expect(recovered.state.count == 111)
        #expect(recovered.revision == 4)
    }

    @Test func `A command waits for the load and finds the stored state`() async throws {
        let gate = Gate()
        let persistence = MemoryPersistence(Counter(count: 5))
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        let task = store.run(Add(amount: 10))
        gate.open()
        _ = await task.outcome
        #expect(store.state.count == 15)
        persistence.script.block(until: nil)
        await store.flush()
        #expect(persistence.saved.values.last?.count == 15)
    }

    struct Send: FluxCommand {
        let sent: Recorder<Int>

        func begin(state: inout Counter) { state.count += 1_000 }
        func execute(state: Counter, dependency: Void) async throws { sent.record(state.count) }
        func reduce(state: inout Counter, output: Void) { state.count -= 1_000 }
    }

    @Test func `A command that is cancelled during the load does no work`() async {
        let gate = Gate()
        let persistence = MemoryPersistence(Counter(count: 5))
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        let sent = Recorder<Int>()
        // The second command begins after the first, so by then the first one waits for the load.
        let (first, second) = (store.run(Send(sent: sent)), store.run(Send(sent: sent)))
        for await case .actionSent in second.events { break }
        first.cancel()
        gate.open()
        #expect(await first.outcome.name == "cancelled")
        #expect(await second.outcome.name == "completed")
        #expect(sent.values == [2_005])
        #expect(store.state.count == 1_005, "what it began was held back, and is not undone")
        persistence.script.block(until: nil)
        await store.flush()
    }

    struct Number: FluxCommand {
        let number: Int
        let done: Recorder<Int>

        func begin(state: inout Counter) { state.count += 1 }
        func execute(state: Counter, dependency: Void) async throws { done.record(number) }
        func reduce(state: inout Counter, output: Void) throws(FluxUnchanged) { throw FluxUnchanged() }
    }

    @Test func `Commands that the load has held back do their work in the order in which they were run`() async {
        let gate = Gate()
        let persistence = MemoryPersistence(Counter())
        persistence.script.block(until: gate)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        let done = Recorder<Int>()
        let tasks = (0..<1_000).map { store.run(Number(number: $0, done: done)) }
        gate.open()
        for task in tasks { #expect(await task.outcome.isCompleted) }
        #expect(done.values == Array(0..<1_000))
        persistence.script.block(until: nil)
        await store.flush()
    }

    struct Fickle: FluxCommand {
        func execute(state: Counter, dependency: Void) async throws {}
        func reduce(state: inout Counter, output: Void) throws(FluxUnchanged) {
            state.count = 100
            throw FluxUnchanged()
        }
    }

    @Test func `The changes of a part of a command are undone if the part throws FluxUnchanged`() async {
        let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil)
        #expect(await store.run(Fickle()).outcome.isCompleted)
        #expect(store.state.count == 1)
    }
}
