import FluxCore
import FluxEffects
import TestSupport
import Testing

/// Places that many creators share: which event gets one, which one waits, and when a place becomes free.
@Suite struct SharedLimitsTests {
    typealias Event = WorkConverter.Event
    typealias Rule = FluxRule<Event>

    let store = FluxStore(initialState: Log(), dispatcher: nil)
    let site = WorkConverter.Site { _ in true }

    func creator(_ rules: [Rule], _ site: WorkConverter.Site? = nil) -> FluxActionCreator<WorkConverter> {
        FluxActionCreator(dependency: site ?? self.site, store: store, rules: rules)
    }

    /// Expects that exactly this number of places is free.
    func expectFree(_ count: Int, _ limit: FluxLimit, sourceLocation: SourceLocation = #_sourceLocation) async {
        let site = WorkConverter.Site { _ in true }
        let probe = creator([.concurrency(limit)], site)
        for number in 0...count { probe.fire(.add(number)) }
        await site.started.count(count)
        #expect(probe.inFlight == count + 1, sourceLocation: sourceLocation)
        probe.cancelAll()
        await probe.flush()
        #expect(site.started.values.count == count, sourceLocation: sourceLocation)
    }

    @Test func `Events of all creators over a shared limit wait in one order`() async {
        let limit = FluxLimit(1)
        let creators = (0..<10).map { _ in creator([.concurrency(limit)]) }
        for number in 0..<30 { creators[number * 7 % 10].fire(.add(number)) }
        for number in 0..<30 {
            await site.started.count(number + 1)
            #expect(site.started.values == Array(0...number))
            site.gate(number).open()
        }
        for creator in creators { await creator.flush() }
        #expect(store.state.entries == Array(0..<30))
    }

    @Test func `A shared limit bounds the events that run at once in all creators together`() async {
        let limit = FluxLimit(7)
        let creators = (0..<100).map { _ in creator([.concurrency(limit)]) }
        for (number, creator) in creators.enumerated() { creator.fire(.add(number)) }
        await site.started.count(7)
        for number in 0..<100 {
            site.gate(number).open()
            await site.ended.count(number + 1)
            await site.started.count(min(number + 8, 100))
            #expect(site.started.values.sorted() == Array(0..<min(number + 8, 100)))
        }
        await expectFree(7, limit)
    }

    @Test func `An event over the waiting limit is dropped at once, whichever creator fires it`() async {
        let limit = FluxLimit(1, waiting: 2)
        let tasks = (0..<5).map { creator([.concurrency(limit)]).fire(.add($0)) }
        #expect(await tasks[3].outcome.name == "dropped")
        #expect(await tasks[4].outcome.name == "dropped")
        tasks[1].cancel()
        _ = await tasks[1].outcome
        await expectToWait(limit)
        for number in [0, 2] {
            site.gate(number).open()
            #expect(await tasks[number].outcome.name == "completed")
        }
        #expect(site.started.values == [0, 2])
        await expectFree(1, limit)
    }

    /// Expects that exactly one more event may wait.
    private func expectToWait(_ limit: FluxLimit) async {
        let another = creator([.concurrency(limit)])
        let waiting = another.fire(.add(5))
        #expect(await another.fire(.add(6)).outcome.name == "dropped")
        waiting.cancel()
        #expect(await waiting.outcome.name == "cancelled")
    }

    @Test func `The rule of a creator limits how many of its events may wait`() async {
        let creator = creator([.concurrency(2, waiting: 1)])
        let tasks = (0..<4).map { creator.fire(.add($0)) }
        #expect(await tasks[3].outcome.name == "dropped")
        site.gate(0).open()
        #expect(await tasks[0].outcome.name == "completed")
        let last = creator.fire(.add(4))
        #expect(await creator.fire(.add(5)).outcome.name == "dropped")
        for number in 1...4 { site.gate(number).open() }
        #expect(await last.outcome.name == "completed")
        #expect(store.state.entries.sorted() == [0, 1, 2, 4])
    }

