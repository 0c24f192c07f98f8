import Dispatch
import FluxCore
import FluxEffects
import Foundation
import TestSupport
import Testing

/// Rules on a creator, from `fire` to the outcome of the tasks.
@Suite struct FluxRuleTests {
    let store = FluxStore(initialState: Log(), dispatcher: nil)
    typealias Rule = FluxRule<WorkConverter.Event>

    func creator(
        _ rules: [Rule], _ site: WorkConverter.Site = .init(), clock: TestClock = TestClock()
    ) -> FluxActionCreator<WorkConverter> {
        FluxActionCreator(dependency: site, store: store, rules: rules, clock: clock)
    }

    @Test func `The case name is the key of an enum event`() {
        struct Plain: FluxEvent { let number: Int }
        func name<Event: FluxEvent>(_ event: Event) -> String { "\(FluxRule<Event>.caseName(event) ?? 0)" }
        #expect(name(WorkConverter.Event.add(1)) == "add")
        #expect(name(WorkConverter.Event.job("x", 2)) == "job")
        #expect(name(CounterConverter.Event.nothing) == "nothing")
        #expect(name(Plain(number: 1)) == name(Plain(number: 2)))
    }

    @Test func `Rules also apply to a creator that passes its actions to a closure`() async {
        let site = WorkConverter.Site { _ in true }
        let creator = FluxActionCreator<WorkConverter>(
            dependency: site, rules: [.sequence()], observers: { [store] in store.handle.eventObservers },
            sending: { [store] in store.dispatch(action: $0) })
        creator.fire([.add(1), .add(2)])
        await site.started.count(1)
        #expect(creator.inFlight == 2 && site.started.values == [1])
        for number in 1...2 { site.gate(number).open() }
        await creator.flush()
        #expect(store.state.entries == [1, 2])
    }

    @Test func `unique(cancelling: .earlier): only the latest event of a key completes`() async {
        let site = WorkConverter.Site { $0 < 10 }
        let creator = creator([.unique(cancelling: .earlier, for: Rule.caseName)], site)
        let first = creator.fire(.add(1))
        await site.started.count(1)
        let other = creator.fire(.job("other", 2))
        let last = creator.fire(.add(10))
        #expect(await first.outcome.name == "cancelled")
        #expect(await last.outcome.name == "completed")
        site.gate(2).open()
        #expect(await other.outcome.name == "completed", "another key")
        site.gate(1).open()
        await site.ended.count(3)
        #expect(store.state.entries == [10, 2])
    }

    @Test func `unique(cancelling: .later): the first event of a key completes, and later ones are dropped`() async {
        let site = WorkConverter.Site { _ in true }
        let creator = creator([.unique(cancelling: .later, for: Rule.caseName)], site)
        let first = creator.fire(.add(1))
        #expect(await creator.fire(.add(2)).outcome.name == "dropped")
        site.gate(1).open()
        #expect(await first.outcome.name == "completed")
        site.gate(3).open()
        #expect(await creator.fire(.add(3)).outcome.name == "completed", "the first has ended")
        #expect(store.state.entries == [1, 3])
    }

    @Test(.stress) func `Stress: of 10,000 events with unique, only the last of each key completes`() async {
        let site = WorkConverter.Site { $0 < 9_990 }
        let creator = creator(
            [
                .unique(cancelling: .earlier) { event in
                    if case .job(let key, _) = event { key } else { nil }
                }
            ], site)
        let tasks = (0..<10_000).map { creator.fire(.job("\($0 % 10)", $0)) }
        await creator.flush()
        var completed = 0
        for task in tasks where await task.outcome.name == "completed" { completed += 1 }
        #expect(completed == 10)
        #expect(store.state.entries.sorted() == Array(9_990..<10_000))
        for number in 0..<9_990 { site.gate(number).open() }
    }

    @Test(.stress) func `Stress: a sequence of 10,000 events, failing and succeeding, runs strictly in order`() async {
        let site = WorkConverter.Site()
        let creator = creator([.sequence { _ in "all" }], site)
        let tasks = (0..<10_000).map { creator.fire($0.isMultiple(of: 3) ? .fail($0) : .add($0)) }
        await creator.flush()
        #expect(site.started.values == Array(0..<10_000))
        #expect(site.ended.values == Array(0..<10_000))
        #expect(await tasks[0].outcome.name == "failed")
        #expect(await tasks[1].outcome.name == "completed")
    }

