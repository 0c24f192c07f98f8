import Dispatch
import FluxCore
import Foundation
import TestSupport
import Testing

/// C9: once `FluxTask.cancel()` has returned, no further action of that event passes the gate.
///
/// The outcome is known after the actions that had passed.
@Suite struct C9CancelTests {
    @Test func `An event cancelled before its start never starts`() async {
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

    @Test func `An action that a callback sends after the cancellation has no effect`() async {
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

    @Test func `Cancelling an event also cancels its Swift task`() async {
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

    @Test func `Events that share a conversion are not converted after their cancellation`() async {
        enum Doing: FluxActionConverter {
            struct Event: FluxEvent { let body: @Sendable () -> Void }
            static func convert(event: Event, dependency: Void, actionHandler: @escaping (Counter.Action) -> Void) {
                event.body()
            }
        }
        let (entered, gate, second) = (Gate(), Gate(), Flag())
        let creator = FluxActionCreator<Doing>(dispatcher: FluxDispatcher())
        let blocking = Doing.Event {
            entered.open()
            gate.wait()
        }
        let task = creator.fire([blocking, Doing.Event { second.set() }])
        await entered.opened()
        task.cancel()
        gate.open()
        // Runs on the same serial queue, and so after those events.
        _ = await creator.fire(Doing.Event {}).outcome
        #expect(await task.outcome.isCancelled && !second.isSet)
    }

    @Test(arguments: [false, true])
    func `Cancelling all events at once starts none that waits for another to end`(byTask: Bool) async {
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let scheduler = OneAtATime()
        let creator = FluxActionCreator<CounterConverter>(store: store, schedulers: [scheduler])
        let hold = HandlerHold<Counter.Action>()
        let task = creator.fire([.hold(hold), .add(1)])
        await hold.isKept.opened()
        if byTask { task.cancel() } else { creator.cancelAll() }
        let life = await task.events.reduce(into: []) { $0.append($1.name) }
        #expect(life == ["started", "cancelled", "cancelled"] && scheduler.started.current == 1)
        hold.letGo()
    }

    /// Starts each event once the one before it has ended.
    private final class OneAtATime: FluxScheduler {
        let started = Locked(0)
        private let tickets = FluxLock<[FluxTicket]>([])

        func fired(_ ticket: FluxTicket) {
            let isFirst = tickets.withLock { tickets in
                tickets.append(ticket)
                return tickets.count == 1
            }
            if isFirst { start(ticket) }
        }

        func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) {
            let next = tickets.withLock { tickets in
                let wasFirst = tickets.first === ticket
                tickets.removeAll { $0 === ticket }
                return wasFirst ? tickets.first : nil
            }
            if let next { start(next) }
        }

        private func start(_ ticket: FluxTicket) {
            started.withLock { $0 += 1 }
            ticket.start()
        }
    }

    @Test func `cancelAll ends the events in flight and none that is fired later`() async {
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

    @Test func `A conversion may cancel its own event between two sends`() async {
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

    @Test func `cancel does not wait for a running action, but the outcome does`() async {
        let (dispatcher, inside, gate) = (FluxDispatcher(), Gate(), Gate())
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher)
        dispatcher.add(
            Intercept { action, next in
                let announced = next(action)
                inside.open()
                gate.wait()
                return announced
            })
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let task = creator.fire(.addMany([1, 2]))
        await inside.opened()
        task.cancel()
        #expect(task.isCancelled)
        let known = Flag()
        async let outcome = {
            let outcome = await task.outcome.name
            known.set()
            return outcome
        }()
        for _ in 0..<1_000 { await Task.yield() }
        #expect(!known.isSet)
        #expect(creator.inFlight == 1)
        gate.open()
        #expect(await outcome == "cancelled")
        #expect(store.state.entries == [1])
        #expect(creator.inFlight == 0)
    }

    @Test func `The outcome of several cancelled events is known only after their last running action`() async {
        let (dispatcher, inside, gate) = (FluxDispatcher(), Gate(), Gate())
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher)
        dispatcher.add(
            Intercept { action, next in
                inside.open()
                gate.wait()
                return next(action)
            })
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), dispatcher: dispatcher)
        let task = creator.fire([.add(1), .add(2)])
        await inside.opened()
        task.cancel()
        let known = Flag()
        async let outcome = {
            let outcome = await task.outcome.name
            known.set()
            return outcome
        }()
        for _ in 0..<1_000 { await Task.yield() }
        #expect(!known.isSet)
        gate.open()
        #expect(await outcome == "cancelled")
        #expect(creator.inFlight == 0)
        withExtendedLifetime(store) {}
    }

