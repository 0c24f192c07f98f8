import Dispatch
import FluxCore
import FluxRouting
import TestSupport
import Testing

/// The seam before a dispatch.
@Suite struct InterceptorTests {
    let dispatcher = FluxDispatcher()
    let store: FluxStore<Log>

    init() { store = FluxStore(initialState: Log(), dispatcher: dispatcher) }

    @Test func `Interceptors run by priority, then in the order added, until they are removed`() {
        let order = Recorder<Int>()
        let registrations = [(1, 0), (2, 5), (3, 0), (4, -1), (5, 5)].map { number, priority in
            dispatcher.add(
                Intercept { action, next in
                    order.record(number)
                    return next(action)
                }, priority: priority)
        }
        #expect(dispatcher.add(1) == 1)
        #expect(order.values == [2, 5, 1, 3, 4])
        registrations[1].remove()
        registrations[1].remove()
        registrations[2].remove()
        #expect(dispatcher.add(1) == 1)
        #expect(order.values.suffix(3) == [5, 1, 4])
        registrations.forEach { $0.remove() }
        #expect(dispatcher.add(1) == 1)
        #expect(order.values.count == 8)
    }

    @Test func `A dispatch in the closure of removeInterceptors stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let dispatcher = FluxDispatcher()
            dispatcher.add(Intercept { action, next in next(action) })
            dispatcher.removeInterceptors { _ in
                dispatcher.add(1)
                return true
            }
        }
        let message = result.said
        #expect(message.contains("was used inside what picks interceptors"))
    }

    @Test func `next may be called twice, never, later, on another thread or with another action`() {
        let (queue, held) = (DispatchQueue(label: "later"), Gate())
        dispatcher.add(
            Intercept { action, next in
                switch action as? Counter.Action {
                case .add(1): return next(action) + next(action)
                case .add(2): return 0
                case .add(3):
                    queue.async {
                        held.wait()
                        next(Counter.Action.add(33))
                    }
                    return 0
                case .add(4): return next(LogOut())
                default: return next(action)
                }
            })
        #expect(dispatcher.add(1) == 2)
        #expect(dispatcher.add(2) == 0 && dispatcher.add(3) == 0 && dispatcher.add(4) == 0)
        #expect(store.state.entries == [1, 1])
        held.open()
        queue.sync {}
        #expect(store.state.entries == [1, 1, 33])
    }

    @Test func `next reports each store that announced a change, with its revision and its state`() {
        let counter = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let told = Recorder<String>()
        dispatcher.add(
            Intercept { action, next in
                next(action) { store, revision, state in told.record("\(store.stateType) \(revision) \(state)") }
            })
        dispatcher.add(Intercept { action, next in next(action) { _, _, _ in told.record("inner") } })
        #expect(dispatcher.add(1) == 2)
        let expected = [
            "inner", "inner", "Log 1 Log(entries: [1])",
            "Counter 1 \(counter.state)",
        ]
        #expect(told.values == expected)
        #expect(dispatcher.dispatch(action: LogOut()) == 0)
        #expect(told.values.count == 4)
    }

    @Test func `next.announced counts calls behind telling for earlier interceptors, and after the dispatch`() {
        let (before, behind) = (Recorder<[Int]>(), Recorder<[Int]>())
        let kept = Locked<FluxNext?>(nil)
        dispatcher.add(
            Intercept { action, next in
                let result = next(action)
                before.record([result, next.announced])
                return result
            })
        dispatcher.add(Intercept { action, next in next.telling { _, _, _ in }.telling { _, _, _ in }(action) })
        dispatcher.add(
            Intercept { action, next in
                kept.withLock { $0 = next }
                let twice = next(action) + next(action)
                behind.record([twice, next.announced])
                return twice
            })
        #expect(dispatcher.add(1) == 2)
        #expect(before.values == [[2, 2]] && behind.values == [[2, 2]])
        #expect(kept.current?(Counter.Action.add(2)) == 1 && kept.current?.announced == 3)
    }

    @Test func `next.telling reports the stores of both dispatchers for an action passed through another`() {
        let (other, outer, inner) = (FluxDispatcher(), Recorder<String>(), Recorder<String>())
        let counter = FluxStore(initialState: Counter(), dispatcher: other)
        func telling(_ told: Recorder<String>) -> Intercept {
            Intercept { action, next in next.telling { place, _, _ in told.record("\(place.stateType)") }(action) }
        }
        dispatcher.add(telling(outer))
        dispatcher.add(Intercept { action, next in next(action, through: other) })
        other.add(telling(inner))
        #expect(dispatcher.add(1) == 2)
        #expect(outer.values == ["Counter", "Log"] && inner.values == outer.values)
        #expect(counter.state.count == 1 && store.state.entries == [1])
    }

    @Test func `pass runs the interceptors and then only its closure, and deliver skips the interceptors`() {
        let passed = Recorder<String>()
        dispatcher.add(
            Intercept { action, next in
                passed.record("\(action)")
                return next(action)
            })
        let one = FluxStore(initialState: Log(), dispatcher: dispatcher)
        let info = FluxStoreInfo(one.handle)
        let announced = dispatcher.pass(Counter.Action.add(7)) { [dispatcher] action, report in
            dispatcher.deliver(action, to: info, telling: report) ?? -1
        }
        #expect(announced == 1 && one.state.entries == [7] && store.state.entries.isEmpty)
        #expect(dispatcher.deliver(LogOut(), to: info) == nil)
        #expect(FluxDispatcher().deliver(Counter.Action.add(8), to: info) == nil, "it is attached elsewhere")
        #expect(dispatcher.detach(one) && dispatcher.deliver(Counter.Action.add(8), to: info) == nil)
        #expect(one.state.entries == [7])
        dispatcher.add(1)
        #expect(passed.values == ["add(7)", "add(1)"])
        #expect(dispatcher.deliver(Counter.Action.add(2)) == 1, "past the interceptors")
        #expect(passed.values.count == 2 && store.state.entries == [1, 2])
    }

    @Test func `next.origin is the task that sent the action, and a kept next of cancelled work does nothing`() async {
        let kept = Locked<[FluxNext]>([])
        let keeping = dispatcher.add(
            Intercept { action, next in
                kept.withLock { $0.append(next) }
                return 0
            })
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let hold = HandlerHold<Counter.Action>()
        let task = creator.fire(.hold(hold))
        await hold.isKept.opened()
        hold.send(.add(1))
        dispatcher.add(2)
        let other = creator.fire(.add(3))
        _ = await other.outcome
        #expect(kept.current.map { $0.origin === task } == [true, false, false])
        #expect(kept.current[1].origin == nil && kept.current[2].origin === other)
        task.cancel()
        keeping.remove()
        #expect(kept.current.map { $0(Counter.Action.add(9)) } == [0, 1, 1])
        #expect(store.state.entries == [9, 9])
        hold.letGo()
    }

    @Test(arguments: [false, true])
    func `A kept next of cancelled work does nothing inside the work's next dispatch either`(isTelling: Bool) async {
        let (kept, results) = (Locked<FluxNext?>(nil), Recorder<Int>())
        dispatcher.add(
            Intercept { action, next in
                guard let known = kept.current else {
                    kept.withLock { $0 = isTelling ? next.telling { _, _, _ in } : next }
                    return 0
                }
                next.origin?.cancel()
                results.record(known(Counter.Action.add(1)))
                return next(action)
            })
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let hold = HandlerHold<Counter.Action>()
        let task = creator.fire(.hold(hold))
        await hold.isKept.opened()
        hold.send(.add(1))
        hold.send(.add(2))
        #expect(results.values == [0])
        #expect(store.state.entries == [2], "the action under way is still applied, and the kept one is not")
        hold.letGo()
        #expect(await task.outcome.isCancelled)
        kept.withLock { $0 = nil }
    }

    @Test func `The outcome of work is not known while a call of a kept next is running`() async {
        let (kept, inside, gate) = (Locked<FluxNext?>(nil), Gate(), Gate())
        dispatcher.add(Intercept.keeping(kept))
        dispatcher.add(
            Intercept { action, next in
                inside.open()
                gate.wait()
                return next(action)
            })
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let hold = HandlerHold<Counter.Action>()
        let task = creator.fire(.hold(hold))
        await hold.isKept.opened()
        hold.send(.add(1))
        let queue = DispatchQueue(label: "later")
        queue.async { kept.current?(Counter.Action.add(1)) }
        await inside.opened()
        task.cancel()
        let known = Flag()
        async let outcome: Void = {
            _ = await task.outcome
            known.set()
        }()
        for _ in 0..<1_000 { await Task.yield() }
        #expect(!known.isSet)
        gate.open()
        await outcome
        queue.sync {}
        hold.letGo()
    }

    @Test func `An action passed on with a kept next does not count as sent by the work`() async {
        let kept = Locked<FluxNext?>(nil)
        dispatcher.add(Intercept.keeping(kept))
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let hold = HandlerHold<Counter.Action>()
        let task = creator.fire(.hold(hold))
        await hold.isKept.opened()
        hold.send(.add(1))
        #expect(kept.current?(Counter.Action.add(1)) == 1)
        kept.withLock { $0 = nil }
        hold.letGo()
        let life = await task.events.reduce(into: []) { $0.append($1.name) }
        #expect(life == ["started", "sent", "completed"])
    }

    /// Records what becomes of events.
    private final class Told: FluxDispatchInterceptor {
        let notes = Recorder<String>()
        func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
            next(action)
        }
        func fired(_ event: any FluxEvent, _ task: FluxTask) { notes.record("fired \(event)") }
        func retried(_ event: any FluxEvent, attempt: Int, _ error: any Error, _ task: FluxTask) {
            notes.record("retried \(attempt)")
        }
        func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask) {
            notes.record("ended \(outcome.name)")
        }
    }

    @Test func `An interceptor is notified when an event is fired, is retried and ends`() async {
        let told = Told()
        dispatcher.add(told)
        let scheduler = Scheduling(retrying: { ticket, attempt in attempt < 2 })
        let creator = FluxActionCreator<WorkConverter>(
            dependency: .init(), dispatcher: dispatcher, schedulers: [scheduler])
        let task = creator.fire(.fail(1))
        await told.notes.count(2)
        scheduler.ticket("fail(1)")?.start()
        _ = await task.outcome
        await told.notes.count(3)
        #expect(told.notes.values == ["fired fail(1)", "retried 1", "ended failed"])
    }

    @Test func `An interceptor is notified of each of several events fired together`() async {
        let told = Told()
        dispatcher.add(told)
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        _ = await creator.fire([.add(1), .add(2)]).outcome
        #expect(told.notes.values.sorted() == ["ended completed", "ended completed", "fired add(1)", "fired add(2)"])
    }

    @Test func `A change that a gate holds back is not reported as applied`() {
        let told = Recorder<UInt64?>()
        store.handle.withAccess { access in
            access.hold { change in if case .action(.add(1)) = change { false } else { true } }
        }
        for action in [Counter.Action.add(1), .add(2), .addSilently(3)] {
            dispatcher.deliver(action) { _, revision, _ in told.record(revision) }
        }
        #expect(told.values == [1, nil])
    }

    @Test func `The end of an event cancelled during a retry notification is reported after the retry`() async {
        final class Cancelling: FluxDispatchInterceptor {
            func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
                next(action)
            }
            func retried(_ event: any FluxEvent, attempt: Int, _ error: any Error, _ task: FluxTask) { task.cancel() }
        }
        let told = Told()
        dispatcher.add(Cancelling())
        dispatcher.add(told)
        let creator = FluxActionCreator<WorkConverter>(
            dependency: .init(), dispatcher: dispatcher, schedulers: [Scheduling(retrying: { _, _ in true })])
        #expect(await creator.fire(.fail(1)).outcome.name == "cancelled")
        await told.notes.count(3)
        #expect(told.notes.values == ["fired fail(1)", "retried 1", "ended cancelled"])
    }

    @Test func `An interceptor may use stores at an event's end, even if handle released the action handler`() async {
        struct Letting: FluxState {
            typealias Action = LetGo
            func handle(action: LetGo) -> Letting? {
                action.hold.letGo()
                return nil
            }
        }
        struct LetGo: FluxAction { let hold: HandlerHold<Counter.Action> }
        struct Reading: FluxDispatchInterceptor {
            let store: FluxStore<Log>
            let read = Recorder<[Int]>()
            func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
                next(action)
            }
            func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask) {
                read.record(store.state.entries)
            }
        }
        let reading = Reading(store: store)
        dispatcher.add(reading)
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let hold = HandlerHold<Counter.Action>()
        let task = creator.fire(.hold(hold))
        // Runs on the same serial queue; once it has ended, only `hold` keeps the handler.
        _ = await creator.fire(.nothing).outcome
        FluxStore(initialState: Letting(), dispatcher: nil).dispatch(action: LetGo(hold: hold))
        #expect(await task.outcome.name == "completed")
        await reading.read.count(2)
        #expect(reading.read.values == [[], []])
    }

    @Test func `A registration keeps neither its dispatcher nor an interceptor that keeps the registration`() {
        let gone = Gate()
        weak var reference: FluxDispatcher?
        let registration: FluxRegistration
        do {
            let dispatcher = FluxDispatcher()
            reference = dispatcher
            let (canary, own) = (Canary(gone), Locked<FluxRegistration?>(nil))
            registration = dispatcher.add(
                Intercept { action, next in withExtendedLifetime((canary, own)) { next(action) } })
            own.withLock { $0 = registration }
            #expect(dispatcher.add(1) == 0)
        }
        #expect(gone.isOpen && reference == nil)
        registration.remove()
    }

    @Test func `An action skips an interceptor that is removed before the action reaches it`() {
        let (registration, seen) = (Locked<FluxRegistration?>(nil), Recorder<Int>())
        dispatcher.add(
            Intercept { action, next in
                registration.current?.remove()
                return next(action)
            })
        let late = dispatcher.add(
            Intercept { action, next in
                seen.record(1)
                return next(action)
            })
        registration.withLock { $0 = late }
        #expect(dispatcher.add(1) == 1)
        #expect(seen.values.isEmpty && store.state.entries == [1])
    }

    @Test func `A kept next without an origin runs without a current task, even inside an event's dispatch`() async {
        let (kept, current) = (Locked<FluxNext?>(nil), Recorder<Bool>())
        dispatcher.add(
            Intercept { action, next in
                guard let known = kept.current else {
                    kept.withLock { $0 = next }
                    return 0
                }
                let announced = known(action)
                current.record(FluxTask.current != nil)
                return announced + next(action)
            })
        dispatcher.add(
            Intercept { action, next in
                current.record(FluxTask.current != nil)
                return next(action)
            })
        dispatcher.add(1)
        _ = await FluxActionCreator<CounterConverter>(dispatcher: dispatcher).fire(.add(2)).outcome
        #expect(current.values == [false, true, true] && store.state.entries == [2, 2])
        kept.withLock { $0 = nil }
    }

    @Test(.stress) func `Stress: no action is lost while interceptors are added and removed`() async {
        let counted = Locked(0)
        await onThreads(3) { [dispatcher] thread in
            if thread > 0 {
                for _ in 0..<2_000 { if dispatcher.add(1) != 1 { Issue.record("lost") } }
                return
            }
            for _ in 0..<500 {
                let registration = dispatcher.add(
                    Intercept { action, next in
                        counted.withLock { $0 += 1 }
                        return next(action)
                    })
                registration.remove()
            }
        }
        #expect(store.state.entries.count == 4_000)
        let before = counted.current
        dispatcher.add(1)
        #expect(counted.current == before)
    }
}