    @Test func `A sequence waits for the running event, even if a waiting one in between is cancelled`() async {
        let site = WorkConverter.Site { _ in true }
        let creator = creator([.sequence { _ in 1 }], site)
        creator.fire(.add(1))
        let second = creator.fire(.add(2))
        creator.fire(.add(3))
        await site.started.count(1)
        second.cancel()
        #expect(site.started.values == [1])
        site.gate(3).open()
        site.gate(1).open()
        await creator.flush()
        #expect(site.started.values == [1, 3])
    }

    @Test func `debounce: an event proceeds after a quiet interval`() async {
        let clock = TestClock()
        let creator = creator([.debounce(for: Rule.caseName, .seconds(1))], clock: clock)
        let first = creator.fire(.add(1))
        await clock.sleepers(1)
        clock.advance(by: .milliseconds(900))
        let second = creator.fire(.add(2))
        #expect(await first.outcome.name == "dropped")
        await clock.sleepers(1)
        clock.advance(by: .milliseconds(900))
        #expect(creator.inFlight == 1, "not quiet for long enough")
        clock.advance(by: .milliseconds(200))
        #expect(await second.outcome.name == "completed")
        #expect(store.state.entries == [2])
    }

    @Test func `debounce: events that arrive during a sleep share the next one, and a cancel ends a sleep`() async {
        let clock = TestClock()
        let creator = creator([.debounce(for: Rule.caseName, .seconds(1))], clock: clock)
        creator.fire(.add(1))
        await clock.sleepers(1)
        clock.advance(by: .milliseconds(500))
        var last = creator.fire(.add(2))
        for number in 3...1_000 { last = creator.fire(.add(number)) }
        clock.advance(by: .milliseconds(500))
        // The sleep for the first event is over, and a second one lasts until the last event is due.
        await clock.sleepers(1)
        #expect(creator.inFlight == 1 && store.state.entries.isEmpty)
        clock.advance(by: .milliseconds(500))
        #expect(await last.outcome.name == "completed")
        #expect(store.state.entries == [1_000] && clock.sleeps == 2)
        creator.fire(.add(1))
        let cancelled = creator.fire(.add(2))
        await clock.sleepers(1)
        cancelled.cancel()
        await creator.flush()
        let next = creator.fire(.add(3))
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        #expect(await next.outcome.name == "completed")
        #expect(store.state.entries == [1_000, 3] && clock.sleeps == 4)
    }

    @Test func `throttle: one event runs per interval, and the last of those too soon runs at its end`() async {
        let clock = TestClock()
        let creator = creator([.throttle(for: Rule.caseName, .seconds(1), latest: true)], clock: clock)
        #expect(await creator.fire(.add(1)).outcome.name == "completed")
        await clock.sleepers(1)
        let (second, third) = (creator.fire(.add(2)), creator.fire(.add(3)))
        #expect(await second.outcome.name == "dropped")
        clock.advance(by: .seconds(1))
        #expect(await third.outcome.name == "completed")
        #expect(store.state.entries == [1, 3])
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
    }

    @Test func `concurrency: events over the limit wait in order`() async {
        let site = WorkConverter.Site { _ in true }
        let creator = creator([.concurrency(2)], site)
        for number in 0..<5 { creator.fire(.add(number)) }
        await site.started.count(2)
        #expect(creator.inFlight == 5)
        for number in 0..<5 {
            #expect(site.started.values == Array(0..<min(number + 2, 5)))
            site.gate(number).open()
            await site.ended.count(number + 1)
            await site.started.count(min(number + 3, 5))
        }
        await creator.flush()
        #expect(store.state.entries == Array(0..<5))
    }

    @Test func `retry: a failed event is tried again after each backoff, up to the limit`() async {
        let clock = TestClock()
        let site = WorkConverter.Site()
        let rule = Rule.retry(for: Rule.caseName, limit: 3, backoff: .exponential(.seconds(1), factor: 2))
        let creator = creator([rule], site, clock: clock)
        let task = creator.fire(.fail(1))
        for (attempt, delay) in [1, 2, 4].enumerated() {
            await clock.sleepers(1)
            #expect(site.attempts.values.count == attempt + 1)
            clock.advance(by: .seconds(delay))
        }
        #expect(await task.outcome.name == "failed")
        #expect(site.attempts.values.count == 4)
        #expect(store.state.entries == [-1], "the error is told once, after the last attempt")
    }

