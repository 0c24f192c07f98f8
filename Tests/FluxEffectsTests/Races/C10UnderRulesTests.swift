import FluxCore
import FluxEffects
import TestSupport
import Testing

/// C10 for events with rules: what they hold is released when they have ended, even if their tasks are kept.
@Suite struct C10UnderRulesTests {
    /// Keeps the event until its gate opens; then sends an action, or fails with the canary in the error.
    enum Holding: FluxAsyncActionConverter {
        struct Event: FluxEvent {
            var canary: Canary?
            var gate: Gate?
            var fails = false
        }
        struct Failure: Error { let canary: Canary? }
        final class Dependency: Sendable {
            let canary: Canary
            init(_ gone: Gate) { canary = Canary(gone) }
        }
        typealias Action = Counter.Action
        static func convert(
            event: Event, dependency: Dependency, send: @escaping @Sendable (Action) -> Void
        ) async throws {
            await event.gate?.opened()
            if event.fails { throw Failure(canary: event.canary) }
            send(.add(1))
        }
        static func action(for error: any Error, event: Event) -> Action? { .add(-1) }
    }

    typealias Rule = FluxRule<Holding.Event>

    static let rules: [[Rule]] = [
        [.unique(cancelling: .earlier) { _ in 1 }], [.unique(cancelling: .later) { _ in 1 }],
        [.sequence { _ in 1 }], [.sequence(for: { _ in 1 }, when: { _, _ in true })], [.concurrency(1)],
        [.debounce(for: { _ in 1 }, .seconds(1))], [.throttle(for: { _ in 1 }, .seconds(1), latest: true)],
        [.retry(for: { _ in 1 }, limit: 1, backoff: .constant(.seconds(1)))],
    ]

    struct Owner: FluxState {
        let canary: Canary
        mutating func handle(action: Counter.Action) -> Owner? { self }
    }

    struct Gone {
        let dependency = Gate()
        let payload = Gate()
        let state = Gate()
        func all() async {
            await dependency.opened()
            await payload.opened()
            await state.opened()
        }
    }

    func creator(
        _ gone: Gone, _ rules: [Rule], _ clock: TestClock, _ control: inout Weak?
    ) -> FluxActionCreator<Holding> {
        let scheduler = FluxRules(rules, clock: clock)
        control = Weak(scheduler)
        let store = FluxStore(
            initialState: Owner(canary: Canary(gone.state)), dispatcher: FluxDispatcher())
        return FluxActionCreator<Holding>(
            dependency: .init(gone.dependency), store: store, schedulers: [scheduler], clock: clock)
    }

    @Test(arguments: rules.indices) func `A cancelled event keeps nothing, even if its task is kept`(rule: Int) async {
        let (gone, clock, gate) = (Gone(), TestClock(), Gate())
        var control: Weak?
        var task: FluxTask?
        do {
            let creator = creator(gone, Self.rules[rule], clock, &control)
            task = creator.fire(.init(canary: Canary(gone.payload), gate: gate))
        }
        task?.cancel()
        gate.open()
        await gone.all()
        #expect(task?.isCancelled == true)
    }

    @Test(arguments: rules.indices) func `cancelAll releases everything, even if the tasks are kept`(rule: Int) async {
        let (gone, clock, gate) = (Gone(), TestClock(), Gate())
        var tasks: [FluxTask] = []
        var control: Weak?
        do {
            let creator = creator(gone, Self.rules[rule], clock, &control)
            tasks.append(creator.fire(.init(canary: Canary(gone.payload), gate: gate)))
            tasks.append(creator.fire([.init(gate: gate), .init(gate: gate)]))
            creator.cancelAll()
        }
        gate.open()
        await gone.all()
        for task in tasks { _ = await task.outcome }
        tasks = []
        #expect(await control!.isGone())
    }

    @Test(arguments: rules.indices) func `A shutdown releases everything, even if the tasks are kept`(rule: Int) async {
        let (gone, clock, gate) = (Gone(), TestClock(), Gate())
        var control: Weak?
        var tasks: [FluxTask] = []
        do {
            let creator = creator(gone, Self.rules[rule], clock, &control)
            tasks.append(creator.fire(.init(canary: Canary(gone.payload), gate: gate)))
            tasks.append(creator.fire([.init(gate: gate), .init(gate: gate)]))
            let counts = await creator.shutdown(within: .zero)
            #expect(counts.completed + counts.cancelled + counts.dropped + counts.unfinished == 3)
            tasks.append(creator.fire(.init(gate: gate)))
        }
        gate.open()
        await gone.all()
        #expect(tasks.count == 3)
    }

    @Test(arguments: rules.indices) func `A task and its error are released with the last reference`(rule: Int) async {
        let (gone, clock) = (Gone(), TestClock())
        var weak: [Weak] = []
        var control: Weak?
        do {
            let creator = creator(gone, Self.rules[rule], clock, &control)
            weak.append(Weak(creator.fire(.init(canary: Canary(gone.payload), fails: true))))
            weak.append(Weak(creator.fire([.init(), .init(), .init()])))
            creator.cancelAll()
            weak.append(Weak(creator.fire(Holding.Event())))
            weak.append(Weak(creator.fire([.init(), .init(fails: true)])))
            weak.append(control!)
        }
        while !gone.dependency.isOpen {
            clock.advance(by: .seconds(2))
            await Task.yield()
        }
        await gone.all()
        for (index, weak) in weak.enumerated() { #expect(await weak.isGone(), "\(index)") }
    }

    @Test func `A throttle whose interval has not ended keeps nothing alive`() async {
        let (gone, clock) = (Gone(), TestClock())
        var control: Weak?
        do {
            let creator = creator(gone, [.throttle(for: { _ in 1 }, .seconds(3_600), latest: true)], clock, &control)
            creator.fire(.init(canary: Canary(gone.payload)))
        }
        await gone.all()
        #expect(await control!.isGone())
    }

    @Test func `Dropped events do not pile up behind an event that runs for long`() async {
        let (gone, clock, gate) = (Gone(), TestClock(), Gate())
        var control: Weak?
        let creator = creator(gone, [.unique(cancelling: .later) { _ in 1 }], clock, &control)
        let running = creator.fire(.init(gate: gate))
        let dropped = Weak(creator.fire(Holding.Event()))
        for _ in 0..<2_000 { creator.fire(Holding.Event()) }
        #expect(dropped.object == nil)
        gate.open()
        _ = await running.outcome
    }
}