    @Test func `A limit applies after the other rules, wherever it is listed`() async {
        let limit = FluxLimit(1)
        let busy = creator([.concurrency(limit)]).fire(.add(0))
        let first = creator([.concurrency(limit), .unique(cancelling: .later)])
        let waiting = first.fire(.add(1))
        #expect(await first.fire(.add(2)).outcome.name == "dropped", "while the one before it waits")
        let row = creator([.concurrency(limit), .sequence()])
        for number in 3...4 { row.fire(.add(number)) }
        let last = creator([.concurrency(limit)]).fire(.add(5))
        for number in [0, 1, 3, 5, 4] { site.gate(number).open() }
        await row.flush()
        for task in [busy, waiting, last] { #expect(await task.outcome.name == "completed") }
        #expect(store.state.entries == [0, 1, 3, 5, 4], "the second of a row takes no place before its turn")
    }

    @Test func `However an event ends, it gives its place back`() async {
        let limit = FluxLimit(2)
        let failing = creator([.concurrency(limit), .retry(limit: 1)])
        let failed = failing.fire(.fail(1))
        let cancelled = creator([.concurrency(limit)]).fire(.add(2))
        let replaced = creator([.concurrency(limit), .unique(cancelling: .earlier)])
        let tasks = (3...5).map { replaced.fire(.add($0)) }
        let closed = creator([.concurrency(limit)])
        for number in 6...9 { closed.fire(.add(number)) }
        #expect(await tasks[0].outcome.name == "cancelled", "while it waits")
        await site.started.count(2)
        let counts = await closed.shutdown(within: .zero)
        #expect(counts.cancelled == 4, "while they wait")
        cancelled.cancel()
        await site.started.count(3)
        #expect(Set(site.started.values) == [1, 2, 5])
        site.gate(1).open()
        #expect(await failed.outcome.name == "failed")
        #expect(site.attempts.values == [1, 1], "a retry keeps its place")
        site.gate(5).open()
        #expect(await tasks[2].outcome.name == "completed")
        await expectFree(2, limit)
    }

    @Test func `A released creator loses no event, and nothing of it is kept`() async {
        struct Owned: FluxActionConverter {
            enum Event: FluxEvent { case go(Gate) }
            typealias Action = Counter.Action
            static func convert(
                event: Event, dependency: Canary, actionHandler: @escaping @Sendable (Action) -> Void
            ) {
                if case .go(let gate) = event { gate.wait() }
                actionHandler(.add(1))
            }
        }
        let (limit, gate) = (FluxLimit(1), Gate())
        let gone = (0..<50).map { _ in Gate() }
        for gone in gone {
            FluxActionCreator<Owned>(dependency: Canary(gone), store: store, rules: [.concurrency(limit)])
                .fire(.go(gate))
        }
        gate.open()
        for gone in gone { await gone.opened() }
        #expect(store.state.entries == Array(repeating: 1, count: 50))
        await expectFree(1, limit)
    }

    // MARK: - Several limits

    @Test(.stress) func `Stress: two limits in opposite order on two creators let all events complete`() async {
        let limits = [FluxLimit(1), FluxLimit(1)]
        let site = WorkConverter.Site()
        let rules = [limits, limits.reversed()].map { $0.map { Rule.concurrency($0) } }
        let creators = rules.flatMap { [creator($0, site), creator([.sequence()] + $0, site)] }
        await onThreads(4) { thread in
            for number in 0..<500 { creators[thread].fire(.add(number)) }
        }
        for creator in creators { await creator.flush() }
        #expect(store.state.entries.count == 2_000)
        for limit in limits { await expectFree(1, limit) }
    }

    @Test func `An event that proceeds as another ends finds the other's places free`() async {
        let row = creator([.concurrency(FluxLimit(1, waiting: 0)), .sequence()], .init())
        for task in (0..<100).map({ row.fire(.add($0)) }) { #expect(await task.outcome.name == "completed") }
        // Picks a limit that lets events wait, and only those pairs in which it comes first in the order of all lists.
        let pairs = (0..<20).map { _ in (wide: FluxLimit(1), narrow: FluxLimit(1, waiting: 0)) }
        let wide = pairs.map(\.wide).min { ObjectIdentifier($0) < ObjectIdentifier($1) }!
        for narrow in pairs.map(\.narrow) where ObjectIdentifier(wide) < ObjectIdentifier(narrow) {
            let site = WorkConverter.Site { $0 == 0 }
            let both = creator([.concurrency(narrow), .concurrency(wide)], site)
            let tasks = (0..<3).map { both.fire(.add($0)) }
            site.gate(0).open()
            for task in tasks { #expect(await task.outcome.name == "completed") }
        }
    }

    @Test func `An event that meets the same limit twice takes one place`() async {
        let limit = FluxLimit(1)
        let shared = FluxRules<any FluxEvent>([.concurrency(limit)])
        let rules: [Rule] = [.concurrency(limit), .concurrency(limit)]
        let creator = FluxActionCreator<WorkConverter>(
            dependency: WorkConverter.Site(), store: store, schedulers: [FluxRules(rules), shared])
        for number in 0..<3 { creator.fire(.add(number)) }
        await creator.flush()
        #expect(store.state.entries == [0, 1, 2])
        await expectFree(1, limit)
    }

    static let house = FluxLimit(1)

    struct Wait: FluxCommand {
        static var rules: [FluxRule<Wait>] { [.concurrency(house)] }
        let number: Int
        let gate: Gate
        func begin(state: inout Log) { state.entries.append(number) }
        func execute(state: Log, dependency: Void) async throws { await gate.opened() }
    }

    @Test func `Commands, shared rules and creators share the places of one limit`() async {
        let gate = Gate()
        let shared = FluxRules<any FluxEvent>([.concurrency(Self.house)])
        let other = FluxActionCreator<CounterConverter>(store: store, schedulers: [shared])
        let tasks = [
            store.run(Wait(number: 1, gate: gate)), creator([.concurrency(Self.house)], .init()).fire(.add(2)),
            other.fire(.add(3)), store.run(Wait(number: 4, gate: gate)),
        ]
        #expect(store.state.entries == [1], "begun before run returns, and no other")
        gate.open()
        for task in tasks { #expect(await task.outcome.name == "completed") }
        #expect(store.state.entries == [1, 2, 3, 4])
    }

    @Test(.stress) func `Stress: all places become free after concurrent fires and cancels everywhere`() async {
        let limits = [FluxLimit(3), FluxLimit(2, waiting: 20)]
        let shared = FluxRules<Event>([.sequence { $0.number % 5 }, .concurrency(limits[0]), .concurrency(limits[1])])
        let site = WorkConverter.Site()
        let tasks = Locked<[FluxTask]>([])
        await onThreads(4) { thread in
            let creators = [
                FluxActionCreator<WorkConverter>(dependency: site, store: store, schedulers: [shared]),
                creator([.concurrency(limits[1]), .unique(cancelling: .earlier), .concurrency(limits[0])], site),
            ]
            for number in 0..<500 {
                let task = creators[number % 2].fire(number % 9 == 3 ? .fail(number) : .add(number))
                tasks.withLock { $0.append(task) }
                if (number + thread) % 3 == 0 { tasks.withLock { $0.randomElement() }?.cancel() }
            }
        }
        for task in tasks.current { _ = await task.outcome }
        await expectFree(3, limits[0])
        await expectFree(2, limits[1])
    }
}
