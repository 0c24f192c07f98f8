import FluxCore
import FluxEffects
import TestSupport
import Testing

/// Rules for events and commands of several types, and what they guarantee when an event continues.
@Suite struct SharedRulesTests {
    struct Load: FluxCommand, Equatable {
        let number: Int
        var gate = Gate.open
        static func == (one: Load, other: Load) -> Bool { one.number == other.number }
        func begin(state: inout Log) { state.entries.append(number) }
        func execute(state: Log, dependency: Void) async throws { await gate.opened() }
        func reduce(state: inout Log, output: Void) { state.entries.append(-number) }
    }

    struct Save: FluxCommand {
        let number: Int
        func begin(state: inout Log) { state.entries.append(number) }
        func execute(state: Log, dependency: Int) async throws -> Int { dependency }
        func reduce(state: inout Log, output: Int) { state.entries.append(output) }
    }

    let store = FluxStore(initialState: Log(), dispatcher: nil)

    @Test func `A sequence orders commands of two types of one store`() async {
        let (rules, gate) = (FluxRules<any FluxEvent>([.sequence()]), Gate())
        let load = store.run(Load(number: 1, gate: gate), rules: rules)
        let save = store.run(Save(number: 2), dependency: 20, rules: rules)
        #expect(store.state.entries == [1], "the second is held back, and all of it")
        gate.open()
        #expect(await load.outcome.name == "completed")
        #expect(await save.outcome.name == "completed")
        #expect(store.state.entries == [1, -1, 2, 20])
    }

