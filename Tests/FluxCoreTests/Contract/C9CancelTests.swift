import Dispatch
import FluxCore
import Foundation
import Testing

/// C9: once `FluxTask.cancel()` has returned, no further action of that event is dispatched.
@Suite struct C9CancelTests {
    @Test func `A cancelled event that has not started never does`() async {
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let creator = FluxActionCreator<CounterConverter>(store: store)
        let gate = Gate()
        creator.fire(.block(gate))
        let task = creator.fire(.add(1))
        task.cancel()
        #expect(await task.outcome.name == "cancelled")
        gate.open()
        await creator.flush()
        creator.fire(.add(2))
        await creator.flush()
        #expect(store.state.entries == [2])
    }

    @Test func `A callback that comes after the cancellation does nothing`() async {
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let creator = FluxActionCreator<CounterConverter>(store: store)
        let hold = HandlerHold<Counter.Action>()
        let task = creator.fire(.hold(hold))
        await hold.isKept.opened()
        hold.send(.add(1))
        task.cancel()
        hold.send(.add(2))
        #expect(store.state.entries == [1])
        #expect(await task.outcome.name == "cancelled")
        await creator.flush()
        hold.letGo()
        #expect(await task.outcome.name == "cancelled", "an end is for good")
    }

    @Test func `The Swift task inside is cancelled too`() async {
        enum Sleepy: FluxAsyncActionConverter {
            struct Event: FluxEvent {}
            static func convert(
                event: Event, dependency: TestClock, send: @escaping @Sendable (Counter.Action) -> Void
            ) async throws {
                try await dependency.sleep(for: .seconds(1))
                send(.add(1))
            }
        }
        let clock = TestClock()
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let failures = Recorder<Bool>()
        let creator = FluxActionCreator<Sleepy>(dependency: clock, store: store) { _, _ in failures.record(true) }
        let task = creator.fire(Sleepy.Event())
        await clock.sleepers(1)
        task.cancel()
        #expect(await task.outcome.name == "cancelled")
        clock.advance(by: .seconds(2))
        await creator.flush()
        #expect(store.state.entries.isEmpty)
        #expect(failures.values.isEmpty, "a cancellation is no failure")
    }

    @Test func `cancelAll ends what is in flight and nothing that is fired later`() async {
        let site = WorkConverter.Site { $0 < 10 }
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let creator = FluxActionCreator<WorkConverter>(dependency: site, store: store)
        let tasks = (0..<10).map { creator.fire(.add($0)) }
        await site.started.count(10)
        #expect(creator.inFlight == 10)
        creator.cancelAll()
        #expect(creator.inFlight == 0)
        for task in tasks { #expect(await task.outcome.name == "cancelled") }
        #expect(await creator.fire(.add(11)).outcome.name == "completed")
        for number in 0..<10 { site.gate(number).open() }
        await site.ended.count(11)
        #expect(store.state.entries == [11])
    }

    @Test func `A conversion may cancel itself while it sends`() async {
        let place = Locked<FluxTask?>(nil)
        let kept = Gate()
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let creator = FluxActionCreator<SelfCancelling>(dependency: { place.current?.cancel() }, store: store)
        let task = creator.fire(.init(kept: kept))
        place.withLock { $0 = task }
        kept.open()
        #expect(await task.outcome.name == "cancelled")
        await creator.flush()
        #expect(store.state.entries == [1])
    }

    enum SelfCancelling: FluxActionConverter {
        struct Event: FluxEvent { let kept: Gate }
        static func convert(
            event: Event, dependency: @escaping @Sendable () -> Void, actionHandler: @escaping (Counter.Action) -> Void
        ) {
            event.kept.wait()
            actionHandler(.add(1))
            dependency()
            actionHandler(.add(2))
        }
    }

    @Test(.stress) func `Stress: 100,000 rounds of cancel against a converter that sends, none after it returned`()
        async
    {
        let store = FluxStore(initialState: Watch(), dispatcher: nil)
        let creator = FluxActionCreator<Sender>(store: store)
        await onThreads(2) { _ in
            for _ in 0..<50_000 {
                let (sending, cancelled) = (Flag(), Flag())
                let task = creator.fire(Sender.Event(sending: sending, cancelled: cancelled))
                while !sending.isSet { sched_yield() }
                task.cancel()
                cancelled.set()
            }
        }
        await creator.flush()
        #expect(store.state.late == 0)
        #expect(store.state.count >= 100_000)
    }

    /// Counts the actions that were handled after the cancellation of their event had returned.
    struct Watch: FluxState {
        struct Action: FluxAction { let cancelled: Flag }
        var count = 0
        var late = 0
        mutating func handle(action: Action) -> Watch? {
            count += 1
            if action.cancelled.isSet { late += 1 }
            return self
        }
    }

    /// Sends until it is told that nobody wants it any longer, and a few times more.
    enum Sender: FluxActionConverter {
        struct Event: FluxEvent { let sending, cancelled: Flag }
        static func convert(
            event: Event, dependency: Void, actionHandler: @escaping @Sendable (Watch.Action) -> Void
        ) {
            var extra = 3
            while extra > 0 {
                actionHandler(Watch.Action(cancelled: event.cancelled))
                event.sending.set()
                if event.cancelled.isSet { extra -= 1 }
            }
        }
    }
}
