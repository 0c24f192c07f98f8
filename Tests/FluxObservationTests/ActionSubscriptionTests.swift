import FluxObservation
import Foundation
import TestSupport
import Testing

@testable import FluxCore

/// Subscriptions to actions, as the stores applied them.
@Suite struct ActionSubscriptionTests {
    struct Name: FluxState {
        enum Action: FluxAction { case set(String) }
        var name = ""
        mutating func handle(action: Action) -> Name? {
            if case .set(let new) = action { name = new }
            return self
        }
    }

    @Test func `A store reports every action it has applied, in order and with its revision`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = Recorder<String>()
        let subscription = store.subscribeActions { applied in
            seen.record("\(applied.action) \(applied.revision ?? 0) \(applied.store.isOf(store))")
        }
        store.dispatch(action: .add(1))
        store.dispatch(action: .addSilently(2))
        store.dispatch(action: .add(3))
        await seen.count(3)
        #expect(seen.values == ["add(1) 1 true", "addSilently(2) 0 true", "add(3) 2 true"])
        subscription.unsubscribe()
        store.dispatch(action: .add(4))
        #expect(seen.values.count == 3)
    }

    @MainActor final class Journal {
        var lines: [String] = []
    }

    @Test @MainActor func `Subscriptions to actions on the main queue call their handlers on the main actor`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let journal = Journal()
        let subscriptions = [
            store.subscribeActions(on: .main) { journal.lines.append("store \($0.action)") },
            dispatcher.subscribeActions(on: .main) { journal.lines.append("any \($0.action)") },
            dispatcher.subscribeActions(of: Counter.Action.self, on: .main) { applied in
                journal.lines.append("type \(applied.action)")
            },
            dispatcher.subscribeActions(of: Name.Action.self, on: .main) { _ in journal.lines.append("name") },
        ]
        dispatcher.dispatch(action: Counter.Action.add(1))
        await store.flush()
        #expect(journal.lines.sorted() == ["any add(1)", "store add(1)", "type add(1)"])
        FluxSubscription(subscriptions).unsubscribe()
    }

    @Test func `A dispatcher reports the actions of all its stores, also later ones, or those of one type`() async {
        let dispatcher = FluxDispatcher()
        let one = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let (all, names) = (Recorder<String>(), Recorder<String>())
        let subscriptions = [
            dispatcher.subscribeActions { applied in
                all.record("\(applied.store.isOf(one) ? "one" : "other") \(applied.action) \(applied.revision!)")
            },
            dispatcher.subscribeActions(of: Name.Action.self) { applied in
                if case .set(let name) = applied.action { names.record("\(name) \(applied.revision ?? 0)") }
            },
        ]
        let two = FluxStore(initialState: Name(), dispatcher: dispatcher)
        let three = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        dispatcher.dispatch(action: Counter.Action.add(1))
        dispatcher.dispatch(action: Name.Action.set("a"))
        three.dispatch(action: .add(2))
        two.dispatch(action: .set("b"))
        await all.count(5)
        await names.count(2)
        #expect(
            all.values == [
                "one add(1) 1", "other add(1) 1", "other set(\"a\") 1", "other add(2) 2", "other set(\"b\") 2",
            ])
        #expect(names.values == ["a 1", "b 2"])
        FluxSubscription(subscriptions).unsubscribe()
    }

    @Test(.stress)
    func `Stress: each action from two threads is reported once, in order of revisions, after it was applied`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let revisions = Recorder<Int>()
        let early = Locked(0)
        let subscription = dispatcher.subscribeActions { applied in
            let revision = Int(applied.revision ?? 0)
            if store.state.count < revision { early.withLock { $0 += 1 } }
            revisions.record(revision)
        }
        await onThreads(2) { index in
            for _ in 0..<5_000 {
                if index == 0 {
                    store.dispatch(action: .add(1))
                } else {
                    dispatcher.dispatch(action: Counter.Action.add(1))
                }
            }
        }
        await revisions.count(10_000)
        #expect(revisions.isCounting(to: 10_000))
        #expect(early.current == 0)
        subscription.unsubscribe()
    }

    @Test func `A kept token keeps neither the store nor the objects that its handler captured`() async {
        let (handlerGone, stateGone) = (Gate(), Gate())
        var store: FluxStore<Holding>? = FluxStore(
            initialState: Holding(canary: Canary(stateGone)), dispatcher: FluxDispatcher())
        let canary = Locked<Canary?>(Canary(handlerGone))
        let subscription = store?.subscribeActions { [canary = canary.current] _ in withExtendedLifetime(canary) {} }
        canary.withLock { $0 = nil }
        store?.dispatch(action: .add(1))
        store = nil
        await stateGone.opened()
        await handlerGone.opened()
        withExtendedLifetime(subscription) {}
    }

    @Test
    func `After the last subscription to actions ends, none is delivered, and a later one works as before`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        for _ in 0..<3 {
            let (own, all) = (Recorder<UInt64>(), Recorder<UInt64>())
            let tokens = [
                store.subscribeActions { own.record($0.revision!) },
                store.subscribeActions { own.record($0.revision!) },
                dispatcher.subscribeActions { all.record($0.revision!) },
            ]
            let late = FluxStore(initialState: Counter(), dispatcher: dispatcher)
            store.dispatch(action: .add(1))
            await own.count(2)
            await all.count(1)
            tokens[0].unsubscribe()
            tokens[2].unsubscribe()
            withExtendedLifetime(late) {}
            store.dispatch(action: .add(1))
            await own.count(3)
            tokens[1].unsubscribe()
            store.dispatch(action: .add(1))
            await store.flush()
            #expect(own.values.count == 3)
            #expect(all.values.count == 1)
        }
    }

    @Test func `flush waits until actions are delivered to subscriptions of the store and of its dispatcher`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let (own, all) = (Recorder<Int>(), Recorder<Int>())
        let slow: @Sendable (Recorder<Int>) -> Void = { recorder in
            for _ in 0..<100 { sched_yield() }
            recorder.record(1)
        }
        let tokens = [store.subscribeActions { _ in slow(own) }, dispatcher.subscribeActions { _ in slow(all) }]
        for round in 1...50 {
            store.dispatch(action: .add(1))
            await store.flush()
            #expect(own.values.count == round && all.values.count == round)
        }
        withExtendedLifetime(tokens) {}
    }

    @Test func `Subscriptions to a dispatcher share one observer per store until the last of them ends`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let seen = Recorder<Int>()
        for round in 0..<3 {
            let queue = DispatchQueue(label: "one for all")
            let tokens = (0..<10).map { index in
                dispatcher.subscribeActions(on: queue) { _ in seen.record(index) }
            }
            // One observer on each store serves all of them.
            #expect(store.handle.withAccess { $0.observers.count } == 1)
            dispatcher.dispatch(action: Counter.Action.add(1))
            await store.flush()
            #expect(seen.values.count == round * 11 + 10)
            #expect(seen.values.suffix(10) == Array(0..<10))
            // The one that is left continues.
            for token in tokens.dropFirst() { token.unsubscribe() }
            let late = FluxStore(initialState: Name(), dispatcher: dispatcher)
            dispatcher.dispatch(action: Name.Action.set("late"))
            await late.flush()
            #expect(seen.values.count == round * 11 + 11)
            tokens[0].unsubscribe()
            #expect(store.handle.withAccess { $0.observers.isEmpty })
            dispatcher.dispatch(action: Counter.Action.add(1))
            await store.flush()
            #expect(seen.values.count == round * 11 + 11)
        }
    }

    @Test func `A released dispatcher releases its handlers of actions, even if their tokens are kept`() {
        let gates = [Gate(), Gate()]
        var dispatcher: FluxDispatcher? = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        dispatcher?.attach(keeping: store)
        let tokens = gates.map { gate in
            let canary = Canary(gate)
            return dispatcher?.subscribeActions { _ in withExtendedLifetime(canary) {} }
        }
        dispatcher = nil
        for gate in gates { gate.wait() }
        store.dispatch(action: .add(1))
        withExtendedLifetime((tokens, store)) {}
    }

    @Test(.timeLimit(.minutes(1)))
    func `A dispatcher stops reporting a store that ends or is detached, and keeps reporting the others`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        var ending: FluxStore<Counter>? = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let leaving = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let seen = Recorder<String>()
        let token = dispatcher.subscribeActions { seen.record("\($0.action)") }
        ending?.dispatch(action: .add(1))
        ending = nil
        leaving.dispatch(action: .add(2))
        dispatcher.detach(leaving)
        leaving.dispatch(action: .add(3))
        store.dispatch(action: .add(4))
        await seen.count(3)
        #expect(seen.values == ["add(1)", "add(2)", "add(4)"])
        #expect(leaving.handle.withAccess { $0.observers.isEmpty })
        token.unsubscribe()
    }

    @Test func `A dispatcher whose subscriptions have ended does not observe stores attached later`() {
        let dispatcher = FluxDispatcher()
        for _ in 0..<3 {
            dispatcher.subscribeActions { _ in }.unsubscribe()
            let late = FluxStore(initialState: Counter(), dispatcher: dispatcher)
            #expect(late.handle.withAccess { $0.observers.isEmpty })
            #expect(dispatcher.routes.withLock { $0.observers.count } == 1, "however often others came and went")
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `Replacing the state of a store is not reported as an action`() async {
        struct Loaded: FluxAction {}
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(count: 2), dispatcher: dispatcher)
        let (own, all) = (Recorder<String>(), Recorder<String>())
        let tokens = [
            store.subscribeActions { own.record("\($0.action)") },
            dispatcher.subscribeActions { all.record("\(type(of: $0.action)) \($0.revision ?? 0)") },
        ]
        store.handle.withAccess { _ = $0.replace(with: Counter(count: 5), by: Loaded()) }
        store.dispatch(action: .add(1))
        await own.count(1)
        await all.count(1)
        await store.flush()
        #expect(own.values == ["add(1)"])
        #expect(all.values == ["Action 2"])
        FluxSubscription(tokens).unsubscribe()
    }

    @Test(.stress) func `Stress: a dispatcher subscription that begins as the last one ends misses no action`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        await onThreads(2) { producer in
            for number in 0..<1_000 {
                let told = DispatchSemaphore(value: 0)
                let token = dispatcher.subscribeActions { applied in
                    if case .mark(producer, number)? = applied.action as? Counter.Action { told.signal() }
                }
                store.dispatch(action: .mark(producer: producer, number: number))
                if told.wait(timeout: .now() + 60) == .timedOut { Issue.record("an action was lost") }
                token.unsubscribe()
            }
        }
    }

    @Test(.stress) func `Stress: a store subscription that begins as others end misses no action`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: FluxDispatcher())
        await onThreads(2) { _ in
            for _ in 0..<500 {
                let told = DispatchSemaphore(value: 0)
                let token = store.subscribeActions { _ in told.signal() }
                store.dispatch(action: .add(1))
                if told.wait(timeout: .now() + 60) == .timedOut { Issue.record("an action was lost") }
                token.unsubscribe()
            }
        }
    }

    @Test(.stress) func `Stress: the second subscriber of a dispatcher misses nothing while the first starts`() async {
        let missed = Locked(0)
        for _ in 0..<100 {
            let dispatcher = FluxDispatcher()
            let stores = (0..<200).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
            let arrived = Locked(0)
            await onThreads(2) { index in
                let seen = Recorder<Int>()
                arrived.withLock { $0 += 1 }
                while arrived.current < 2 {}
                let token = dispatcher.subscribeActions { applied in
                    if case .mark(index, let number)? = applied.action as? Counter.Action { seen.record(number) }
                }
                // Not through the dispatcher, whose lock would make this thread wait for the first subscriber.
                for (number, store) in stores.enumerated().reversed() {
                    store.dispatch(action: .mark(producer: index, number: number))
                }
                let flushed = Gate()
                Task {
                    for store in stores { await store.flush() }
                    flushed.open()
                }
                flushed.wait()
                if seen.values != (0..<200).reversed() { missed.withLock { $0 += 1 } }
                token.unsubscribe()
            }
        }
        #expect(missed.current == 0)
    }

    struct Holding: FluxState {
        var canary: Canary?
        mutating func handle(action: Counter.Action) -> Holding? { self }
    }
}
