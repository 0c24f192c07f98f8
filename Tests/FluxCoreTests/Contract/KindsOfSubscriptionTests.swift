import Dispatch
import FluxCore
import TestSupport
import Testing

/// C5, C7, C8 and C10 for every kind of subscription: what holds for one holds for all.
@Suite struct KindsOfSubscriptionTests {
    @Test(.stress, arguments: Watching.allCases)
    func `C5: states arrive in order and end on the newest; lossless kinds miss none`(kind: Watching) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (seen, highest) = (Recorder<Int>(), Highest())
        let watch = kind.watch(store) { count in
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
        if kind.isLossless { #expect(values == Array(0...4_000)) }
        await watch.finish()
    }

    @Test(.stress, arguments: Watching.allCases)
    func `C5: every round ends with the newest state delivered`(kind: Watching) async {
        // Tests one kind of each mechanism in full; the other kinds are built from these.
        let rounds = [.every, .latest, .delivery].contains(kind) ? 10_000 : 500
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let highest = Highest()
        let watch = kind.watch(store) { highest.see($0) }
        for round in 1...rounds {
            store.dispatch(action: .add(1))
            await highest.reaches(round)
        }
        await watch.finish()
    }

    @Test(arguments: Watching.allCases)
    func `C7: no call begins once finish has returned`(kind: Watching) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let faults = Locked(0)
        for round in 0..<50 {
            let (isOver, highest) = (Flag(), Highest())
            let watch = kind.watch(store) { count in
                if isOver.isSet { faults.withLock { $0 += 1 } }
                highest.see(count)
            }
            store.dispatch(action: .add(1))
            if round % 2 == 0 { await highest.reaches(round + 1) }
            await watch.finish()
            isOver.set()
            if round % 10 == 0 { await store.flush() }
        }
        await store.flush()
        #expect(faults.current == 0)
    }

    @Test(arguments: Watching.allCases)
    func `C7: the handler's captures are released promptly after finish`(kind: Watching) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gone = Gate()
        let canary = Locked<Canary?>(Canary(gone))
        let highest = Highest()
        let watch = kind.watch(store) { [canary = canary.current] count in
            withExtendedLifetime(canary) { highest.see(count) }
        }
        canary.withLock { $0 = nil }
        store.dispatch(action: .add(1))
        await highest.reaches(1)
        await watch.finish()
        await gone.opened()
    }

    @Test(arguments: Watching.allCases.filter(\.mayBlock))
    func `C8: a blocked subscription delays no dispatch and no other queue`(kind: Watching) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate, highest) = (Gate(), Gate(), Highest())
        let watch = kind.watch(store) { count in
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
        for _ in 0..<100 { store.dispatch(action: .add(1)) }
        await elsewhere.reaches(101)
        gate.open()
        await highest.reaches(101)
        other.unsubscribe()
        await watch.finish()
    }

    @Test(arguments: Watching.allCases)
    func `C10: a released store delivers its pending changes and releases the handler`(kind: Watching) async {
        let gone = Gate()
        let highest = Highest()
        var store: FluxStore<Counter>? = FluxStore(initialState: Counter(), dispatcher: nil)
        let canary = Locked<Canary?>(Canary(gone))
        let watch = kind.watch(store!) { [canary = canary.current] count in
            withExtendedLifetime(canary) { highest.see(count) }
        }
        canary.withLock { $0 = nil }
        for _ in 0..<100 { store?.dispatch(action: .add(1)) }
        store = nil
        await highest.reaches(100)
        await gone.opened()
        await watch.finish()
    }
}