    @Test func `An event that is cancelled while it waits for its next attempt ends at once`() async {
        let clock = TestClock()
        let creator = creator(
            [.retry(for: Rule.caseName, limit: 3, backoff: .constant(.seconds(1)))], clock: clock)
        let task = creator.fire(.fail(1))
        await clock.sleepers(1)
        task.cancel()
        #expect(await task.outcome.name == "cancelled")
        await creator.flush()
    }

    @Test func `The first retry rule that covers an event applies`() async {
        let site = WorkConverter.Site()
        let creator = creator([.retry(limit: 1), .retry(limit: 3)], site)
        #expect(await creator.fire(.fail(0)).outcome.name == "failed")
        #expect(site.attempts.values.count == 2)
    }

    @Test func `A backoff can have the longest possible duration`() async {
        let clock = TestClock()
        clock.advance(by: .seconds(1))
        let rule = Rule.retry(limit: 1, backoff: .constant(Duration(attoseconds: .max)))
        let creator = creator([rule], clock: clock)
        clock.advance(by: .seconds(1))
        let task = creator.fire(.fail(1))
        await clock.sleepers(1)
        task.cancel()
        #expect(await task.outcome.name == "cancelled")
    }

    @Test(.timeLimit(.minutes(1)), arguments: [1, 2, 100])
    func `Cancelling an event wakes its sleeper, however often the sleep was put off`(events: Int) async {
        let clock = WakingClock()
        let creator = FluxActionCreator<WorkConverter>(
            dependency: .init(), store: store, rules: [.debounce(.seconds(1))], clock: clock)
        let tasks = (0..<events).map { creator.fire(.add($0)) }
        await clock.base.sleepers(1)
        tasks.last?.cancel()
        await clock.awake.count(1)
        await creator.flush()
    }

    @Test(.timeLimit(.minutes(1))) func `Releasing rules wakes their sleeper`() async {
        let clock = WakingClock()
        do {
            let creator = FluxActionCreator<WorkConverter>(
                dependency: .init(), store: store, rules: [.throttle(.seconds(1), latest: false)], clock: clock)
            #expect(await creator.fire(.add(1)).outcome.isCompleted)
            await clock.base.sleepers(1)
            withExtendedLifetime(creator) {}
        }
        await clock.awake.count(1)
    }

    /// Fails, or runs until it is cancelled.
    enum HangingConverter: FluxAsyncActionConverter {
        enum Event: FluxEvent { case fail, hang }
        static func convert(
            event: Event, dependency: Void, send: @escaping @Sendable (Counter.Action) -> Void
        ) async throws {
            if event == .fail { throw WorkConverter.Failure(number: 1) }
            let never = AsyncStream<Never>.makeStream()
            for await _ in never.stream {}
            withExtendedLifetime(never) {}
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: 0..<5)
    func `Each initialiser of a creator with rules uses the given clock and failure handler`(_ form: Int) async {
        let (clock, failures, dispatcher) = (TestClock(), Recorder<HangingConverter.Event>(), FluxDispatcher())
        let watching = Watching()
        let rules: [FluxRule<HangingConverter.Event>] = [.concurrency(2)]
        let onFailure: @Sendable (any Error, HangingConverter.Event) -> Void = { failures.record($1) }
        typealias Creator = FluxActionCreator<HangingConverter>
        let creator =
            switch form {
            case 0:
                Creator(
                    dependency: (), rules: rules, clock: clock, onFailure: onFailure, observers: { [watching] },
                    sending: { _ in })
            case 1:
                Creator(dependency: (), dispatcher: dispatcher, rules: rules, clock: clock, onFailure: onFailure)
            case 2: Creator(dependency: (), store: store, rules: rules, clock: clock, onFailure: onFailure)
            case 3: Creator(dispatcher: dispatcher, rules: rules, clock: clock, onFailure: onFailure)
            default: Creator(store: store, rules: rules, clock: clock, onFailure: onFailure)
            }
        _ = await creator.fire(.fail).outcome
        #expect(failures.values == [.fail])
        let task = creator.fire(.hang)
        let flushing = Task { await creator.flush(within: .seconds(1)) }
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        #expect(await flushing.value == false)
        task.cancel()
        #expect(await task.outcome.name == "cancelled")
        #expect(watching.fired.values.count == (form == 0 ? 2 : 0))
    }

