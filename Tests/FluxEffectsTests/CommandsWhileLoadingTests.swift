import FluxCore
import FluxEffects
import FluxPersistence
import FluxTesting
import TestSupport
import Testing

@Suite struct CommandsWhileLoadingTests {
    typealias Add = OptimisticCommandsTests.Add
    typealias Beginning = CommandsInCommandsAreAnnouncedTests.Beginning
    @Test func `The optimistic part of a command waits for the load and is in the state after it`() async {
        let (loads, persistence) = (Gate(), MemoryPersistence<Counter>(Counter(count: 5)))
        persistence.script.block(until: loads)
        let store = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        let task = store.run(Add(amount: 1))
        #expect(store.state.count == 0)
        persistence.script.block(until: nil)
        loads.open()
        _ = await store.ready
        #expect(store.state.count == 6)
        #expect(await task.outcome.name == "completed")
    }
    struct Note: FluxCommand {
        let done: Recorder<Bool>
        func begin(state: inout Counter) { state.count += 1 }
        func execute(state: Counter, dependency: Void) async throws { done.record(true) }
    }
    @Test func `A command does its work even if its beginning is never applied`() async {
        let (store, done) = (FluxStore(initialState: Counter(), dispatcher: nil), Recorder<Bool>())
        store.handle.withAccess { $0.hold { _ in false } }
        #expect(await store.run(Note(done: done)).outcome.name == "completed")
        #expect(done.values.count == 1 && store.state.count == 0)
    }
    @Test func `The change with which a command begins is saved`() async {
        let persistence = MemoryPersistence<Counter>()
        let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil, persistence: persistence)
        _ = await store.ready
        #expect(await store.run(Beginning()).outcome.name == "completed")
        await store.flush()
        #expect(persistence.current?.count == 11)
    }
}
