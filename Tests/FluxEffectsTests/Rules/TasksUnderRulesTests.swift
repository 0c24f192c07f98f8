import Dispatch
import FluxCore
import FluxEffects
import Foundation
import TestSupport
import Testing

/// What a task reports about an event with rules.
@Suite struct TasksUnderRulesTests {
    let store = FluxStore(initialState: Log(), dispatcher: nil)

    /// Fails at once, or sleeps until it is cancelled.
    enum Asking: FluxAsyncActionConverter {
        enum Event: FluxEvent { case wait, fail }
        struct Failure: Error {}
        typealias Action = Log.Action
        static func convert(
            event: Event, dependency asked: Recorder<String>, send: @escaping @Sendable (Log.Action) -> Void
        ) async throws {
            Asking.asked.withLock { $0 = asked }
            if event == .fail { throw Failure() }
            try await Task.sleep(for: .seconds(600))
        }
        static let asked = Locked<Recorder<String>?>(nil)
        static func action(for error: any Error, event: Event) -> Log.Action? {
            asked.current?.record("\(type(of: error))")
            return nil
        }
    }

    @Test func `A converter is asked for the action of a failure after the last attempt, not after a cancel`() async {
        let asked = Recorder<String>()
        let creator = FluxActionCreator<Asking>(
            dependency: asked, store: store, rules: [.retry(limit: 3)], onFailure: { _, _ in })
        #expect(await creator.fire(.fail).outcome.name == "failed")
        #expect(asked.values == ["Failure"])
        let task = creator.fire(.wait)
        while await !task.events.contains(where: { $0.name == "started" }) {}
        task.cancel()
        await creator.flush()
        #expect(asked.values == ["Failure"])
    }

    @Test func `The events of a task can be read from the start at any time`() async {
        let clock = TestClock()
        let creator = FluxActionCreator<WorkConverter>(
            dependency: .init(), store: store,
            rules: [.retry(for: FluxRule.caseName, limit: 2, backoff: .constant(.seconds(1)))], clock: clock)
        let task = creator.fire(.fail(3))
        let live = Task { await task.events.reduce(into: []) { $0.append($1.name) } }
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        let expected = ["started", "retrying 1", "retrying 2", "sent", "failed"]
        #expect(await live.value == expected)
        let late = await task.events.reduce(into: []) { $0.append($1.name) }
        #expect(late == expected)
        #expect(
            await creator.fire(.add(1)).events.reduce(into: []) { $0.append($1.name) } == [
                "started", "sent", "completed",
            ])
    }

    @Test func `A task of several events fails with the first error, and completes if all of them complete`() async {
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

    @Test func `Cancelling a task of several events cancels those that still run`() async {
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

    @Test func `Releasing a task does not cancel its event`() async {
        let site = WorkConverter.Site { _ in true }
        let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store)
        creator.fire(.add(1))
        await site.started.count(1)
        site.gate(1).open()
        await creator.flush()
        #expect(store.state.entries == [1])
    }

    @Test func `An action sent after its conversion has returned is reported and not dispatched`() async {
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

    @Test(arguments: [false, true])
    func `Cancelling a conversion that has not suspended yet cancels its Swift task too`(byRule: Bool) async {
        let begun = Gate()
        let creator = FluxActionCreator<Blocking>(
            dependency: begun, store: store, rules: [.unique(cancelling: .earlier, for: { _ in 1 })])
        let task = creator.fire(.untilCancelled)
        await begun.opened()
        if byRule { creator.fire(.atOnce) } else { task.cancel() }
        #expect(await task.outcome.name == "cancelled")
        await creator.flush()
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

    @Test(arguments: [[], [FluxRule<WorkConverter.Event>.sequence { _ in 1 }]])
    func `The outcome, a flush and a shutdown wait until a failure has been reported`(
        rules: [FluxRule<WorkConverter.Event>]
    ) async {
        for waits in 0..<3 {
            let (site, failures, inside) = (WorkConverter.Site { _ in true }, Recorder<Int>(), Gate())
            let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store, rules: rules) { _, event in
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

    /// C9: The work has failed by then; only the report is left.
    @Test(arguments: [[], [FluxRule<WorkConverter.Event>.sequence { _ in 1 }]])
    func `Cancelling an event while its failure is being reported does not block`(
        rules: [FluxRule<WorkConverter.Event>]
    ) async {
        let (inside, gate, told) = (Gate(), Gate(), Recorder<Int>())
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), store: store, rules: rules) { _, event in
            inside.open()
            gate.wait()
            told.record(event.number)
        }
        let queue = DispatchQueue(label: "own")
        let task = creator.fire(.fail(1), executionQueue: queue)
        await inside.opened()
        let next = creator.fire(.add(2), executionQueue: DispatchQueue(label: "other"))
        if rules.isEmpty { _ = await next.outcome }
        #expect(creator.inFlight == (rules.isEmpty ? 1 : 2))
        task.cancel()
        gate.open()
        #expect(await task.outcome.name == "failed")
        #expect(told.values == [1])
        #expect(await next.outcome.name == "completed")
        #expect(!task.isCancelled)
        await creator.flush()
        #expect(creator.inFlight == 0)
        let counts = await creator.shutdown(within: .zero)
        #expect((counts.completed, counts.failed) == (1, 1))
    }
}