    /// Counts the events that it is notified of.
    final class Watching: FluxEventObserver {
        let fired = Recorder<Bool>()
        func fired(_ event: any FluxEvent, _ task: FluxTask) { fired.record(true) }
    }

    @Test func `Rules also apply to callback converters, whose events keep their execution queue`() async {
        let (seen, holds) = (Recorder<String?>(), (0..<3).map { _ in HandlerHold<Counter.Action>() })
        let creator = FluxActionCreator<Placed>(dependency: seen, store: store, rules: [.sequence { _ in 1 }])
        let queues = ["first", "second"].map { name in
            let queue = DispatchQueue(label: name)
            queue.setSpecific(key: Placed.name, value: name)
            return queue
        }
        // The second event waits for the first, and its queue waits with it; the third has none.
        let tasks = zip(holds, queues + [nil]).map { creator.fire(.init(hold: $0), executionQueue: $1) }
        for (number, hold) in holds.enumerated() {
            await hold.isKept.opened()
            #expect(creator.inFlight == 3 - number && seen.values.count == number + 1)
            hold.send(.add(number))
            hold.letGo()
            #expect(await tasks[number].outcome.name == "completed")
        }
        #expect(seen.values == ["first", "second", nil])
        #expect(store.state.entries == [0, 1, 2])
    }

    /// Records the name of the queue that it is called on, and keeps its action handler.
    enum Placed: FluxActionConverter {
        struct Event: FluxEvent { let hold: HandlerHold<Counter.Action> }
        static let name = DispatchSpecificKey<String>()
        static func convert(
            event: Event, dependency seen: Recorder<String?>,
            actionHandler: @escaping @Sendable (Counter.Action) -> Void
        ) {
            seen.record(DispatchQueue.getSpecific(key: name))
            event.hold.keep(actionHandler)
        }
    }

    @Test func `A custom rule sees the events in flight`() async {
        struct AtMostOneOdd: FluxRuling {
            func decide(
                on event: WorkConverter.Event, inFlight: FluxInFlightEvents<WorkConverter.Event>
            ) -> FluxDecision {
                if event.number.isMultiple(of: 2) { return .wait(inFlight.map(\.id) + [0, 12_345]) }
                return inFlight.contains { $0.event.number % 2 == 1 && $0.isExecuting } ? .drop : .start
            }
        }
        let site = WorkConverter.Site { _ in true }
        let creator = creator([.custom(AtMostOneOdd())], site)
        let odd = creator.fire(.add(1))
        #expect(await creator.fire(.add(3)).outcome.name == "dropped")
        let even = creator.fire(.add(2))
        site.gate(2).open()
        site.gate(1).open()
        #expect(await odd.outcome.name == "completed")
        #expect(await even.outcome.name == "completed")
        #expect(store.state.entries == [1, 2])
    }

