import Testing

@testable import FluxCore

/// Conversions that wait for other events: what hangs by hand must not, and what does not must not fail.
@Suite(.timeLimit(.minutes(5))) struct ConversionsThatWaitTests {
    typealias Event = NestedConverter.Event
    typealias Rule = FluxRule<Event>
    typealias Creator = FluxActionCreator<NestedConverter>

    static func isCycle(_ outcome: FluxTask.Outcome) -> Bool {
        if case .failed(let error) = outcome { error is FluxWaitCycle } else { false }
    }

    func creator(
        _ rules: [Rule], _ clock: TestClock = TestClock(), failures: Recorder<String> = Recorder()
    ) -> Creator {
        Creator(dispatcher: FluxDispatcher(), rules: rules, clock: clock) {
            failures.record("\(type(of: $0)) \($1.name)")
        }
    }

    @Test(arguments: [[], [Rule.sequence { _ in 1 }], [.concurrency(1)], [.concurrency(2)]])
    func `A flush inside a conversion waits for the others, and for none that waits for it`(rules: [Rule]) async {
        let creator = creator(rules)
        let (fired, ran) = (Gate(), Recorder<String>())
        let outer = creator.fire(
            Event("outer") {
                await fired.opened()
                await creator.flush()
            })
        for number in 0..<5 { creator.fire(Event("\(number)") { ran.record("\(number)") }) }
        fired.open()
        #expect(await outer.outcome.name == "completed")
        await creator.flush()
        #expect(ran.values.count == 5)
    }

    @Test func `Two conversions may flush at once`() async {
        for rules in [[], [Rule.concurrency(2)]] {
            let creator = creator(rules)
            let (one, other) = (Gate(), Gate())
            let tasks = [
                creator.fire(
                    Event("1") {
                        one.open(); await other.opened(); await creator.flush()
                    }),
                creator.fire(
                    Event("2") {
                        other.open(); await one.opened(); await creator.flush()
                    }),
            ]
            for task in tasks { #expect(await task.outcome.name == "completed") }
        }
    }

    @Test func `A flush gives up on a debounced event that comes to wait behind it`() async {
        let (clock, ran) = (TestClock(), Recorder<String>())
        let creator = creator([.debounce(for: { $0.isSlow ? 1 : nil }, .seconds(1)), .concurrency(1)], clock)
        let (fired, running) = (Gate(), Gate())
        let outer = creator.fire(
            Event("outer") {
                running.open()
                await fired.opened()
                await creator.flush()
                ran.record("outer")
            })
        await running.opened()
        let slow = creator.fire(Event("slow") { ran.record("slow") })
        await clock.sleepers(1)
        fired.open()
        while await !slow.isAwaited { await Task.yield() }
        clock.advance(by: .seconds(1))
        #expect(await outer.outcome.name == "completed")
        #expect(await slow.outcome.name == "completed")
        #expect(ran.values == ["outer", "slow"])
    }

    @Test func `A debounced event that comes to wait behind the one who awaits it fails`() async {
        let (clock, failures) = (TestClock(), Recorder<String>())
        let creator = creator(
            [.debounce(for: { $0.isSlow ? 1 : nil }, .seconds(1)), .concurrency(1)], clock, failures: failures)
        let outcomes = Recorder<Bool>()
        let outer = creator.fire(
            Event("outer") {
                let slow = creator.fire(Event("slow"))
                outcomes.record(Self.isCycle(await slow.outcome))
            })
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        #expect(await outer.outcome.name == "completed")
        #expect(outcomes.values == [true])
        #expect(failures.values == ["FluxWaitCycle slow"])
    }

    @Test func `At a limit of two, the second of two that await queued ones breaks the circle`() async {
        let creator = creator([.concurrency(2)])
        let (ready, outcomes) = (Recorder<Int>(), Recorder<String>())
        let queued = Locked<[FluxTask]>([])
        let (started, filled) = (Gate(), Gate())
        for number in 0..<2 {
            creator.fire(
                Event("\(number)") {
                    ready.record(number)
                    await filled.opened()
                    outcomes.record(await queued.current[number].outcome.name)
                })
        }
        started.open()
        await ready.count(2)
        queued.withLock { $0 = (0..<2).map { creator.fire(Event("queued \($0)")) } }
        filled.open()
        await creator.flush()
        #expect(outcomes.values.contains("failed"))
        #expect(outcomes.values.count == 2)
    }

    @Test(arguments: [[], [Rule.sequence { _ in 1 }]])
    func `One that awaits itself fails, goes on, and is reported once`(rules: [Rule]) async {
        let failures = Recorder<String>()
        let creator = creator(rules, failures: failures)
        let (own, isKept) = (Locked<FluxTask?>(nil), Gate())
        let seen = Recorder<Bool>()
        let task = creator.fire(
            Event("own") {
                await isKept.opened()
                seen.record(Self.isCycle(await own.current!.outcome))
            })
        own.withLock { $0 = task }
        isKept.open()
        #expect(Self.isCycle(await task.outcome))
        await seen.count(1)
        await failures.count(1)
        own.withLock { $0 = nil }
        #expect(seen.values == [true])
        #expect(failures.values == ["FluxWaitCycle own"])
    }

    @Test func `A circle over two creators with rules is broken`() async {
        let (one, other) = (creator([.concurrency(1)]), creator([.concurrency(1)]))
        let (oneRuns, otherRuns, fired) = (Gate(), Gate(), Gate())
        let queued = Locked<[FluxTask]>([])
        let first = one.fire(
            Event("1") {
                oneRuns.open()
                await fired.opened()
                _ = await queued.current[1].outcome
            })
        let second = other.fire(
            Event("2") {
                otherRuns.open()
                await fired.opened()
                _ = await queued.current[0].outcome
            })
        await oneRuns.opened()
        await otherRuns.opened()
        queued.withLock { $0 = [one.fire(Event("behind 1")), other.fire(Event("behind 2"))] }
        fired.open()
        #expect(await first.outcome.name == "completed")
        #expect(await second.outcome.name == "completed")
        let outcomes = [await queued.current[0].outcome, await queued.current[1].outcome]
        #expect(outcomes.contains(where: Self.isCycle))
    }

    @Test func `A Swift task made inside a conversion may await what waits for it`() async {
        let failures = Recorder<String>()
        let creator = creator([.concurrency(1)], failures: failures)
        let names = Recorder<String>()
        creator.fire(
            Event("outer") {
                let queued = creator.fire(Event("queued"))
                Task { names.record(await queued.outcome.name) }
            })
        await names.count(1)
        #expect(names.values == ["completed"])
        #expect(failures.values.isEmpty)
    }

    @Test func `A shutdown inside a conversion waits for the others only, and cancels its own`() async {
        let creator = creator([])
        let (fired, counts) = (Gate(), Recorder<FluxShutdown>())
        let outer = creator.fire(
            Event("outer") {
                await fired.opened()
                counts.record(await creator.shutdown(within: .seconds(Int64.max)))
            })
        creator.fire([Event("1"), Event("2")])
        fired.open()
        #expect(await outer.outcome.name == "cancelled")
        await counts.count(1)
        #expect(counts.values == [FluxShutdown(completed: 2, cancelled: 1, dropped: 0)])
    }

    @Test(arguments: [Rule.sequence { _ in 1 }, .concurrency(1)])
    func `cancelAll starts none of those that wait`(rule: Rule) async {
        let ran = Recorder<String>()
        for _ in 0..<50 {
            let creator = creator([rule])
            let (running, gate) = (Gate(), Gate())
            creator.fire(
                Event("running") {
                    running.open(); await gate.opened()
                })
            let rest = creator.fire((0..<50).map { number in Event("\(number)") { ran.record("\(number)") } })
            await running.opened()
            creator.cancelAll()
            #expect(rest.isCancelled)
            gate.open()
            await creator.flush()
        }
        #expect(ran.values.isEmpty)
    }
}

extension FluxTask {
    /// Whether somebody waits for its end.
    fileprivate var isAwaited: Bool { get async { gate.word.isWatched } }
}