    @Test func `A shutdown whose deadline passes during an action returns and counts it as unfinished`() async {
        let (dispatcher, inside, gate) = (FluxDispatcher(), Recorder<Int>(), Gate())
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        dispatcher.add(
            Intercept { action, next in
                inside.record(1)
                gate.wait()
                return next(action)
            })
        let creator = FluxActionCreator<WorkConverter>(dependency: .init(), dispatcher: dispatcher)
        let tasks = (0..<4).map { creator.fire(.add($0), on: DispatchQueue(label: "\($0)")) }
        await inside.count(4)
        let account = await creator.shutdown(within: .zero)
        #expect(account.unfinished == 4 && account.cancelled == 0 && account.completed == 0)
        gate.open()
        for task in tasks { #expect(await task.outcome.name == "cancelled") }
        let later = await creator.shutdown(within: .zero)
        #expect(later.unfinished == 0 && later.cancelled == 4)
        withExtendedLifetime(store) {}
    }

    @Test func `The closure of onCancel is called once on cancellation, and never for another end`() async {
        for round in 0..<500 {
            let calls = Locked(0)
            let (begun, holds) = (Gate(), Gate())
            let creator = FluxActionCreator<Cancellable>(
                dependency: (), store: FluxStore(initialState: Counter(), dispatcher: nil))
            let task = creator.fire(.init(begun: begun, holds: holds) { calls.withLock { $0 += 1 } })
            await begun.opened()
            if round % 2 == 0 {
                await onThreads(2) { index in if index == 0 { task.cancel() } else { holds.open() } }
            } else {
                holds.open()
            }
            await creator.flush()
            let outcome = await task.outcome.name
            await creator.flush()
            #expect(calls.current == (outcome == "cancelled" ? 1 : 0), "\(outcome)")
        }
    }

    @Test(.stress) func `Stress: a closure of onCancel added during a cancel is called at most once`() async {
        for _ in 0..<3_000 {
            let (begun, holds, calls) = (Gate(), Gate(), Locked(0))
            holds.open()
            let place = Locked<FluxTask?>(nil)
            let creator = FluxActionCreator<Cancellable>(
                dependency: (), store: FluxStore(initialState: Counter(), dispatcher: nil))
            let task = creator.fire(.init(begun: begun, holds: holds) { calls.withLock { $0 += 1 } })
            place.withLock { $0 = task }
            task.cancel()
            await creator.flush()
            if calls.current > 1 {
                Issue.record("\(calls.current) calls")
                return
            }
        }
    }

    /// Calls the closure of its event when the event is cancelled.
    enum Cancellable: FluxActionConverter {
        struct Event: FluxEvent {
            let begun, holds: Gate
            let cancelled: @Sendable () -> Void
        }
        static var sharesConversions: Bool { false }
        static func convert(
            event: Event, dependency: Void, actionHandler: @escaping @Sendable (Counter.Action) -> Void
        ) {}
        static func start(_ conversion: FluxConversion<Self>) {
            conversion.onCancel(conversion.event.cancelled)
            conversion.event.begun.open()
            conversion.event.holds.wait()
            conversion.end(.completed)
        }
    }

    /// The store counts all actions, and those that it handles after the cancel of their event has returned.
    @Test(.stress)
    func `Stress: at most one action of an event is applied after cancel has returned`() async {
        let store = FluxStore(initialState: Watch(), dispatcher: nil)
        let creator = FluxActionCreator<Sender>(store: store)
        let early = Locked(0)
        await onThreads(2) { _ in
            for round in 0..<5_000 {
                let (sending, cancelled) = (Flag(), Flag())
                let task = creator.fire(Sender.Event(sending: sending, cancelled: cancelled))
                while !sending.isSet { sched_yield() }
                task.cancel()
                cancelled.set()
                if round % 100 == 0 {
                    // The outcome is known after the actions that had passed; no further action of this event comes.
                    let done = Gate()
                    Task {
                        _ = await task.outcome
                        done.open()
                    }
                    done.wait()
                    early.withLock { $0 += 1 }
                }
            }
        }
        await creator.flush()
        // An action that had passed the gate may be handled after cancel has returned, but only one per event.
        #expect(store.state.lateOfOne <= 1)
        #expect(store.state.count >= 10_000)
        #expect(early.current == 100)
    }

    @Test(.stress) func `Stress: a store applies no action of an event once its outcome is known`() async {
        let store = FluxStore(initialState: Watch(), dispatcher: nil)
        let creator = FluxActionCreator<Sender>(store: store)
        for _ in 0..<2_000 {
            let (sending, known) = (Flag(), Flag())
            let task = creator.fire(Sender.Event(sending: sending, cancelled: known))
            while !sending.isSet { await Task.yield() }
            task.cancel()
            _ = await task.outcome
            known.set()
        }
        await creator.flush()
        #expect(store.state.late == 0)
    }

    /// Counts all actions, and those handled after the cancel of their event had returned.
    struct Watch: FluxState {
        struct Action: FluxAction { let cancelled: Flag }
        var count = 0
        var late = 0
        var lateOfOne = 0
        var last: (flag: Flag, late: Int)?
        mutating func handle(action: Action) -> Watch? {
            count += 1
            if action.cancelled.isSet {
                late += 1
                let before = last?.flag === action.cancelled ? last?.late ?? 0 : 0
                last = (action.cancelled, before + 1)
                lateOfOne = max(lateOfOne, before + 1)
            }
            return self
        }
    }

    /// Sends until its event has been cancelled, and three times more.
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

    @Test(.stress) func `Stress: either a cancel or a failure wins, and outcome, action and onFailure agree`() async {
        let store = FluxStore(initialState: Log(), dispatcher: nil)
        let told = Locked(0)
        let creator = FluxActionCreator<Ending>(dependency: (), store: store) { _, _ in told.withLock { $0 += 1 } }
        var failed = 0
        for round in 0..<3_000 {
            let before = store.state.entries.count
            let task = creator.fire(.init(number: round), on: .global())
            if round % 3 == 0 { sched_yield() }
            task.cancel()
            let outcome = await task.outcome
            let sent = store.state.entries.count - before
            if outcome.error != nil { failed += 1 }
            if (outcome.error != nil) != (sent == 1) || task.isCancelled == (sent == 1) {
                Issue.record("\(outcome), and \(sent) sent")
                return
            }
        }
        await creator.flush()
        #expect(told.current == failed)
    }

    /// Fails at once, with a last action that is part of the end.
    enum Ending: FluxAsyncActionConverter {
        struct Event: FluxEvent { let number: Int }
        struct Failure: Error {}
        static func convert(
            event: Event, dependency: Void, send: @escaping @Sendable (Counter.Action) -> Void
        ) async throws {
            throw Failure()
        }
        static func action(for error: any Error, event: Event) -> Counter.Action? { .add(event.number) }
    }
}
