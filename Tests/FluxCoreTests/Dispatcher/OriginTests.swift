import FluxCore
import Testing

/// What a window shows of an event on its whole way: one origin, each failure once, and what commands do.
@Suite struct OriginTests {
    /// What was told, in order, with the origin where there is one.
    final class Trail: FluxHooks {
        let lines = Recorder<String>()
        let origins = Recorder<FluxOrigin?>()

        private func note(_ line: String, _ origin: FluxOrigin?) {
            origins.record(origin)
            lines.record(line)
        }

        func fired(_ event: any FluxEvent, origin: FluxOrigin) { note("fired \(event)", origin) }
        func failed(_ event: any FluxEvent, error: any Error, origin: FluxOrigin) { note("failed \(event)", origin) }
        func retried(_ event: any FluxEvent, attempt: Int, error: any Error, origin: FluxOrigin) {
            note("retried \(attempt)", origin)
        }
        func dispatched(_ action: any FluxAction, origin: FluxOrigin?) { note("dispatched \(action)", origin) }
        func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
            note("applied \(action)", FluxOrigin.current)
        }

        /// Those of one origin.
        func lines(of origin: FluxOrigin?) -> [String] {
            zip(origins.values, lines.values).compactMap { $0 == origin ? $1 : nil }
        }
    }

    let dispatcher = FluxDispatcher()
    let trail = Trail()
    let store: FluxStore<Log>

    init() {
        store = FluxStore(initialState: Log(), dispatcher: dispatcher)
        dispatcher.watch(trail)
    }

    @Test(arguments: [false, true]) func `Fired, dispatched and applied carry one origin`(isArray: Bool) async {
        let callback = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let async = FluxActionCreator<WorkConverter>(dependency: .init(), dispatcher: dispatcher)
        if isArray {
            callback.fire([.add(1), .add(2)])
            async.fire([.add(3), .add(4)])
        } else {
            for number in 1...2 { callback.fire(.add(number)) }
            for number in 3...4 { async.fire(.add(number)) }
        }
        await callback.flush()
        await async.flush()
        let origins = Set(trail.origins.values)
        #expect(origins.count == 4 && !origins.contains(nil))
        let trails = Set(origins.map { trail.lines(of: $0) })
        #expect(trails == Set((1...4).map { ["fired add(\($0))", "dispatched add(\($0))", "applied add(\($0))"] }))
    }

    @Test func `A conversion that suspends first, on another thread, keeps its origin`() async {
        let site = WorkConverter.Site { $0 == 1 }
        let creator = FluxActionCreator<WorkConverter>(dependency: site, dispatcher: dispatcher)
        let (first, second) = (creator.fire(.add(1)), creator.fire(.add(2)))
        _ = await second.outcome
        site.gate(1).open()
        _ = await first.outcome
        for origin in Set(trail.origins.values) {
            #expect(
                trail.lines(of: origin).map { $0.suffix(6) }.allSatisfy { $0 == trail.lines(of: origin)[0].suffix(6) })
            #expect(trail.lines(of: origin).count == 3)
        }
    }

    @Test func `Middleware that goes on later keeps the origin, and what it sends besides has it too`() async {
        let kept = Locked<[FluxNext]>([])
        let later = dispatcher.add(FluxInterceptor { _, next in kept.withLock { $0.append(next) } })
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        creator.fire(.add(1))
        await creator.flush()
        let origin = trail.origins.values[0]
        await onThreads(1) { [dispatcher] _ in
            later.remove()
            dispatcher.add(7)
            for next in kept.current { next(Counter.Action.add(9)) }
            dispatcher.add(8)
        }
        #expect(trail.lines(of: origin) == ["fired add(1)", "dispatched add(1)", "applied add(9)"])
        #expect(trail.lines(of: nil) == ["dispatched add(7)", "applied add(7)", "dispatched add(8)", "applied add(8)"])
        kept.withLock { $0 = [] }
    }

    @Test func `Each failed attempt is told once, and the failure once`() async {
        let creator = FluxActionCreator<WorkConverter>(
            dependency: .init(), dispatcher: dispatcher,
            rules: [.retry(for: FluxRule.caseName, limit: 2, backoff: .none)], onFailure: { _, _ in })
        _ = await creator.fire(.fail(0)).outcome
        await trail.lines.count(4)
        #expect(trail.lines.values == ["fired fail(0)", "retried 1", "retried 2", "failed fail(0)"])
        #expect(Set(trail.origins.values).count == 1)
        _ = await creator.fire(.fail(5)).outcome
        await trail.lines.count(10)
        #expect(
            trail.lines.values.suffix(6) == [
                "fired fail(5)", "retried 1", "retried 2", "dispatched add(-1)", "applied add(-1)", "failed fail(5)",
            ])
    }

    @Test func `A failure of what was fired before anybody watched has an origin of its own`() async {
        let site = WorkConverter.Site { _ in true }
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store, onFailure: { _, _ in })
        let tasks = (creator.fire(.fail(0)), creator.fire(.fail(0)))
        let late = Trail()
        store.watch(late)
        site.gate(0).open()
        _ = await (tasks.0.outcome, tasks.1.outcome)
        await late.lines.count(2)
        #expect(late.lines.values == ["failed fail(0)", "failed fail(0)"])
        #expect(Set(late.origins.values).count == 2)
    }

    // MARK: - Commands

    struct Load: FluxCommand {
        let number: Int
        func begin(state: inout Log) { state.entries.append(0) }
        func execute(state: Log, dependency: Void) async throws -> Int { number }
        func reduce(state: inout Log, output: Int) { state.entries = [output] }
    }
    struct Ping: FluxCommand {
        func execute(state: Log, dependency: Void) async throws {}
    }

    @Test func `A command is seen by hooks, histories and those who subscribed to actions`() async {
        let own = Trail()
        let (history, seen) = (FluxHistory(store, limit: 10), Recorder<String>())
        store.watch(own)
        let token = dispatcher.subscribeActions { seen.record("\($0.action) \($0.revision ?? 0)") }
        _ = await store.run(Load(number: 5)).outcome
        await seen.count(2)
        #expect(seen.values == ["Load.begin 1", "Load.reduce 2"])
        #expect(history.entries.map { "\($0.action)" } == ["Load.begin", "Load.reduce"])
        #expect(history.replay().map(\.entries) == [[0], [5]])
        #expect(
            own.lines.values == [
                "fired Load(number: 5)", "dispatched Load.begin", "applied Load.begin", "dispatched Load.reduce",
                "applied Load.reduce",
            ])
        #expect(Set(own.origins.values).count == 1)
        history.undo()
        #expect(store.state.entries == [0])
        token.unsubscribe()
    }

    @Test func `What a command leaves alone is not recorded: there is nothing to take back`() async {
        let history = FluxHistory(store, limit: 10)
        store.dispatch(action: .add(1))
        _ = await store.run(Ping()).outcome
        #expect(history.entries.count == 1)
        history.undo()
        #expect(store.state.entries.isEmpty)
    }

    @Test func `Hooks are given the command itself`() async {
        struct Commands: FluxHooks {
            let seen = Recorder<Int>()
            func fired(_ event: any FluxEvent, origin: FluxOrigin) {
                if let load = event as? Load { seen.record(load.number) }
            }
        }
        let commands = Commands()
        store.watch(commands)
        _ = await store.run(Load(number: 3)).outcome
        #expect(commands.seen.values == [3])
    }

    @Test func `A dispatcher that is known by the protocol alone carries it too`() async {
        let any: any FluxDispatching = dispatcher
        let watcher = Watcher()
        dispatcher.watch(watcher)
        let creator = FluxActionCreator<CounterConverter>(dispatcher: any)
        _ = await creator.fire(.add(1)).outcome
        let origins = watcher.notes.values.compactMap { if case .dispatched(let origin) = $0 { origin } else { nil } }
        #expect(origins.count == 1)
    }

    // MARK: - What is dropped

    @Test func `What a bounded subscription loses is told, all of it`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let (watcher, gate, inside, seen) = (Watcher(), Gate(), Gate(), Recorder<Int>())
        store.watch(watcher)
        let token = store.subscribe(.buffered(newest: 2)) { state in
            if state.count == 1 {
                inside.open()
                gate.wait()
            }
            seen.record(state.count)
        }
        dispatcher.add(1)
        await inside.opened()
        for _ in 2...10 { dispatcher.add(1) }
        gate.open()
        await store.flush()
        dispatcher.add(1)
        await store.flush()
        #expect(seen.values == [1, 9, 10, 11])
        let lost = watcher.notes.values.compactMap { if case .dropped(let count) = $0 { count } else { nil } }
        #expect(lost == [7] && token.dropped == 7)
    }
}