    @Test func `A condition that fires an event stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let place = Locked<FluxActionCreator<WorkConverter>?>(nil)
            let rule = FluxRule<WorkConverter.Event>.unique(cancelling: .earlier, for: { _ in 1 }) { _, _ in
                place.current?.fire(.add(9))
                return true
            }
            let creator = FluxActionCreator<WorkConverter>(
                dependency: .init { _ in true }, store: FluxStore(initialState: Log(), dispatcher: nil), rules: [rule])
            place.withLock { $0 = creator }
            creator.fire(.add(1))
            creator.fire(.add(2))
        }
        let message = result.said
        #expect(message.contains("fire was used inside"))
    }

    @Test func `Search as you type over real files gives one result, that of the last input`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "search-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        for index in 0..<50 {
            let text = (0..<200).map { "line \($0) of file \(index)" }.joined(separator: "\n")
            try (text + (index == 31 ? "\nthe needle" : "")).write(
                to: folder.appending(path: "\(index).txt"), atomically: true, encoding: .utf8)
        }
        enum Search: FluxAsyncActionConverter {
            enum Event: FluxEvent { case typed(String) }
            enum Action: FluxAction { case found(word: String, files: [String]) }
            static func convert(
                event: Event, dependency folder: URL, send: @escaping @Sendable (Action) -> Void
            ) async throws {
                guard case .typed(let word) = event else { return }
                var files: [String] = []
                for file in try FileManager.default.contentsOfDirectory(at: folder, includingPropertiesForKeys: nil) {
                    try Task.checkCancellation()
                    if try String(contentsOf: file, encoding: .utf8).contains(word) {
                        files.append(file.lastPathComponent)
                    }
                }
                send(.found(word: word, files: files))
            }
        }
        struct Results: FluxState {
            var all: [String] = []
            mutating func handle(action: Search.Action) -> Results? {
                if case .found(let word, let files) = action { all.append("\(word): \(files.sorted())") }
                return self
            }
        }
        let clock = TestClock()
        let results = FluxStore(initialState: Results(), dispatcher: nil)
        let creator = FluxActionCreator<Search>(
            dependency: folder, store: results,
            rules: [
                .debounce(for: FluxRule.caseName, .milliseconds(300)),
                .unique(cancelling: .earlier, for: FluxRule.caseName),
            ], clock: clock)
        for end in 1..."needle".count {
            creator.fire(.typed(String("needle".prefix(end))))
            await clock.sleepers(1)
            clock.advance(by: .milliseconds(100))
        }
        clock.advance(by: .milliseconds(300))
        await creator.flush()
        #expect(results.state.all == ["needle: [\"31.txt\"]"])
    }

    /// No test must wait until a rule sleeps: the rule counts from the moment of its decision.
    @Test(.stress) func `Advancing the clock right after an event advances its rules`() async {
        for _ in 0..<200 {
            let clock = TestClock()
            let debounced = FluxActionCreator<WorkConverter>(
                dependency: .init(), store: store, rules: [.debounce(for: { _ in 1 }, .seconds(1))], clock: clock)
            let first = debounced.fire(.add(1))
            clock.advance(by: .seconds(1))
            #expect(await first.outcome.name == "completed")

            let throttled = FluxActionCreator<WorkConverter>(
                dependency: .init(), store: store, rules: [.throttle(for: { _ in 1 }, .seconds(1), latest: true)],
                clock: clock)
            for _ in 0..<2 {
                #expect(await throttled.fire(.add(1)).outcome.name == "completed")
                clock.advance(by: .seconds(1))
            }
        }
    }

    /// Whether a sleeper has woken by then is chance, and nothing can wait for it.
    @Test(.stress)
    func `An event fired after a deadline counts as later, even if the clock has just been advanced`() async {
        for _ in 0..<200 {
            let clock = TestClock()
            let throttled = creator([.throttle(.seconds(1), latest: false)], clock: clock)
            let debounced = creator([.debounce(.seconds(1))], clock: clock)
            let first = [throttled.fire(.add(1)), debounced.fire(.add(1))]
            clock.advance(by: .seconds(2))
            let second = [throttled.fire(.add(2)), debounced.fire(.add(2))]
            clock.advance(by: .seconds(2))
            for task in first + second { #expect(await task.outcome.name == "completed") }
        }
    }

    @Test func `Rules take the time from a clock of any type, even if the clock wakes no sleeper`() async {
        await expectMoments(of: ContinuousClock())
        await expectMoments(of: SuspendingClock())
    }

    private func expectMoments<Base: Clock<Duration>>(of base: Base) async {
        let clock = SleeplessClock(base)
        func creator(_ rule: Rule) -> FluxActionCreator<WorkConverter> {
            FluxActionCreator(dependency: .init(), store: store, rules: [rule], clock: clock)
        }
        let first = creator(.throttle(.seconds(3_600), latest: false))
        let latest = creator(.throttle(.seconds(3_600), latest: true))
        let quiet = creator(.debounce(.seconds(3_600)))
        #expect(await first.fire(.add(1)).outcome.name == "completed")
        #expect(await first.fire(.add(2)).outcome.name == "dropped")
        #expect(await latest.fire(.add(1)).outcome.name == "completed")
        let (kept, waiting) = (latest.fire(.add(2)), quiet.fire(.add(1)))
        clock.offset.withLock { $0 += .seconds(7_200) }
        #expect(await first.fire(.add(3)).outcome.name == "completed")
        let (later, next) = (latest.fire(.add(3)), quiet.fire(.add(2)))
        #expect(await kept.outcome.name == "completed")
        #expect(await waiting.outcome.name == "completed")
        #expect(latest.inFlight == 1 && quiet.inFlight == 1, "their time has just begun")
        later.cancel()
        next.cancel()
    }

    /// A system clock that is advanced by hand, and that wakes no sleeper.
    private struct SleeplessClock<Base: Clock<Duration>>: Clock {
        let base: Base
        let offset = Locked(Duration.zero)

        init(_ base: Base) { self.base = base }

        var now: Base.Instant { base.now.advanced(by: offset.current) }
        var minimumResolution: Duration { base.minimumResolution }

        func sleep(until deadline: Base.Instant, tolerance: Duration?) async throws {
            await FluxLatch().wait()
            throw CancellationError()
        }
    }

    @Test func `A clock may use a store when a sleep is cancelled`() async {
        for rule in [.debounce(.seconds(1)), .retry(limit: 2, backoff: .constant(.seconds(1)))]
            as [FluxRule<WorkConverter.Event>]
        {
            let clock = TellingClock { [store] in store.dispatch(action: .add(7)) }
            let site = WorkConverter.Site { _ in false }
            let creator = FluxActionCreator<WorkConverter>(
                dependency: site, store: store, rules: [rule], clock: clock, onFailure: { _, _ in })
            let task = creator.fire(.fail(1))
            await clock.base.sleepers(1)
            task.cancel()
            #expect(await task.outcome.isCancelled)
            await clock.hasTold.opened()
        }
    }

    /// A clock that calls a closure when a sleep is cancelled, on the thread that cancels.
    private struct TellingClock: Clock {
        let base = TestClock()
        let hasTold = Gate()
        let tell: @Sendable () -> Void

        init(_ tell: @escaping @Sendable () -> Void) { self.tell = tell }

        var now: TestClock.Instant { base.now }
        var minimumResolution: Duration { base.minimumResolution }

        func sleep(until deadline: TestClock.Instant, tolerance: Duration?) async throws {
            try await withTaskCancellationHandler {
                try await base.sleep(until: deadline, tolerance: tolerance)
            } onCancel: {
                tell()
                hasTold.open()
            }
        }
    }

    @Test func `Without a key a rule covers all events of the creator`() async {
        let clock = TestClock()
        func run(_ rule: FluxRule<WorkConverter.Event>) async -> [String] {
            // Neither event ends before the next one is fired.
            let site = WorkConverter.Site { $0 < 3 }
            let creator = FluxActionCreator<WorkConverter>(
                dependency: site, store: store, rules: [rule], clock: clock, onFailure: { _, _ in })
            let tasks = [creator.fire(.job("a", 1)), creator.fire(.add(2)), creator.fire(.fail(3))]
            clock.advance(by: .seconds(1))
            for number in 1...2 { site.gate(number).open() }
            var ends: [String] = []
            for task in tasks { ends.append(await task.outcome.name) }
            return ends + ["\(site.attempts.values.count)"]
        }
        #expect(await run(.unique(cancelling: .earlier)) == ["cancelled", "cancelled", "failed", "1"])
        #expect(await run(.unique(cancelling: .later)) == ["completed", "dropped", "dropped", "0"])
        #expect(await run(.sequence()) == ["completed", "completed", "failed", "1"])
        #expect(await run(.debounce(.seconds(1))) == ["dropped", "dropped", "failed", "1"])
        #expect(await run(.throttle(.seconds(1), latest: false)) == ["completed", "dropped", "dropped", "0"])
        #expect(await run(.retry(limit: 2)) == ["completed", "completed", "failed", "3"])
    }

    enum Bare: FluxActionConverter {
        struct Event: FluxEvent {}
        static func convert(
            event: Event, dependency: Void, actionHandler: @escaping @Sendable (Counter.Action) -> Void
        ) {
            actionHandler(.add(1))
        }
    }

    @Test func `fire accepts an event written as .init(), and an array of such events`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let creator = FluxActionCreator<Bare>(store: store)
        _ = await creator.fire(.init()).outcome
        _ = await creator.fire([.init(), .init()]).outcome
        #expect(store.state.count == 3)
    }
}
