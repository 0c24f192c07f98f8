import Dispatch
import FluxCore
import Foundation
import TestSupport
import Testing

/// The task that `fire` returns, for both forms of converters.
@Suite struct FluxTaskTests {
    let store = FluxStore(initialState: Log(), dispatcher: nil)

    @Test func `A callback conversion has completed when its handler is released`() async {
        let creator = FluxActionCreator<CounterConverter>(store: store)
        let hold = HandlerHold<Counter.Action>()
        let task = creator.fire(.hold(hold))
        await hold.isKept.opened()
        #expect(creator.inFlight == 1)
        hold.send(.add(1))
        hold.letGo()
        #expect(await task.outcome.name == "completed")
        #expect(creator.inFlight == 0)
        #expect(store.state.entries == [1])
    }

    @Test func `An asynchronous conversion has completed when it returns`() async {
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), store: store)
        #expect(await creator.fire(.add(5)).outcome.name == "completed")
        #expect(store.state.entries == [5])
    }

    @Test func `An error becomes the outcome and an action, and reaches onFailure`() async {
        let failures = Recorder<String>()
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), store: store) { [store] error, event in
            // The action comes first.
            failures.record("\(error) of \(event), \(store.state.entries)")
        }
        guard case .failed(let error) = await creator.fire(.fail(7)).outcome else {
            Issue.record("did not fail")
            return
        }
        #expect(error as? WorkConverter.Failure == .init(number: 7))
        #expect(store.state.entries == [-1])
        #expect(failures.values == ["Failure(number: 7) of fail(7), [-1]"])
        #expect(await creator.fire(.fail(0)).outcome.name == "failed")
        #expect(store.state.entries == [-1], "no action for this one")
        #expect(await creator.fire(.add(1)).outcome.name == "completed", "a failure does not end the creator")
    }

    @Test func `A task that awaits the outcome is not woken by actions sent before it`() async {
        let creator = FluxActionCreator<CounterConverter>(store: store)
        let (hold, executor) = (HandlerHold<Counter.Action>(), CountingExecutor())
        let task = creator.fire(.hold(hold))
        await hold.isKept.opened()
        let waiting = Task(executorPreference: executor) { await task.outcome.name }
        executor.finish()
        let jobs = executor.jobs.current
        for number in 0..<10 {
            hold.send(.add(number))
            executor.finish()
        }
        #expect(executor.jobs.current == jobs)
        hold.letGo()
        #expect(await waiting.value == "completed")
    }

    @Test func `A task that awaits the outcome keeps waiting while another observes the sent actions`() async {
        let creator = FluxActionCreator<CounterConverter>(store: store)
        let (hold, seen) = (HandlerHold<Counter.Action>(), Recorder<String>())
        let task = creator.fire(.hold(hold))
        await hold.isKept.opened()
        let waiting = Task { await task.outcome.name }
        let looking = Task { for await event in task.events { seen.record(event.name) } }
        for number in 1...10 {
            await seen.count(number)
            for _ in 0..<100 { await Task.yield() }
            hold.send(.add(number))
        }
        await seen.count(11)
        hold.letGo()
        #expect(await waiting.value == "completed")
        await looking.value
    }

    /// Runs jobs one after another, and counts them.
    private final class CountingExecutor: TaskExecutor {
        let jobs = Locked(0)
        private let queue = DispatchQueue(label: "CountingExecutor")

        func enqueue(_ job: consuming ExecutorJob) {
            let job = UnownedJob(job)
            jobs.withLock { $0 += 1 }
            queue.async { job.runSynchronously(on: self.asUnownedTaskExecutor()) }
        }

        /// Returns once all jobs enqueued before have run.
        func finish() { queue.sync {} }
    }

    @Test func `Conversions overlap, and start in the order fired`() async {
        let site = WorkConverter.Site { _ in true }
        let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store)
        let tasks = (0..<100).map { creator.fire(.add($0)) }
        await site.started.count(100)
        #expect(site.started.values == Array(0..<100))
        for number in (0..<100).reversed() { site.gate(number).open() }
        for task in tasks { #expect(await task.outcome.name == "completed") }
        #expect(store.state.entries.sorted() == Array(0..<100))
    }

    @Test func `Actions sent before the first suspension are applied in the order of firing`() async {
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), store: store)
        for number in 0..<1_000 { creator.fire(.add(number)) }
        creator.fire((1_000..<2_000).map { .add($0) })
        await creator.flush()
        #expect(store.state.entries == Array(0..<2_000))
    }

    @Test func `The life of an event is complete from its start, whenever a loop over it begins`() async {
        let scheduler = Scheduling(retrying: { _, attempt in attempt < 3 })
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), store: store, schedulers: [scheduler])
        let task = creator.fire(.fail(3))
        let live = Task { await task.events.reduce(into: []) { $0.append($1.name) } }
        for attempt in 1...2 {
            await scheduler.notes.count(1 + attempt)
            scheduler.ticket("fail(3)")?.start()
        }
        let expected = ["started", "retrying 1", "retrying 2", "sent", "failed"]
        #expect(await live.value == expected)
        let late = await task.events.reduce(into: []) { $0.append($1.name) }
        #expect(late == expected)
        #expect(
            await creator.fire(.fail(0)).events.prefix(1).reduce(into: []) { $0.append($1.name) } == ["started"])
        #expect(
            await creator.fire(.add(1)).events.reduce(into: []) { $0.append($1.name) } == [
                "started", "sent", "completed",
            ])
    }

    @Test func `The outcome of several events is the first error, or completed if all complete`() async {
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), store: store)
        let mixed = creator.fire([.add(1), .fail(2), .add(3)])
        guard case .failed(let error) = await mixed.outcome else {
            Issue.record("did not fail")
            return
        }
        #expect(error as? WorkConverter.Failure == .init(number: 2))
        #expect(store.state.entries.sorted() == [-1, 1, 3])
        #expect(await creator.fire([.add(1), .add(2)]).outcome.name == "completed")
        #expect(await creator.fire([]).outcome.name == "completed")
    }

    @Test func `The outcome of several events is a failure even if an earlier event was cancelled`() async {
        let (scheduler, site) = (Scheduling(), WorkConverter.Site { $0 == 1 })
        let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store, schedulers: [scheduler])
        let task = creator.fire([.add(1), .fail(2)])
        await site.started.count(2)
        scheduler.ticket("add(1)")?.cancel()
        #expect(await task.outcome.name == "failed")
        site.gate(1).open()
        await site.ended.count(2)
    }

    @Test func `The lives of several events are reported one after the other`() async {
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), store: store) { _, _ in }
        let life = await creator.fire([.add(1), .fail(0), .add(2)]).events.reduce(into: []) { $0.append($1.name) }
        #expect(life == ["started", "sent", "completed", "started", "failed", "started", "sent", "completed"])
    }

    @Test func `A cancelled wait returns cancelled while the event's failure is still being reported`() async {
        let (inside, gate) = (Gate(), Gate())
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), store: store) { _, _ in
            inside.open()
            gate.wait()
        }
        let task = creator.fire(.fail(0))
        await inside.opened()
        let waiting = Task { await task.outcome.name }
        waiting.cancel()
        #expect(await waiting.value == "cancelled")
        gate.open()
        #expect(await task.outcome.name == "failed")
    }

    @Test func `Cancelling the task of several events cancels each that has not ended`() async {
        let site = WorkConverter.Site { $0 > 1 }
        let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store)
        let task = creator.fire([.add(1), .add(2), .add(3)])
        await site.started.count(3)
        task.cancel()
        #expect(await task.outcome.name == "cancelled")
        #expect(task.isCancelled)
        #expect(creator.inFlight == 0)
        site.gate(2).open()
        site.gate(3).open()
        await site.ended.count(3)
        #expect(store.state.entries == [1])
    }

    @Test func `Releasing the task cancels nothing`() async {
        let site = WorkConverter.Site { _ in true }
        let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store)
        creator.fire(.add(1))
        await site.started.count(1)
        site.gate(1).open()
        await creator.flush()
        #expect(store.state.entries == [1])
    }

    @Test func `An action sent after the end is not dispatched, and is reported`() async {
        let reported = Recorder<String>()
        let creator = FluxActionCreator<Leaky>(dependency: .init(), store: store) { error, _ in
            reported.record("\(error)")
        }
        let leak = Leaky.Leak()
        #expect(await creator.fire(.init(leak: leak)).outcome.name == "completed")
        leak.send.current?(.add(1))
        #expect(store.state.entries.isEmpty)
        #expect(reported.values.count == 1)
        #expect(reported.values[0].contains("add(1) was sent after its conversion had returned"))
    }

    enum Leaky: FluxAsyncActionConverter {
        final class Leak: Sendable {
            let send = Locked<(@Sendable (Counter.Action) -> Void)?>(nil)
        }
        struct Event: FluxEvent { let leak: Leak }
        struct None: Sendable {}
        static func convert(
            event: Event, dependency: None, send: @escaping @Sendable (Counter.Action) -> Void
        ) async throws {
            event.leak.send.withLock { $0 = send }
        }
    }

    @Test func `A cancelled wait for several events returns cancelled even if one of them fails`() async {
        let site = WorkConverter.Site { $0 == 2 }
        let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store) { _, _ in }
        let failed = creator.fire(.fail(0))
        _ = await failed.outcome
        let several = creator.fire([.fail(1), .add(2)])
        let waiting = Task { await several.outcome.name }
        waiting.cancel()
        #expect(await waiting.value == "cancelled")
        site.gate(2).open()
        #expect(await several.outcome.name == "failed")
    }

    @Test func `A cancelled wait for the outcome returns, and the work continues`() async {
        let site = WorkConverter.Site { _ in true }
        let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store)
        let task = creator.fire(.add(1))
        let waiting = Task { await task.outcome.name }
        waiting.cancel()
        #expect(await waiting.value == "cancelled")
        site.gate(1).open()
        #expect(await task.outcome.name == "completed")
        #expect(!task.isCancelled)
    }

    @Test func `A failure without a last action sends no action`() async {
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), store: store) { _, _ in }
        let life = await creator.fire(.fail(0)).events.reduce(into: []) { $0.append($1.name) }
        #expect(life == ["started", "failed"])
    }

    @Test(arguments: [false, true])
    func `Cancelling an event cancels its Swift task even before the first suspension`(byTicket: Bool) async {
        let begun = Gate()
        let scheduler = Scheduling()
        let creator = FluxActionCreator<Blocking>(dependency: begun, store: store, schedulers: [scheduler])
        let task = creator.fire(.untilCancelled)
        await begun.opened()
        if byTicket { scheduler.ticket("untilCancelled")?.cancel() } else { task.cancel() }
        #expect(await task.outcome.name == "cancelled")
        await creator.flush()
    }

    @Test func `A conversion cancelled before it begins finds itself cancelled or does not begin`() async {
        for _ in 0..<2_000 {
            let creator = FluxActionCreator<Blocking>(dependency: Gate(), store: store)
            let task = creator.fire(.untilCancelled)
            task.cancel()
            await creator.flush()
        }
    }

    /// Blocks its thread until its Swift task is cancelled.
    enum Blocking: FluxAsyncActionConverter {
        enum Event: FluxEvent { case untilCancelled, atOnce }
        typealias Action = Counter.Action

        static func convert(
            event: Event, dependency begun: Gate, send: @escaping @Sendable (Action) -> Void
        ) async throws {
            if case .atOnce = event { return }
            let cancelled = Gate()
            await withTaskCancellationHandler {
                begun.open()
                wait(cancelled)
            } onCancel: {
                cancelled.open()
            }
        }

        private static func wait(_ gate: Gate) { gate.wait() }
    }

    @Test(arguments: [false, true])
    func `outcome, flush and shutdown return only after onFailure has returned`(isScheduled: Bool) async {
        for waits in 0..<3 {
            let (site, failures, inside) = (WorkConverter.Site { _ in true }, Recorder<Int>(), Gate())
            let creator = FluxActionCreator<WorkConverter>(
                dependency: site, store: store, schedulers: isScheduled ? [Scheduling()] : []
            ) { _, event in
                inside.open()
                for _ in 0..<1_000 { sched_yield() }
                failures.record(event.number)
            }
            let task = creator.fire(.fail(1))
            async let waiting: Void = {
                switch waits {
                case 0: _ = await task.outcome
                case 1: await creator.flush()
                default: _ = await creator.shutdown(within: .seconds(300))
                }
            }()
            site.gate(1).open()
            await waiting
            #expect(failures.values == [1])
        }
    }

    /// C9: The work has failed by then; the last action, the call of `onFailure` and the end are one step.
    @Test(arguments: [false, true])
    func `cancel during onFailure comes too late and does not wait`(isScheduled: Bool) async {
        let (inside, gate, told) = (Gate(), Gate(), Recorder<Int>())
        let creator = FluxActionCreator<WorkConverter>(
            dependency: .init(), store: store, schedulers: isScheduled ? [Scheduling()] : []
        ) { _, event in
            inside.open()
            gate.wait()
            told.record(event.number)
        }
        let task = creator.fire(.fail(1), on: DispatchQueue(label: "own"))
        await inside.opened()
        task.cancel()
        #expect(!task.isCancelled)
        let next = creator.fire(.add(2), on: DispatchQueue(label: "other"))
        #expect(await next.outcome.name == "completed")
        #expect(creator.inFlight == 1)
        let early = await creator.shutdown(within: .zero)
        #expect(early.completed == 1 && early.unfinished == 1 && early.failed == 0)
        gate.open()
        #expect(await task.outcome.name == "failed")
        await creator.flush()
        #expect(told.values == [1])
        #expect(creator.inFlight == 0)
        #expect(await creator.shutdown(within: .zero).failed == 1)
    }

    @Test func `An event that its onFailure cancels has failed`() async {
        let task = Locked<FluxTask?>(nil)
        let fired = Gate()
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), store: store) { _, _ in
            fired.wait()
            task.current?.cancel()
        }
        task.withLock { $0 = creator.fire(.fail(1)) }
        fired.open()
        #expect(await task.current?.outcome.name == "failed")
        await creator.flush()
    }

    @Test func `An asynchronous converter works through the callback form too`() async {
        let seen = Recorder<Int>()
        func convert<C: FluxActionConverter>(_ type: C.Type, _ event: C.Event, _ dependency: C.Dependency)
        where C.Action == Counter.Action {
            C.convert(event: event, dependency: dependency) { action in
                if case .add(let number) = action { seen.record(number) }
            }
        }
        convert(WorkConverter.self, .add(4), .init())
        convert(WorkConverter.self, .fail(4), .init())
        await seen.count(2)
        #expect(seen.values.sorted() == [-1, 4])
    }
}
