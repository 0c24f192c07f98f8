import Dispatch
import FluxCore
import FluxObservation
import TestSupport
import Testing

/// What each delivery passes to a slow handler, and what it costs meanwhile.
@Suite struct DeliveryTests {
    /// Blocks the handler of a store in the first change, and returns what it sees once it resumes.
    private func seen(_ delivery: AnyDelivery, _ changes: Int) async -> (values: [Int], dropped: Int) {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate, seen) = (Gate(), Gate(), Recorder<Int>())
        let subscription = delivery.subscribe(store) { state in
            seen.record(state.count)
            entered.open()
            gate.wait()
        }
        store.dispatch(action: .add(1))
        await entered.opened()
        for _ in 1..<changes { store.dispatch(action: .add(1)) }
        gate.open()
        await store.flush()
        subscription.unsubscribe()
        return (seen.values, subscription.dropped)
    }

    @Test func `A slow handler gets the changes its delivery promises, and its token counts the dropped ones`() async {
        #expect(await seen(.every, 100) == (Array(1...100), 0))
        #expect(await seen(.latest, 100) == ([1, 100], 0))
        #expect(await seen(.newest(3), 100) == ([1, 98, 99, 100], 96))
        #expect(await seen(.oldest(3), 100) == ([1, 2, 3, 4], 96))
        #expect(await seen(.newest(40), 100).values == [1] + Array(61...100))
    }

    @Test func `A subscription with failingAfter delivers the changes it has room for, and then an error`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate, seen) = (Gate(), Gate(), Recorder<String>())
        let subscription = store.subscribe(failingAfter: 2) { result in
            switch result {
            case .success(let state): seen.record("\(state.count)")
            case .failure(let overflow): seen.record("room for \(overflow.limit)")
            }
            entered.open()
            gate.wait()
        }
        store.dispatch(action: .add(1))
        await entered.opened()
        for _ in 0..<10 { store.dispatch(action: .add(1)) }
        gate.open()
        await store.flush()
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.values == ["1", "2", "3", "room for 2"])
        #expect(subscription.dropped == 8)
    }

    @Test func `A subscription with failingAfter on the main actor is called there`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = Recorder<Int>()
        let subscription = store.subscribe(failingAfter: 2, on: .main) { result in
            MainActor.assertIsolated()
            if case .success(let state) = result { seen.record(state.count) }
        }
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.values == [1])
        withExtendedLifetime(subscription) {}
    }

    /// C8: however many states there were, a blocked handler keeps only this many of them alive.
    @Test(arguments: [(AnyDelivery.latest, 0), (.newest(2), 2), (.oldest(2), 2)])
    func `A blocked handler keeps a bounded number of states alive`(delivery: AnyDelivery, held: Int) async {
        let alive = Locked(0)
        let store = FluxStore(initialState: Living(), dispatcher: nil)
        let (entered, gate) = (Gate(), Gate())
        let subscription = delivery.subscribe(store) { _ in
            entered.open()
            gate.wait()
        }
        store.dispatch(action: .replace(Life(alive)))
        await entered.opened()
        for _ in 0..<1_000 { store.dispatch(action: .replace(Life(alive))) }
        #expect(alive.current <= held + 2, "those that wait, that of the blocked call and that of the store")
        gate.open()
        subscription.unsubscribe()
    }

    final class Life: Sendable {
        let alive: Locked<Int>

        init(_ alive: Locked<Int>) {
            self.alive = alive
            alive.withLock { $0 += 1 }
        }

        deinit {
            alive.withLock { $0 -= 1 }
        }
    }

    struct Living: FluxState {
        enum Action: FluxAction { case replace(Life) }
        var life: Life?
        mutating func handle(action: Action) -> Living? {
            if case .replace(let new) = action { life = new }
            return self
        }
    }

    @Test func `A waiting .latest subscription keeps no snapshot, so the next change copies nothing`() async {
        let store = FluxStore(initialState: Growing(), dispatcher: nil)
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let subscription = store.subscribe(.latest, on: queue, startingWithCurrent: true) { _ in }
        for _ in 0..<100 { store.dispatch(action: .append) }
        #expect(store.state.copies == 0)
        queue.resume()
        await store.flush()
        subscription.unsubscribe()
    }

    @Test func `Selecting a part with .latest never makes a change copy the state`() async {
        let store = FluxStore(initialState: Growing(), dispatcher: nil)
        let queue = DispatchQueue(label: "own")
        let select: @Sendable (Growing) -> Int = { state in
            // Long enough for a change to arrive meanwhile, if one could.
            for _ in 0..<100 { _ = ObjectIdentifier(state.contents) }
            return state.changes
        }
        let (seen, other) = (Recorder<Int>(), Recorder<Int>())
        let tokens = [
            // No two values count as equal, so a repetition would be seen.
            store.subscribe(to: select, by: { _, _ in false }, .latest) { seen.record($0) },
            store.subscribe(to: select, by: { _, _ in false }, .latest, on: queue, startingWithCurrent: true) {
                other.record($0)
            },
        ]
        for _ in 0..<20_000 { store.dispatch(action: .append) }
        await store.flush()
        #expect(store.state.copies == 0)
        for values in [seen.values, other.values] {
            #expect(values.last == 20_000)
            #expect(zip(values, values.dropFirst()).allSatisfy(<), "none goes back or comes twice")
        }
        FluxSubscription(tokens).unsubscribe()
    }

    private final class Large: Sendable {}

    @Test func `A running event keeps no subscription of its store, and subscriptions are not event observers`() async {
        let (store, gate) = (FluxStore(initialState: Counter(), dispatcher: nil), Gate())
        let creator = FluxActionCreator<NestedConverter>(store: store)
        func watch() -> (() -> Large?, FluxSubscription) {
            let large = Large()
            let token = store.subscribe(to: { [large] state in withExtendedLifetime(large) { state.count } }) { _ in }
            return ({ [weak large] in large }, token)
        }
        let (large, token) = watch()
        let task = creator.fire(.init("lasts") { await gate.opened() })
        token.unsubscribe()
        #expect(large() == nil)
        #expect(store.handle.eventObservers.isEmpty)
        gate.open()
        #expect(await task.outcome.isCompleted)
    }

    /// C8: even if one turn of the queue is not enough.
    @Test(.stress, arguments: [FluxDelivery.latest, .every])
    func `A part is delivered on a custom queue even if all threads of the pool are busy`(delivery: FluxDelivery) {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (queue, isOver, seen) = (DispatchQueue(label: "own"), Flag(), DispatchSemaphore(value: 0))
        for _ in 0..<64 { DispatchQueue.global().async { while !isOver.isSet {} } }
        defer { isOver.set() }
        let token = store.subscribe(to: { $0.count }, delivery, on: queue) { [weak store] count in
            // After some calls, further values wait for another turn.
            if count < 100 { store?.dispatch(action: .add(1)) } else { seen.signal() }
        }
        store.dispatch(action: .add(1))
        #expect(seen.wait(timeout: .now() + 20) == .success)
        token.unsubscribe()
    }

    /// C8: above all on the main queue, where others wait for the next turn.
    @Test func `With .latest on a custom queue each call has its own turn, for a part and for the whole state`() async {
        for isOfPart in [false, true] {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let (queue, turns, isOver) = (DispatchQueue(label: "own"), Recorder<String>(), Gate())
            let handler: @Sendable (Int) -> Void = { [weak store] count in
                turns.record("\(count)")
                queue.async { turns.record("|") }
                if count < 5 { store?.dispatch(action: .add(1)) } else { isOver.open() }
            }
            let token =
                isOfPart
                ? store.subscribe(to: { $0.count }, .latest, on: queue, handler)
                : store.subscribe(.latest, on: queue) { handler($0.count) }
            store.dispatch(action: .add(1))
            await isOver.opened()
            queue.sync {}
            #expect(turns.values == ["1", "|", "2", "|", "3", "|", "4", "|", "5", "|"])
            token.unsubscribe()
        }
    }

    struct Growing: FluxState {
        enum Action: FluxAction { case append }
        final class Contents: Sendable {}
        var contents = Contents()
        var (changes, copies) = (0, 0)
        mutating func handle(action: Action) -> Growing? {
            changes += 1
            if !isKnownUniquelyReferenced(&contents) { copies += 1 }
            return self
        }
    }

    @Test(arguments: [AnyDelivery.newest(4), .oldest(4)])
    func `flush waits only for earlier changes, even if more keep coming`(delivery: AnyDelivery) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let isDone = Flag()
        let subscription = delivery.subscribe(store) { [weak store] _ in
            if !isDone.isSet { store?.dispatch(action: .add(1)) }
        }
        store.dispatch(action: .add(1))
        await store.flush()
        isDone.set()
        subscription.unsubscribe()
    }

    @Test func `A delivery with room for 0 changes stops the program, with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            _ = store.subscribe(.buffered(newest: 0)) { _ in }
        }
        let failing = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            _ = store.subscribe(failingAfter: 0) { _ in }
        }
        let states = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxStore(initialState: Counter(), dispatcher: nil).states(failingAfter: 0)
        }
        for result in [result, failing, states] {
            let message = result.said
            #expect(message.contains("room for 0 changes delivers none. Give it room for at least 1."))
        }
    }

    @Test func `On the main queue a handler runs on the main actor, and .latest calls it once a turn`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = Recorder<Int>()
        let subscription = store.subscribe(.latest, on: .main) { state in
            MainActor.preconditionIsolated()
            seen.record(state.count)
            if state.count < 100 { for _ in 0..<10 { store.dispatch(action: .add(1)) } }
        }
        await MainActor.run { for _ in 0..<10 { store.dispatch(action: .add(1)) } }
        await seen.count(10)
        await store.flush()
        #expect(seen.values == Array(stride(from: 10, through: 100, by: 10)))
        subscription.unsubscribe()
    }

    @Test func `An unannounced change is delivered to no subscription until a change is announced`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = (0..<5).map { _ in Recorder<Int>() }
        let tokens = [
            store.subscribe(to: \.count) { seen[0].record($0) },
            store.subscribe(to: \.count, .latest) { seen[1].record($0) },
            store.subscribe(.buffered(newest: 9)) { seen[2].record($0.count) },
            store.subscribe(failingAfter: 9) { seen[3].record((try? $0.get().count) ?? -1) },
            store.subscribe(toAnyOf: \.count, \.disorder) { state, _ in seen[4].record(state.count) },
        ]
        store.dispatch(action: .addSilently(1))
        await store.flush()
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.map(\.values) == Array(repeating: [2], count: 5))
        FluxSubscription(tokens).unsubscribe()
    }

    @Test func `The queue of a store calls one handler at a time`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate, seen) = (Gate(), Gate(), Recorder<Int>())
        let tokens = [
            store.subscribe(to: \.count) { _ in
                entered.open()
                gate.wait()
                seen.record(0)
            },
            store.subscribe(.buffered(newest: 1)) { _ in seen.record(1) },
        ]
        store.dispatch(action: .add(1))
        await entered.opened()
        for _ in 0..<1_000 { await Task.yield() }
        #expect(seen.values == [])
        gate.open()
        await store.flush()
        #expect(seen.values == [0, 1])
        FluxSubscription(tokens).unsubscribe()
    }
}
