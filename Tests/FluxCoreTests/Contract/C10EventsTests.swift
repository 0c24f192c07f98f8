import Dispatch
import TestSupport
import Testing

@testable import FluxCore

/// C10 for events: what they hold is released when they have ended, even if their tasks are kept.
@Suite struct C10EventsTests {
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

    static let schedulers: [@Sendable () -> [any FluxScheduler]] = [
        { [] }, { [Scheduling()] }, { [Scheduling(), Scheduling()] },
        {
            [
                Scheduling(retrying: { ticket, attempt in
                    ticket.start()
                    return attempt < 3
                })
            ]
        },
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

    func creator(_ gone: Gone, _ schedulers: [any FluxScheduler] = []) -> FluxActionCreator<Holding> {
        let store = FluxStore(
            initialState: C10ReleaseTests.Owner(canary: Canary(gone.state)), dispatcher: FluxDispatcher())
        return FluxActionCreator<Holding>(
            dependency: .init(gone.dependency), store: store, schedulers: schedulers)
    }

    @Test(arguments: schedulers.indices)
    func `An event cancelled while it runs releases everything, even if its task is kept`(form: Int) async {
        let (gone, gate) = (Gone(), Gate())
        var task: FluxTask?
        do {
            let creator = creator(gone, Self.schedulers[form]())
            task = creator.fire(.init(canary: Canary(gone.payload), gate: gate))
        }
        task?.cancel()
        gate.open()
        await gone.all()
        #expect(task?.isCancelled == true)
    }

    @Test(arguments: schedulers.indices)
    func `Events cancelled by cancelAll release everything, even if their tasks are kept`(form: Int) async {
        let (gone, gate) = (Gone(), Gate())
        var tasks: [FluxTask] = []
        var control: Weak?
        do {
            let creator = creator(gone, Self.schedulers[form]())
            control = Weak(creator.account)
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

    @Test(arguments: schedulers.indices)
    func `Events release everything after a shutdown, even if their tasks are kept`(form: Int) async {
        let (gone, gate) = (Gone(), Gate())
        var tasks: [FluxTask] = []
        do {
            let creator = creator(gone, Self.schedulers[form]())
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

    @Test(arguments: schedulers.indices)
    func `A task and its error are released with the last reference to them`(form: Int) async {
        let gone = Gone()
        var weak: [Weak] = []
        do {
            let creator = creator(gone, Self.schedulers[form]())
            weak.append(Weak(creator.fire(.init(canary: Canary(gone.payload), fails: true))))
            weak.append(Weak(creator.fire([.init(), .init(), .init()])))
            creator.cancelAll()
            weak.append(Weak(creator.fire(Holding.Event())))
            weak.append(Weak(creator.fire([.init(), .init(fails: true)])))
            weak.append(Weak(creator.account))
        }
        await gone.all()
        for (index, weak) in weak.enumerated() { #expect(await weak.isGone(), "\(index)") }
    }

    @Test(arguments: [false, true])
    func `The closure of onCancel is released when the event ends, even if its task is kept`(isLate: Bool) async {
        enum Noting: FluxActionConverter {
            struct Event: FluxEvent { let start: @Sendable (FluxConversion<Noting>) -> Void }
            static var sharesConversions: Bool { false }
            static func convert(event: Event, dependency: Void, actionHandler: @escaping (Counter.Action) -> Void) {}
            static func start(_ conversion: FluxConversion<Noting>) { conversion.event.start(conversion) }
        }
        let gone = Gate()
        let creator = FluxActionCreator<Noting>(dispatcher: FluxDispatcher())
        let task = creator.fire(
            .init { conversion in
                let canary = Canary(gone)
                if isLate { conversion.end(.completed) }
                conversion.onCancel { withExtendedLifetime(canary) {} }
                conversion.end(.completed)
            })
        #expect(await task.outcome.isCompleted)
        await gone.opened()
        withExtendedLifetime(task) {}
    }

    @Test func `The task of events fired together is released after they have ended`() async {
        let gone = Gone()
        let creator = creator(gone)
        let weak = Weak(creator.fire([.init(), .init(), .init()]))
        for _ in 0..<1_000 { creator.fire(Holding.Event()) }
        await creator.flush()
        #expect(await weak.isGone())
    }

    @Test func `An event cancelled before it starts keeps nothing once its turn has come`() async {
        let gone = Gone()
        let queue = DispatchQueue(label: "held")
        queue.suspend()
        var task: FluxTask?
        do {
            task = creator(gone).fire(.init(canary: Canary(gone.payload)), executionQueue: queue)
        }
        task?.cancel()
        queue.resume()
        await gone.all()
        #expect(task?.isCancelled == true)
    }

    @Test func `An ended event keeps nothing after another creator's conversion has awaited it`() async {
        enum Awaiting: FluxAsyncActionConverter {
            struct Event: FluxEvent { let task: FluxTask }
            static func convert(
                event: Event, dependency: Void, send: @escaping @Sendable (Counter.Action) -> Void
            ) async throws {
                _ = await event.task.outcome
            }
        }
        let gone = Gone()
        var (task, control): (Weak?, Weak?)
        do {
            let creator = creator(gone, [Scheduling()])
            control = Weak(creator.account)
            let fired = creator.fire(.init(canary: Canary(gone.payload)))
            task = Weak(fired)
            _ = await fired.outcome
            await creator.flush()
            let other = FluxActionCreator<Awaiting>(dispatcher: FluxDispatcher(), schedulers: [Scheduling()])
            _ = await other.fire(.init(task: fired)).outcome
        }
        await gone.all()
        #expect(await task!.isGone())
        #expect(await control!.isGone())
    }

    @Test(.stress) func `Stress: the events of a released creator end while another thread cancels them`() async {
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
