import Dispatch
import FluxCore
import FluxObservation
import TestSupport
import Testing

/// C5, C7, C8 and C10 for every kind of subscription: what holds for one holds for all.
@Suite struct KindsOfSubscriptionTests {
    @Test(.stress, arguments: Watching.allCases)
    func `C5: each kind only moves forward, loses no change if it is lossless, and ends on the newest state`(
        kind: Watching
    ) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (seen, highest) = (Recorder<Int>(), Highest())
        let watch = await kind.watch(store) { count in
            seen.record(count)
            highest.see(count)
        }
        await onThreads(2) { _ in
            for _ in 0..<2_000 { store.dispatch(action: .add(1)) }
        }
        await highest.reaches(4_000)
        await store.flush()
        let values = seen.values
        #expect(values.last == 4_000)
        #expect(zip(values, values.dropFirst()).allSatisfy { $0 < $1 }, "backwards or twice")
        if kind.isLossless { #expect(values == Array((kind.startsWithCurrent ? 0 : 1)...4_000)) }
        await watch.end()
    }

    @Test(.stress, arguments: Watching.allCases)
    func `C5: each of 10,000 rounds ends on the newest state`(kind: Watching) async {
        // One kind of each mechanism runs in full; the others are built on these.
        let rounds = [.latest, .states, .view, .mirror].contains(kind) ? 10_000 : 500
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let highest = Highest()
        let watch = await kind.watch(store) { highest.see($0) }
        for round in 1...rounds {
            store.dispatch(action: .add(1))
            await highest.reaches(round)
        }
        await watch.end()
    }

    /// All kinds but the mirror: what the test observes of a mirror, and when, is not up to the library.
    @Test(arguments: Watching.allCases.filter { $0 != .mirror })
    func `C7: no call begins after a subscription has ended`(kind: Watching) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let faults = Locked(0)
        for round in 0..<50 {
            let (isOver, highest) = (Flag(), Highest())
            let watch = await kind.watch(store) { count in
                if isOver.isSet { faults.withLock { $0 += 1 } }
                highest.see(count)
            }
            store.dispatch(action: .add(1))
            if round % 2 == 0 { await highest.reaches(round + 1) }
            await watch.end()
            isOver.set()
            if round % 10 == 0 { await store.flush() }
        }
        await store.flush()
        #expect(faults.current == 0)
    }

    @Test(arguments: Watching.allCases)
    func `C7: an ended subscription promptly releases the objects that its handler captured`(kind: Watching) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gone = Gate()
        let canary = Locked<Canary?>(Canary(gone))
        let highest = Highest()
        let watch = await kind.watch(store) { [canary = canary.current] count in
            withExtendedLifetime(canary) { highest.see(count) }
        }
        canary.withLock { $0 = nil }
        store.dispatch(action: .add(1))
        await highest.reaches(1)
        await watch.end()
        store.dispatch(action: .add(1))
        await gone.opened()
    }

    @Test(arguments: Watching.allCases.filter(\.mayBlock))
    func `C8: a blocked handler delays no dispatch, no other queue and no sequence`(kind: Watching) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate, highest) = (Gate(), Gate(), Highest())
        let watch = await kind.watch(store) { count in
            if count > 0 {
                entered.open()
                gate.wait()
            }
            highest.see(count)
        }
        store.dispatch(action: .add(1))
        await entered.opened()
        let elsewhere = Highest()
        let other = store.subscribe(on: DispatchQueue(label: "elsewhere")) { elsewhere.see($0.count) }
        let sequence = await Watching.states.watch(store) { elsewhere.see($0) }
        for _ in 0..<100 { store.dispatch(action: .add(1)) }
        await elsewhere.reaches(101)
        gate.open()
        await highest.reaches(101)
        other.unsubscribe()
        await sequence.end()
        await watch.end()
    }

    /// All kinds but the mirror and the sequences, which keep their store.
    @Test(arguments: Watching.allCases.filter { !$0.keepsStore })
    func `C10: after the store is released, a subscription gets pending changes and is released`(kind: Watching) async {
        let gone = Gate()
        let highest = Highest()
        var store: FluxStore<Counter>? = FluxStore(initialState: Counter(), dispatcher: nil)
        let canary = Locked<Canary?>(Canary(gone))
        let watch = await kind.watch(store!) { [canary = canary.current] count in
            withExtendedLifetime(canary) { highest.see(count) }
        }
        canary.withLock { $0 = nil }
        for _ in 0..<100 { store?.dispatch(action: .add(1)) }
        store = nil
        watch.letGoOfView()
        await highest.reaches(100)
        await gone.opened()
        await watch.end()
    }
}
