import FluxCore
import FluxEffects
import TestSupport
import Testing

/// The optimistic part of a command is in the state when `run` returns, unless a rule holds the command back.
@Suite struct OptimisticCommandsTests {
    /// Adds at once, and confirms with a mark when its gate opens.
    struct Add: FluxCommand {
        let amount: Int
        var gate: Gate?

        func begin(state: inout Counter) { state.count += amount }
        func execute(state: Counter, dependency: Void) async throws { await gate?.opened() }
        func reduce(state: inout Counter, output: Void) { state.marks[amount] = state.count }
    }

    /// Adds when it begins, one command after another.
    struct AddInTurn: FluxCommand {
        static let rules: [FluxRule<AddInTurn>] = [.sequence()]
        let amount: Int
        let gate: Gate

        func begin(state: inout Counter) { state.count += amount }
        func execute(state: Counter, dependency: Void) async throws { await gate.opened() }
    }

    @Test func `The optimistic part is in the state when run returns, before the command has done its work`() async {
        let (store, gate) = (FluxStore(initialState: Counter(), dispatcher: nil), Gate())
        var (tasks, counts): ([FluxTask], [Int]) = ([], [])
        for _ in 1...100 {
            tasks.append(store.run(Add(amount: 1, gate: gate)))
            counts.append(store.state.count)
        }
        #expect(counts == Array(1...100) && store.revision == 100)
        #expect(store.state.marks.isEmpty)
        gate.open()
        for task in tasks { #expect(await task.outcome.name == "completed") }
        #expect(store.state.count == 100 && store.state.marks == [1: 100])
    }

    @Test func `The optimistic part is in the state inside a handler, and after an immediate cancel`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = Recorder<Int>()
        let token = store.subscribe { [weak store] state in
            if state.count == 1 {
                store?.run(Add(amount: 10))
                seen.record(store?.state.count ?? -1)
            }
        }
        store.dispatch(action: .add(1))
        await seen.count(1)
        #expect(seen.values == [11])
        store.run(Add(amount: 100, gate: Gate.open)).cancel()
        #expect(store.state.count == 111)
        token.unsubscribe()
    }

    @Test func `A rule that holds the command back holds its optimistic part back too`() async {
        let (store, gates) = (FluxStore(initialState: Counter(), dispatcher: nil), [Gate(), Gate()])
        let first = store.run(AddInTurn(amount: 1, gate: gates[0]))
        let second = store.run(AddInTurn(amount: 10, gate: gates[1]))
        #expect(store.state.count == 1)
        gates[0].open()
        _ = await first.outcome
        gates[1].open()
        _ = await second.outcome
        #expect(store.state.count == 11)
    }

    @Test(.stress) func `Stress: each of many threads reads its own optimistic part`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let missing = Locked(0)
        await onThreads(4) { _ in
            for _ in 0..<500 {
                let before = store.state.count
                store.run(Add(amount: 1))
                if store.state.count <= before { missing.withLock { $0 += 1 } }
            }
        }
        #expect(missing.current == 0 && store.state.count == 2_000)
    }

    @Test func `The optimistic part is held back while the store loads, and is in the state after that`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let load = HeldBack(store)
        let task = store.run(Add(amount: 1))
        #expect(store.state.count == 0)
        load.letGo(loading: Counter(count: 5))
        #expect(store.state.count == 6)
        #expect(await task.outcome.name == "completed")
    }

    struct Send: FluxCommand {
        let sent: Recorder<Int>

        func begin(state: inout Counter) { state.count += 1_000 }
        func execute(state: Counter, dependency: Void) async throws { sent.record(state.count) }
        func reduce(state: inout Counter, output: Void) { state.count -= 1_000 }
    }

    @Test func `A command that is cancelled during the load does no work`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let load = HeldBack(store)
        let sent = Recorder<Int>()
        let (first, second) = (store.run(Send(sent: sent)), store.run(Send(sent: sent)))
        first.cancel()
        #expect(await first.outcome.name == "cancelled")
        load.letGo(loading: Counter(count: 5))
        #expect(await second.outcome.name == "completed")
        #expect(sent.values == [2_005])
        #expect(store.state.count == 1_005, "what it began was held back, and is not undone")
    }

    struct Idle: FluxCommand {
        let found: Recorder<Int>
        func execute(state: Counter, dependency: Void) async throws { found.record(state.count) }
    }

    @Test func `A command that changes nothing when it begins waits for the load too`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (load, found) = (HeldBack(store), Recorder<Int>())
        let task = store.run(Idle(found: found))
        load.letGo(loading: Counter(count: 5))
        #expect(await task.outcome.name == "completed")
        #expect(found.values == [5] && store.revision == 1)
    }
}
