import Dispatch
import FluxCore
import FluxObservation
import Foundation
import TestSupport
import Testing

/// C11: a view never shows an action's effect on one store without its effect on the others.
@Suite struct C11CutTests {
    struct Other: FluxState {
        var count = 0
        mutating func handle(action: Counter.Action) -> Other? {
            if case .add(let amount) = action { count += amount }
            return self
        }
    }

    /// Reads and watches a view of stores that a dispatcher changes in step; returns the values that are out of step.
    private func tears(
        _ view: FluxView<[Int]>, while dispatch: @escaping @Sendable () -> Void
    ) async -> [[Int]] {
        let torn = Recorder<[Int]>()
        let see: @Sendable ([Int]) -> Void = { if Set($0).count > 1 { torn.record($0) } }
        let tokens = [view.subscribe(startingWithCurrent: true, see), view.subscribe(.latest, see)]
        let watch = Watch(view.states, see)
        await onThreads(2) { index in
            if index == 0 { return dispatch() }
            for _ in 0..<3_000 { see(view.state) }
        }
        await view.flush()
        await watch.end()
        tokens.forEach { $0.unsubscribe() }
        return torn.values
    }

    @Test func `A cut reads each object once, even if the value is nil`() {
        let (cut, one, other, count) = (FluxCut(), Gate(), Gate(), Locked(0))
        func read(_ object: AnyObject, _ value: Int?) -> Int? {
            cut.reading(of: object) {
                count.withLock { $0 += 1 }
                return value
            }
        }
        #expect(read(one, 7) == 7 && read(one, 8) == 7)
        #expect(read(other, nil) == nil && read(other, 9) == nil)
        #expect(count.current == 2)
    }

    @Test(.stress) func `Stress: three stores of one dispatcher stay in step while a view is read and watched`() async {
        let dispatcher = FluxDispatcher()
        let one = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let two = FluxStore(initialState: Other(), dispatcher: dispatcher)
        let three = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let view = FluxView(one, two, three) { [$0.count, $1.count, $2.count] }
        let torn = await tears(view) { for _ in 0..<5_000 { dispatcher.dispatch(action: Counter.Action.add(1)) } }
        #expect(torn == [])
        #expect(view.state == [5_000, 5_000, 5_000])
    }

    /// Blocks in the middle of an action, when the stores before it have applied it and those after it have not.
    struct Slow: FluxState {
        let begun = Gate()
        let goesOn = Gate()

        mutating func handle(action: Counter.Action) -> Slow? {
            begun.open()
            goesOn.wait()
            return self
        }
    }

    @Test(.stress) func `Stress: stores that return from another dispatcher during a cut are in step`() async {
        for _ in 0..<50 {
            let (home, other) = (FluxDispatcher(), FluxDispatcher())
            let first = FluxStore(initialState: Counter(), dispatcher: home)
            let last = FluxStore(initialState: Other(), dispatcher: home)
            let view = FluxView(first, last) { [$0.count, $1.count] }
            #expect(view.state == [0, 0])
            let state = Slow()
            let slow = FluxStore(initialState: state, dispatcher: nil)
            other.attach(first)
            other.attach(slow)
            other.attach(last)
            await onThreads(5) { index in
                if index == 0 { other.dispatch(action: Counter.Action.add(1)) } else { state.begun.wait() }
                if index == 1 { home.attach(first) }
                if index == 2 { home.attach(last) }
                // The stores are on their way back from here until the action ends.
                if index > 2 { while home.stores.count < 2 { sched_yield() } }
                if index == 3 { #expect([[0, 0], [1, 1]].contains(view.state)) }
                if index == 4 {
                    for _ in 0..<1_000 { _ = home.stores }
                    state.goesOn.open()
                }
            }
        }
    }

    @Test(.stress) func `Stress: views of views that share stores are in step`() async {
        let dispatcher = FluxDispatcher()
        let one = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let two = FluxStore(initialState: Other(), dispatcher: dispatcher)
        let both = FluxView(one, two) { [$0.count, $1.count] }
        let part = two.view(\.count)
        let view = FluxView(both, part, one) { $0 + [$1, $2.count] }
        let torn = await tears(view) { for _ in 0..<3_000 { dispatcher.dispatch(action: Counter.Action.add(1)) } }
        #expect(torn == [])
    }

    @Test(.stress) func `Stress: views of arrays of sources are in step, and a view of no sources has a value`() async {
        let dispatcher = FluxDispatcher()
        let stores = (0..<5).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
        let other = FluxStore(initialState: Other(), dispatcher: dispatcher)
        let all = FluxView(stores) { $0.map(\.count) }
        let view = FluxView([all, FluxView(other) { [$0.count] }, all]) { Array($0.joined()) }
        let torn = await tears(view) { for _ in 0..<3_000 { dispatcher.dispatch(action: Counter.Action.add(1)) } }
        #expect(torn == [])
        #expect(view.state == Array(repeating: 3_000, count: 11))
        #expect(FluxView([FluxStore<Counter>]()) { $0.count }.state == 0, "of none there is a value too")
    }

    @Test(.stress) func `Stress: a store that appears twice in a view is read once, even without a dispatcher`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let view = FluxView(store.view(\.count), store, store) { [$0, $1.count, $2.count] }
        let torn = await tears(view) { for _ in 0..<5_000 { store.dispatch(action: .add(1)) } }
        #expect(torn == [])
        let pair = FluxView(store, store) { [$0.count, $1.count] }
        let triple = FluxView(store, store, store) { [$0.count, $1.count, $2.count] }
        for view in [pair, triple] {
            let torn = await tears(view) { for _ in 0..<5_000 { store.dispatch(action: .add(1)) } }
            #expect(torn == [])
        }
        let states = FluxView(pair, triple) { $0 + $1 }.state
        #expect(states == Array(repeating: 15_000, count: 5), "and as part of another view")
    }

