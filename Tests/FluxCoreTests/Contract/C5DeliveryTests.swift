import Dispatch
import FluxCore
import TestSupport
import Testing

/// C5: each revision after the start comes exactly once and in order; snapshot and start are one atomic step.
@Suite struct C5DeliveryTests {
    @Test func `A subscription receives every announced change in order`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = Recorder<Int>()
        let subscription = store.subscribe { seen.record($0.count) }
        for _ in 0..<100 { store.dispatch(action: .add(1)) }
        await store.flush()
        #expect(seen.values == Array(1...100))
        subscription.unsubscribe()
    }

    /// The ways to deliver to a subscription.
    enum Place: CaseIterable { case plain, latest, queue, latestOnQueue }

    @Test(arguments: Place.allCases, Place.allCases)
    func `A subscription that starts after others have ended receives every change`(stays: Place, comes: Place) async {
        let queue = DispatchQueue(label: "mine")
        func subscribe(_ place: Place, _ handler: @escaping @Sendable (Counter) -> Void) -> FluxSubscription {
            switch place {
            case .plain: store.subscribe(startingWithCurrent: true, handler)
            case .latest: store.subscribe(.latest, startingWithCurrent: true, handler)
            case .queue: store.subscribe(on: queue, startingWithCurrent: true, handler)
            case .latestOnQueue: store.subscribe(.latest, on: queue, startingWithCurrent: true, handler)
            }
        }
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        var before = Place.allCases.map { subscribe($0) { _ in } }
        let others = [subscribe(stays) { _ in }]
        for place in Place.allCases {
            before.removeFirst().unsubscribe()
            let seen = Recorder<Int>()
            let count = store.state.count
            let token = subscribe(comes) { seen.record($0.count) }
            await store.flush()
            store.dispatch(action: .add(1))
            await store.flush()
            #expect(seen.values == [count, count + 1], "\(place) has left")
            await token.finish()
        }
        withExtendedLifetime(others) {}
    }

    @Test func `A subscription on a queue is called only on that queue`() async {
        let key = DispatchSpecificKey<String>()
        let queue = DispatchQueue(label: "mine")
        queue.setSpecific(key: key, value: "mine")
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = Recorder<String?>()
        let subscriptions = [
            store.subscribe(on: queue) { _ in seen.record(DispatchQueue.getSpecific(key: key)) },
            store.subscribe(on: queue, startingWithCurrent: true) { _ in
                seen.record(DispatchQueue.getSpecific(key: key))
            },
        ]
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.values == ["mine", "mine", "mine"])
        subscriptions.forEach { $0.unsubscribe() }
    }

    @Test func `A subscription receives the current state first only if startingWithCurrent is true`() async {
        let store = FluxStore(initialState: Counter(count: 7), dispatcher: nil)
        let with = Recorder<Int>()
        let without = Recorder<Int>()
        let subscriptions = [
            store.subscribe(startingWithCurrent: true) { with.record($0.count) },
            store.subscribe { without.record($0.count) },
        ]
        await store.flush()
        #expect(with.values == [7])
        #expect(without.values == [])
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(with.values == [7, 8])
        #expect(without.values == [8])
        subscriptions.forEach { $0.unsubscribe() }
    }

    @Test func `A subscription started while changes are pending receives none from before its start`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let seen = (0..<6).map { _ in Recorder<Int>() }
        var subscriptions: [FluxSubscription] = []
        for (index, seen) in seen.enumerated() {
            subscriptions.append(
                store.subscribe(on: queue, startingWithCurrent: index % 2 == 1) { seen.record($0.count) })
            if index % 2 == 1 { store.dispatch(action: .add(1)) }
        }
        store.dispatch(action: .add(1))
        queue.resume()
        await store.flush()
        #expect(
            seen.map(\.values) == [[1, 2, 3, 4], [0, 1, 2, 3, 4], [2, 3, 4], [1, 2, 3, 4], [3, 4], [2, 3, 4]])
        subscriptions.forEach { $0.unsubscribe() }
    }

    @Test(.stress, arguments: [false, true])
    func `Stress: a subscription started under load misses and repeats no revision`(onOwnQueue: Bool) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let faults = Locked<[String]>([])
        let queue = onOwnQueue ? nil : DispatchQueue(label: "other", attributes: .concurrent)
        await onThreads(4) { index in
            if index < 2 {
                for _ in 0..<30_000 { store.dispatch(action: .add(1)) }
                return
            }
            for round in 0..<1_000 {
                let last = Locked<Int?>(nil)
                let before = store.state.count
                let subscription = store.subscribe(on: queue, startingWithCurrent: true) { state in
                    last.withLock { last in
                        if let last, state.count != last + 1 {
                            faults.withLock { $0.append("\(last) then \(state.count) in round \(round)") }
                        }
                        if last == nil, state.count < before {
                            faults.withLock { $0.append("started with \(state.count) after \(before)") }
                        }
                        last = state.count
                    }
                }
                store.dispatch(action: .add(1))
                subscription.unsubscribe()
            }
        }
        await store.flush()
        #expect(faults.current == [])
        #expect(store.state.count == 62_000)
    }

    @Test func `A subscription receives the current state after most others waiting for it have ended`() async {
        let (store, seen) = (FluxStore(initialState: Counter(count: 7), dispatcher: nil), Recorder<Int>())
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let tokens = (0..<4).map { _ in
            store.subscribe(.latest, on: queue, startingWithCurrent: true) { seen.record($0.count) }
        }
        tokens.dropLast().forEach { $0.unsubscribe() }
        queue.resume()
        await store.flush()
        #expect(seen.values == [7])
        tokens.forEach { $0.unsubscribe() }
    }

    @Test func `A latest subscription is called at most once in each turn of its queue`() async {
        let (store, queue) = (FluxStore(initialState: Counter(), dispatcher: nil), DispatchQueue(label: "own"))
        let turns = Recorder<String>()
        let token = store.subscribe(.latest, on: queue) { [weak store] counter in
            turns.record("\(counter.count)")
            queue.async { turns.record("next turn") }
            if counter.count < 3 { store?.dispatch(action: .add(1)) }
        }
        store.dispatch(action: .add(1))
        await turns.count(6)
        #expect(turns.values == ["1", "next turn", "2", "next turn", "3", "next turn"])
        token.unsubscribe()
    }

    @Test(.stress) func `Stress: a handler never runs twice at once, not even on a concurrent queue`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let inside = Locked((now: 0, most: 0))
        let subscription = store.subscribe(on: .global()) { _ in
            inside.withLock { inside in
                inside.now += 1
                inside.most = max(inside.most, inside.now)
            }
            inside.withLock { $0.now -= 1 }
        }
        await onThreads(4) { _ in
            for _ in 0..<10_000 { store.dispatch(action: .add(1)) }
        }
        await store.flush()
        #expect(inside.current.most == 1)
        subscription.unsubscribe()
    }

    @Test(.stress) func `Stress: each of 10,000 rounds ends with the newest state delivered`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let last = Locked(0)
        let subscription = store.subscribe { state in last.withLock { $0 = state.count } }
        for round in 1...10_000 {
            store.dispatch(action: .add(1))
            await store.flush()
            if last.current != round {
                Issue.record("round \(round) ended on \(last.current)")
                break
            }
        }
        subscription.unsubscribe()
    }

    @Test func `flush waits for all earlier changes on every queue, and returns if none is pending`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        await store.flush()
        let queues = (0..<4).map { DispatchQueue(label: "queue \($0)") }
        let seen = Locked(0)
        let subscriptions = queues.map { store.subscribe(on: $0) { _ in seen.withLock { $0 += 1 } } }
        for _ in 0..<100 { store.dispatch(action: .add(1)) }
        await store.flush()
        #expect(seen.current == 400)
        await store.flush()
        subscriptions.forEach { $0.unsubscribe() }
        store.dispatch(action: .add(1))
        await store.flush()
    }

    @Test func `flush returns early when its task is cancelled`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gate = Gate()
        let entered = Gate()
        let subscription = store.subscribe { _ in
            entered.open()
            gate.wait()
        }
        store.dispatch(action: .add(1))
        await entered.opened()
        let flushing = Task { await store.flush() }
        flushing.cancel()
        await flushing.value
        gate.open()
        subscription.unsubscribe()
    }
}
