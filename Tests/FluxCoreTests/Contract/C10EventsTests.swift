import Dispatch
import Testing

@testable import FluxCore

/// C10 for events: what they hold goes when they have ended, whoever keeps their tasks.
@Suite struct C10EventsTests {
    /// Holds the event as long as its gate is closed; then does nothing, or fails with the canary in the error.
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
        [], [.unique(cancelling: .earlier) { _ in 1 }], [.unique(cancelling: .later) { _ in 1 }],
        [.sequence { _ in 1 }], [.sequence(for: { _ in 1 }, when: { _, _ in true })], [.concurrency(1)],
        [.debounce(for: { _ in 1 }, .seconds(1))], [.throttle(for: { _ in 1 }, .seconds(1), latest: true)],
        [.retry(for: { _ in 1 }, limit: 1, backoff: .constant(.seconds(1)))],
    ]

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

    func creator(_ gone: Gone, _ rules: [Rule], _ clock: TestClock) -> FluxActionCreator<Holding> {
        let store = FluxStore(
            initialState: C10ReleaseTests.Owner(canary: Canary(gone.state)), dispatcher: FluxDispatcher())
        return FluxActionCreator<Holding>(
            dependency: .init(gone.dependency), store: store, rules: rules, clock: clock)
    }

    final class Weak: @unchecked Sendable {
        private(set) weak var object: AnyObject?
        init(_ object: AnyObject) { self.object = object }
        /// Waits until it is gone; the last reference may be on another thread for a moment.
        func isGone() async -> Bool {
            for _ in 0..<2_000 where object != nil { try? await Task.sleep(for: .milliseconds(5)) }
            return object == nil
        }
    }

    @Test(arguments: rules.indices) func `All goes though the task is kept, and cancelled while it runs`(rule: Int)
        async
    {
        let (gone, clock, gate) = (Gone(), TestClock(), Gate())
        var task: FluxTask?
        do {
            let creator = creator(gone, Self.rules[rule], clock)
            task = creator.fire(.init(canary: Canary(gone.payload), gate: gate))
        }
        task?.cancel()
        gate.open()
        await gone.all()
        #expect(task?.isCancelled == true)
    }

    @Test(arguments: rules.indices) func `All goes though the tasks are kept, cancelled all at once`(rule: Int) async {
        let (gone, clock, gate) = (Gone(), TestClock(), Gate())
        var tasks: [FluxTask] = []
        var control: Weak?
        do {
            let creator = creator(gone, Self.rules[rule], clock)
            control = Weak(creator.conversions.control)
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

    @Test(arguments: rules.indices) func `All goes after a shutdown`(rule: Int) async {
        let (gone, clock, gate) = (Gone(), TestClock(), Gate())
        var tasks: [FluxTask] = []
        do {
            let creator = creator(gone, Self.rules[rule], clock)
            tasks.append(creator.fire(.init(canary: Canary(gone.payload), gate: gate)))
            tasks.append(creator.fire([.init(gate: gate), .init(gate: gate)]))
            let counts = await creator.shutdown(within: .zero)
            #expect(counts.completed + counts.cancelled + counts.dropped == 3)
            tasks.append(creator.fire(.init(gate: gate)))
        }
        gate.open()
        await gone.all()
        #expect(tasks.count == 3)
    }

    @Test(arguments: rules.indices) func `A task and its error go with the last who knows of them`(rule: Int) async {
        let (gone, clock) = (Gone(), TestClock())
        var weak: [Weak] = []
        do {
            let creator = creator(gone, Self.rules[rule], clock)
            weak.append(Weak(creator.fire(.init(canary: Canary(gone.payload), fails: true))))
            weak.append(Weak(creator.fire([.init(), .init(), .init()])))
            creator.cancelAll()
            weak.append(Weak(creator.fire(Holding.Event())))
            weak.append(Weak(creator.fire([.init(), .init(fails: true)])))
            weak.append(Weak(creator.conversions.control))
        }
        while !gone.dependency.isOpen {
            clock.advance(by: .seconds(2))
            await Task.yield()
        }
        await gone.all()
        for (index, weak) in weak.enumerated() { #expect(await weak.isGone(), "\(index)") }
    }

    @Test func `Events fired together go when they have ended`() async {
        let (gone, clock) = (Gone(), TestClock())
        let creator = creator(gone, [], clock)
        let weak = Weak(creator.fire([.init(), .init(), .init()]))
        for _ in 0..<1_000 { creator.fire(Holding.Event()) }
        await creator.flush()
        #expect(await weak.isGone())
    }

    @Test func `What a throttle still counts keeps nothing`() async {
        let (gone, clock) = (Gone(), TestClock())
        var control: Weak?
        do {
            let creator = creator(gone, [.throttle(for: { _ in 1 }, .seconds(3_600), latest: true)], clock)
            control = Weak(creator.conversions.control)
            creator.fire(.init(canary: Canary(gone.payload)))
        }
        await gone.all()
        #expect(await control!.isGone())
    }

    @Test func `Events that a rule drops do not pile up behind one that runs for long`() async {
        let (gone, clock, gate) = (Gone(), TestClock(), Gate())
        let creator = creator(gone, [.unique(cancelling: .later) { _ in 1 }], clock)
        let running = creator.fire(.init(gate: gate))
        let dropped = Weak(creator.fire(Holding.Event()))
        for _ in 0..<2_000 { creator.fire(Holding.Event()) }
        #expect(dropped.object == nil)
        gate.open()
        _ = await running.outcome
    }

    @Test func `Cancelled before it starts, an event keeps nothing once its turn has come`() async {
        let (gone, clock) = (Gone(), TestClock())
        let queue = DispatchQueue(label: "held")
        queue.suspend()
        var task: FluxTask?
        do {
            task = creator(gone, [], clock).fire(.init(canary: Canary(gone.payload)), executionQueue: queue)
        }
        task?.cancel()
        queue.resume()
        await gone.all()
        #expect(task?.isCancelled == true)
    }

    @Test func `Awaited in a conversion of another creator after its end, an event keeps nothing`() async {
        enum Awaiting: FluxAsyncActionConverter {
            struct Event: FluxEvent { let task: FluxTask }
            static func convert(
                event: Event, dependency: Void, send: @escaping @Sendable (Counter.Action) -> Void
            ) async throws {
                _ = await event.task.outcome
            }
        }
        let (gone, clock) = (Gone(), TestClock())
        var (task, control): (Weak?, Weak?)
        do {
            let creator = creator(gone, [.concurrency(1)], clock)
            control = Weak(creator.conversions.control)
            let fired = creator.fire(.init(canary: Canary(gone.payload)))
            task = Weak(fired)
            _ = await fired.outcome
            await creator.flush()
            let other = FluxActionCreator<Awaiting>(dispatcher: FluxDispatcher(), rules: [.concurrency(1)])
            _ = await other.fire(.init(task: fired)).outcome
        }
        await gone.all()
        #expect(await task!.isGone())
        #expect(await control!.isGone())
    }

    @Test(.stress) func `Stress: creators go while others cancel their events`() async {
        for _ in 0..<300 {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let holds = (0..<8).map { _ in HandlerHold<Counter.Action>() }
            let tasks = Locked<[FluxTask]>([])
            do {
                let creator = FluxActionCreator<CounterConverter>(store: store)
                for hold in holds {
                    let task = creator.fire(.hold(hold))
                    tasks.withLock { $0.append(task) }
                }
                for hold in holds { await hold.isKept.opened() }
            }
            await onThreads(2) { thread in
                if thread == 0 { return holds.forEach { $0.letGo() } }
                while let task = tasks.withLock({ $0.popLast() }) { task.cancel() }
            }
        }
    }
}