    @Test func `unique with a condition lets a command cancel commands of another type`() async {
        let rules = FluxRules<any FluxEvent>([
            .unique(cancelling: .earlier, when: { dispatching, executing in dispatching is Save && executing is Load })
        ])
        let gate = Gate()
        let loads = [1, 3].map { store.run(Load(number: $0, gate: gate), rules: rules) }
        let save = store.run(Save(number: 2), dependency: 20, rules: rules)
        for load in loads { #expect(await load.outcome.name == "cancelled") }
        #expect(await save.outcome.name == "completed")
        gate.open()
        #expect(store.state.entries == [1, 3, 2, 20])
    }

    @Test func `Events of two creators and a command share one limit`() async {
        let rules = FluxRules<any FluxEvent>([.concurrency(1)])
        let site = WorkConverter.Site { _ in true }
        let (first, second) = (
            FluxActionCreator<WorkConverter>(dependency: site, store: store, schedulers: [rules]),
            FluxActionCreator<CounterConverter>(store: store, schedulers: [rules])
        )
        let tasks = [first.fire(.add(1)), second.fire(.add(2)), store.run(Load(number: 3), rules: rules)]
        await site.started.count(1)
        #expect(second.inFlight == 1 && store.state.entries.isEmpty)
        site.gate(1).open()
        for task in tasks { #expect(await task.outcome.name == "completed") }
        #expect(store.state.entries == [1, 2, 3, -3])
    }

    @Test func `A command of another type than the rules starts at once`() async {
        let rules = FluxRules<Load>([.sequence(), .concurrency(FluxLimit(1))])
        let gate = Gate()
        let load = store.run(Load(number: 1, gate: gate), rules: rules)
        #expect(await store.run(Save(number: 2), dependency: 20, rules: rules).outcome.name == "completed")
        gate.open()
        #expect(await load.outcome.name == "completed")
    }

    struct Single: FluxCommand {
        static let rules: [FluxRule<Single>] = [.unique(cancelling: .later)]
        let gate: Gate
        func execute(state: Log, dependency: Void) async throws { await gate.opened() }
    }

    struct Asked: FluxRuling {
        let count = Recorder<Bool>()
        func decide(on event: any FluxEvent, inFlight: FluxInFlightEvents<any FluxEvent>) -> FluxDecision {
            count.record(true)
            return .start
        }
    }

    @Test(.timeLimit(.minutes(1))) func `Shared rules of commands apply after the commands' own rules`() async {
        let (asked, gate) = (Asked(), Gate())
        let rules = FluxRules<any FluxEvent>([.custom(asked)])
        let first = store.run(Single(gate: gate), rules: rules)
        #expect(await store.run(Single(gate: gate), rules: rules).outcome.name == "dropped")
        gate.open()
        #expect(await first.outcome.name == "completed")
        #expect(asked.count.values.count == 1)
    }

    @Test func `Cases of two types with the same name are different keys`() {
        enum One: FluxEvent { case load }
        enum Other: FluxEvent { case load }
        let keys = [One.load, Other.load, One.load].map { (event: any FluxEvent) in
            "\(FluxRule<any FluxEvent>.caseName(event)!)"
        }
        #expect(keys[0] != keys[1] && keys[0] == keys[2])
    }

    @Test func `Observers see the command that is run`() async {
        let actions = Actions(store)
        _ = await store.run(Load(number: 1)).outcome
        #expect(actions.events.values.first as? Load == Load(number: 1))
        #expect(actions.seen.values == ["Load.begin", "Load.reduce"])
    }

    struct Undo: FluxCommand {
        func execute(state: Log, dependency store: FluxStoreHandle<Log>) async throws {
            for entry in state.entries { _ = store.withAccess { $0.apply(.action(.add(-entry))) } }
            _ = await store.run(Save(number: 7), dependency: 70).outcome
        }
    }

    @Test func `A command can use its store as its dependency without being given one`() async {
        store.dispatch(action: .add(1))
        #expect(await store.run(Undo()).outcome.name == "completed")
        #expect(store.state.entries == [1, -1, 7, 70])
    }

    /// Blocks the thread that dispatches the number 1 until a gate opens.
    struct Slow: FluxDispatching {
        let inside = Gate()
        let gate = Gate()
        let store: FluxStore<Log>
        func dispatch<Action: FluxAction>(action: Action) -> Int {
            guard case .add(let number)? = action as? Counter.Action else { return 0 }
            if number == 1 {
                inside.open()
                gate.wait()
            }
            store.dispatch(action: .add(number))
            return 1
        }
    }

    @Test(arguments: [FluxRule<WorkConverter.Event>.unique(cancelling: .earlier), .sequence(), .concurrency(1)])
    func `C9: the successor of an event starts only after the event's running dispatch has ended`(
        rule: FluxRule<WorkConverter.Event>
    ) async {
        let (slow, site) = (Slow(store: store), WorkConverter.Site())
        let creator = FluxActionCreator<WorkConverter>(dependency: site, dispatcher: slow, rules: [rule])
        let first = creator.fire(.add(1))
        await slow.inside.opened()
        let second = creator.fire(.add(2))
        first.cancel()
        #expect(first.isCancelled && site.started.values == [1])
        slow.gate.open()
        #expect(await first.outcome.name == "cancelled")
        #expect(await second.outcome.name == "completed")
        #expect(store.state.entries == [1, 2], "no stale action lands behind a newer one")
    }

    @Test(.stress) func `Stress: a store that is released while commands run leaves nothing behind`() async {
        struct Owner: FluxState {
            let canary: Canary
            mutating func handle(action: Counter.Action) -> Owner? { self }
        }
        struct Touch: FluxCommand {
            static let rules: [FluxRule<Touch>] = [.concurrency(2)]
            func begin(state: inout Owner) {}
            func execute(state: Owner, dependency store: FluxStoreHandle<Owner>) async throws {}
        }
        for _ in 0..<300 {
            let gone = Gate()
            let rules = FluxRules<any FluxEvent>([.sequence()])
            do {
                let store = FluxStore(initialState: Owner(canary: Canary(gone)), dispatcher: nil)
                let handle = store.handle
                async let late: Void = onThreads(1) { _ in
                    for _ in 0..<5 { handle.run(Touch(), dependency: handle) }
                }
                for number in 0..<5 { store.run(Touch(), rules: number % 2 == 0 ? rules : nil) }
                await late
            }
            await gone.opened()
        }
    }
}