    @Test(.stress) func `Stress: in a view over two dispatchers, the stores of each dispatcher are in step`() async {
        let dispatchers = [FluxDispatcher(), FluxDispatcher()]
        let stores = (0..<4).map { FluxStore(initialState: Counter(), dispatcher: dispatchers[$0 / 2]) }
        let near = FluxView(stores[0], stores[1], stores[2], stores[3]) {
            [[$0.count, $1.count], [$2.count, $3.count]]
        }
        // Created in reverse order: two cuts that took the locks in the views' orders could deadlock.
        let far = FluxView(stores[3], stores[0]) { $0.count + $1.count }
        let torn = Recorder<[[Int]]>()
        await onThreads(4) { index in
            for _ in 0..<2_000 {
                switch index {
                case 0, 1: dispatchers[index].dispatch(action: Counter.Action.add(1))
                case 2:
                    let state = near.state
                    if state.contains(where: { $0[0] != $0[1] }) { torn.record(state) }
                default: _ = far.state
                }
            }
        }
        #expect(torn.values == [])
        #expect(far.state == 4_000)
    }

    @Test(.stress) func `Stress: while one store of a view moves between dispatchers, the others stay in step`() async {
        let dispatchers = [FluxDispatcher(), FluxDispatcher()]
        let stores = (0..<3).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatchers[1]) }
        let view = FluxView(stores[0], stores[1], stores[2]) { [$0.count, $2.count] }
        let torn = Recorder<[Int]>()
        await onThreads(3) { index in
            for round in 0..<2_000 {
                switch index {
                case 0: dispatchers[1].dispatch(action: Counter.Action.add(1))
                case 1: dispatchers[round % 2].attach(stores[1])
                default:
                    let state = view.state
                    if state[0] != state[1] { torn.record(state) }
                }
            }
        }
        #expect(torn.values == [])
        #expect(view.state == [2_000, 2_000])
    }

    @Test func `A view follows its stores to another dispatcher and does not keep the one they have left`() async {
        let stores = (0..<2).map { _ in FluxStore(initialState: Counter(), dispatcher: nil) }
        let view = FluxView(stores[0], stores[1]) { [$0.count, $1.count] }
        var dispatcher = FluxDispatcher()
        for round in 1...3 {
            let former = Weak(dispatcher)
            dispatcher = FluxDispatcher()
            for store in stores { dispatcher.attach(store) }
            dispatcher.dispatch(action: Counter.Action.add(1))
            #expect(view.state == [round, round])
            #expect(await former.isGone())
        }
        let last = Weak(dispatcher)
        for store in stores { dispatcher.detach(store) }
        dispatcher = FluxDispatcher()
        stores[0].dispatch(action: .add(1))
        #expect(view.state == [4, 3])
        #expect(await last.isGone())
    }

    @Test func `A view computes only after a change and announces only values that differ`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let other = FluxStore(initialState: Other(), dispatcher: dispatcher)
        let computed = Locked(0)
        let view = FluxView(store, other) { one, two in
            computed.withLock { $0 += 1 }
            return (one.count + two.count) / 4
        }
        #expect(computed.current == 1)
        for _ in 0..<10 { #expect(view.state == 0) }
        #expect(computed.current == 1)
        // An unwatched view computes only when it is read. If it is watched, two threads may find a change at once.
        for changes in 1...3 {
            other.dispatch(action: .add(4))
            for _ in 0..<10 { #expect(view.state == changes) }
            #expect(computed.current == 1 + changes)
        }
        other.dispatch(action: .add(-12))
        let seen = Recorder<Int>()
        let subscription = view.subscribe(startingWithCurrent: true) { seen.record($0) }
        for _ in 0..<4 {
            dispatcher.dispatch(action: Counter.Action.add(1))
            await view.flush()
        }
        #expect(seen.values == [0, 1, 2])
        subscription.unsubscribe()
    }

    @Test func `A view whose subscriptions have ended computes only when it is read`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let computed = Recorder<Int>()
        let view = FluxView(store) { state in
            computed.record(state.count)
            return state.count
        }
        let outer = view.view { $0 * 2 }
        for round in 1...3 {
            let seen = Recorder<Int>()
            let tokens = [outer.subscribe { seen.record($0) }, outer.subscribe { _ in }]
            store.dispatch(action: .add(1))
            await seen.count(1)
            #expect(seen.values == [round * 4 - 2])
            tokens[0].unsubscribe()
            tokens[0].unsubscribe()
            store.dispatch(action: .add(0))
            await outer.flush()
            tokens[1].unsubscribe()
            await outer.flush()
            // A value may still have been pending on the view's queue when the last subscription ended.
            var isQuiet = false
            for _ in 0..<10 where !isQuiet {
                let before = computed.values.count
                for number in 0..<50 {
                    store.dispatch(action: .add(number.isMultiple(of: 2) ? 1 : -1))
                    await store.flush()
                }
                isQuiet = computed.values.count == before
            }
            #expect(isQuiet)
            store.dispatch(action: .add(1))
            #expect(outer.state == round * 4)
        }
    }

    @Test(.stress) func `Stress: a view subscription that begins as the last one ends misses nothing`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let view = store.view(\.count)
        await onThreads(3) { thread in
            for _ in 0..<1_000 {
                if thread == 2 {
                    store.dispatch(action: .add(1))
                    continue
                }
                let seen = Gate()
                let token = view.subscribe(startingWithCurrent: false) { _ in seen.open() }
                store.dispatch(action: .add(1))
                seen.wait()
                token.unsubscribe()
            }
        }
        #expect(view.state == 3_000)
    }

    @Test func `A released view with a custom comparison delivers pending values and releases its handler`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        var view: FluxView<Counter>? = FluxView(store, by: { $0.count / 10 == $1.count / 10 }) { $0 }
        let seen = Recorder<Int>()
        let gone = Gate()
        let canary = Locked<Canary?>(Canary(gone))
        let subscription = view?.subscribe { [canary = canary.current] state in
            withExtendedLifetime(canary) { seen.record(state.count) }
        }
        canary.withLock { $0 = nil }
        for _ in 0..<2 {
            for _ in 0..<10 { store.dispatch(action: .add(1)) }
            await view?.flush()
        }
        #expect(seen.values.map { $0 / 10 } == [1, 2])
        store.dispatch(action: .add(10))
        view = nil
        await gone.opened()
        #expect(seen.values.map { $0 / 10 } == [1, 2, 3])
        withExtendedLifetime(subscription) {}
    }

    struct Watching: FluxAction {}

    @Test func `Subscribing to a store inside its handle stops the program, with a message`() async {
        let part = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let watching = FluxChange<Counter>.other(Watching()) { _ in
                _ = store.subscribe(to: \.count) { _ in }
                return false
            }
            store.handle.withAccess { _ = $0.apply(watching) }
        }
        let message = part.said
        #expect(message.contains("subscribe(to:) was used inside"), "\(message)")
    }

    /// Runs a closure inside `handle` of a store, with another store of the same dispatcher.
    private static func insideHandle(
        _ body: @escaping @Sendable (_ other: FluxStore<Counter>, _ dispatcher: FluxDispatcher) -> Void
    ) {
        let dispatcher = FluxDispatcher()
        let stores = (0..<2).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
        let watching = FluxChange<Counter>.other(Watching()) { _ in
            body(stores[1], dispatcher)
            return false
        }
        stores[0].handle.withAccess { _ = $0.apply(watching) }
    }

    @Test func `Other ways to watch inside handle stop the program too, each with a message`() async {
        let buffered = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.insideHandle { other, _ in _ = other.subscribe(.buffered(newest: 1)) { _ in } }
        }
        let failing = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.insideHandle { other, _ in _ = other.subscribe(failingAfter: 1) { _ in } }
        }
        let actions = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.insideHandle { _, dispatcher in _ = dispatcher.subscribeActions { _ in } }
        }
        let states = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.insideHandle { other, _ in _ = other.states(.every).makeAsyncIterator() }
        }
        let messages = [buffered, failing, actions, states].map {
            $0.said
        }
        let names = [
            "subscribe(.buffered)", "subscribe(failingAfter:)", "subscribeActions", "makeAsyncIterator() of states",
        ]
        for (name, message) in zip(names, messages) {
            #expect(message.contains("\(name) was used inside"), "\(message)")
        }
    }

    @Test func `Reading a view inside handle stops the program, with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let view = FluxStore(initialState: Counter(), dispatcher: nil).view(\.count)
            FluxStore(initialState: Reading(view: view), dispatcher: nil).dispatch(action: .read)
        }
        let message = result.said
        #expect(message.contains("a view was used inside FluxState.handle(action:)"))
    }

    struct Reading: FluxState {
        enum Action: FluxAction { case read }
        let view: FluxView<Int>
        var read = 0
        mutating func handle(action: Action) -> Reading? {
            read = view.state
            return self
        }
    }
}
