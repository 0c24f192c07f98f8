import Dispatch
import FluxCore
import FluxRouting
import TestSupport
import Testing

/// The seam for store observers: their notifications, what a gate holds back, and how a store ends.
@Suite struct StoreObserverTests {
    /// Records its notifications, and delays the end of its store if asked to.
    final class Journal: FluxStoreObserver {
        let lines = Recorder<String>()
        let finish = Locked<(@Sendable () -> Void)?>(nil)
        let delays: Bool
        let settled: Settled?

        init(delays: Bool = false, settled: Settled? = nil) { (self.delays, self.settled) = (delays, settled) }

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? {
            let kind =
                switch change {
                case .action: "action"
                case .other: "other"
                case .replaced: "replaced"
                }
            lines.record("\(kind) \(state.count) \(revision.map { "\($0)" } ?? "-")")
            return settled
        }

        func ending(_ finish: @escaping @Sendable () -> Void) -> Bool {
            lines.record("ending")
            if delays { self.finish.withLock { $0 = finish } }
            return delays
        }

        func flush() async { lines.record("flush") }
    }

    /// Uses the store, which is not possible while the store's lock is held.
    final class Settled: FluxSettling {
        let counts = Recorder<Int>()
        let store: FluxStore<Counter>
        init(_ store: FluxStore<Counter>) { self.store = store }
        func settle() { counts.record(store.state.count) }
    }

    final class Holding: Sendable {
        let held = Locked<[FluxChange<Counter>]>([])
        func admit(_ change: FluxChange<Counter>) -> Bool {
            if case .action(.addSilently) = change { return true }
            held.withLock { $0.append(change) }
            return false
        }
    }

    let dispatcher = FluxDispatcher()

    private func store() -> FluxStore<Counter> { FluxStore(initialState: Counter(), dispatcher: dispatcher) }

    @Test(.timeLimit(.minutes(1)))
    func `An observer that delays a store's end may end it while the lock is held`() async {
        let (journal, ended) = (Journal(delays: true), Gate())
        func begin() -> (FluxStoreHandle<Counter>, FluxSubscription) {
            let store = store()
            store.handle.withAccess { $0.observe(journal) }
            let token = store.subscribe(.every, on: nil, startingWithCurrent: false, ended: { ended.open() }) { _ in }
            return (store.handle, token)
        }
        let (handle, token) = begin()
        handle.withAccess { access in
            journal.finish.current?()
            #expect(access.state.count == 0)
        }
        await ended.opened()
        withExtendedLifetime(token) {}
    }

    @Test func `An observer sees changes of every kind in order, with the resulting state and revision`() {
        let (store, journal) = (store(), Journal())
        store.handle.withAccess { $0.observe(journal) }
        store.on(LogOut.self) { state, action -> Bool in
            if action.reason.isEmpty { return false }
            state.count = 0
            return true
        }
        store.dispatch(action: .add(1))
        dispatcher.add(2)
        store.dispatch(action: .addSilently(10))
        dispatcher.dispatch(action: LogOut())
        dispatcher.dispatch(action: LogOut(reason: "idle"))
        let revision = store.handle.withAccess { $0.replace(with: Counter(count: 40), by: LogOut(), revision: 9) }
        #expect(revision == 9 && store.revision == 9 && store.state.count == 40)
        store.handle.withAccess { access in
            #expect(access.apply(.action(.add(1))) == 10)
            #expect(access.apply(.other(LogOut()) { _ in false }) == nil)
            #expect(access.state.count == 41 && access.revision == 10)
        }
        #expect(
            journal.lines.values == [
                "action 1 1", "action 3 2", "action 13 -", "other 0 3", "replaced 40 9", "action 41 10",
            ])
        store.handle.withAccess { $0.remove(journal) }
        store.dispatch(action: .add(1))
        #expect(journal.lines.values.count == 6)
    }

    @Test func `The stamp counts announced and silent changes`() {
        let store = store()
        for _ in 0..<3 { store.dispatch(action: .add(1)) }
        for _ in 0..<2 { store.dispatch(action: .addSilently(1)) }
        #expect(store.stamp == 5 && store.revision == 3)
        store.handle.withAccess { access in
            access.observe(Journal())
            _ = access.apply(.action(.addSilently(1)))
        }
        #expect(store.stamp == 6 && store.revision == 3)
    }

    /// Returns itself to be settled, and then records its name.
    final class Named: FluxStoreObserver, FluxSettling {
        let name: String
        let settled: Recorder<String>
        init(_ name: String, _ settled: Recorder<String>) { (self.name, self.settled) = (name, settled) }
        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { self }
        func settle() { settled.record(name) }
    }

    @Test func `C8: observers that settle first do so before all others, in whichever store and order`() {
        let (one, other, settled) = (store(), store(), Recorder<String>())
        one.handle.withAccess { access in
            access.observe(Named("slow 1", settled))
            access.observe(Named("quick 1", settled), settlesFirst: true)
        }
        other.handle.withAccess { access in
            access.observe(Named("quick 2", settled), settlesFirst: true)
            access.observe(Named("slow 2", settled))
            access.observe(Named("quick 3", settled), settlesFirst: true)
        }
        let expected = ["quick 1", "quick 2", "quick 3", "slow 1", "slow 2"]
        dispatcher.add(1)
        #expect(settled.values == expected)
        other.handle.withAccess { access in
            access.apply(.action(.add(1)))
            access.apply(.action(.add(1)))
        }
        let twice = ["quick 2", "quick 3", "quick 2", "quick 3", "slow 2", "slow 2"]
        #expect(Array(settled.values.dropFirst(expected.count)) == twice)
    }

    @Test func `Observers are notified in the order added, and settling happens with no lock held`() {
        let store = store()
        let settled = Settled(store)
        let order = Recorder<Int>()
        final class Numbered: FluxStoreObserver {
            let (number, order): (Int, Recorder<Int>)
            init(_ number: Int, _ order: Recorder<Int>) { (self.number, self.order) = (number, order) }
            func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? {
                order.record(number)
                return nil
            }
        }
        let journal = Journal(settled: settled)
        store.handle.withAccess { access in
            for number in 1...3 { access.observe(Numbered(number, order)) }
            access.observe(journal)
        }
        store.dispatch(action: .add(5))
        dispatcher.add(1)
        _ = store.handle.withAccess { $0.apply(.action(.add(1))) }
        #expect(order.values == [1, 2, 3, 1, 2, 3, 1, 2, 3])
        #expect(settled.counts.values == [5, 6, 7])
        store.handle.withAccess { $0.remove(journal) }
    }

    @Test func `An observer that was added twice is not notified after one removal`() {
        let (store, journal) = (store(), Journal())
        for _ in 0..<2 { store.handle.withAccess { $0.observe(journal) } }
        store.dispatch(action: .add(1))
        store.handle.withAccess { $0.remove(journal) }
        store.dispatch(action: .add(1))
        #expect(journal.lines.values == ["action 1 1", "action 1 1"])
    }

    @Test func `An observer that settles first is not notified of events`() async {
        final class Onlooker: FluxStoreObserver {
            let fired = Recorder<String>()
            func fired(_ event: any FluxEvent, _ task: FluxTask) { fired.record("\(event)") }
            func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? {
                nil
            }
        }
        let (store, quick, slow) = (store(), Onlooker(), Onlooker())
        store.handle.withAccess { access in
            access.observe(quick, settlesFirst: true)
            access.observe(slow)
        }
        _ = await FluxActionCreator<CounterConverter>(store: store).fire(.add(1)).outcome
        #expect(quick.fired.values.isEmpty && slow.fired.values == ["add(1)"])
    }

    @Test func `Revisions continue after skipped ones, and an ended store keeps its revision`() {
        let store = store()
        store.handle.withAccess { access in
            #expect(access.replace(with: Counter(), by: LogOut(), revision: 9) == 9)
            #expect(access.replace(with: Counter(), by: LogOut(), revision: 9) == 10)
            #expect(access.replace(with: Counter(), by: LogOut(), revision: 3) == 11)
        }
        func ended() -> FluxStoreHandle<Counter> {
            let store = self.store()
            store.handle.withAccess { access in
                access.observe(Journal())
                _ = access.replace(with: Counter(), by: LogOut(), revision: 9)
            }
            return store.handle
        }
        #expect(ended().withAccess { $0.revision } == 9)
    }

    @Test func `A gate holds changes back even without an observer`() {
        let (store, gate) = (store(), Holding())
        store.handle.withAccess { $0.hold(by: gate.admit) }
        #expect(store.dispatch(action: .add(1)) == nil && store.state.count == 0)
        #expect(store.handle.withAccess { $0.isHeld } && gate.held.current.count == 1)
    }

    /// C5: skipped revisions are not mistaken for pending states.
    @Test func `A subscription that starts before a skipped revision receives nothing from before its start`() async {
        let (store, queue) = (store(), DispatchQueue(label: "suspended"))
        queue.suspend()
        let (early, late, snapshot) = (Recorder<Int>(), Recorder<Int>(), Recorder<Int>())
        var tokens = [store.subscribe(on: queue) { early.record($0.count) }]
        store.dispatch(action: .add(1))
        tokens.append(store.subscribe(on: queue) { late.record($0.count) })
        tokens.append(store.subscribe(on: queue, startingWithCurrent: true) { snapshot.record($0.count) })
        store.handle.withAccess { access in
            #expect(access.replace(with: Counter(count: 9), by: LogOut(), revision: 9) == 9)
        }
        store.dispatch(action: .add(1))
        queue.resume()
        await store.flush()
        #expect(early.values == [1, 9, 10])
        #expect(late.values == [9, 10])
        #expect(snapshot.values == [1, 9, 10])
        #expect(store.revision == 10)
        tokens.forEach { $0.unsubscribe() }
    }

    @Test func `A change that a gate holds back is applied only when its holder applies it`() async {
        let (store, journal, gate, seen) = (store(), Journal(), Holding(), Recorder<Int>())
        let token = store.subscribe { seen.record($0.count) }
        store.handle.withAccess { access in
            access.observe(journal)
            access.hold(by: gate.admit)
        }
        #expect(store.dispatch(action: .add(1)) == nil)
        #expect(dispatcher.add(2) == 0)
        store.dispatch(action: .addSilently(100))
        #expect(store.state.count == 100 && store.revision == 0)
        store.handle.withAccess { access in
            access.hold(by: nil)
            for change in gate.held.current { access.apply(change, pastGate: true) }
        }
        #expect(store.state.count == 103 && store.revision == 2)
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.values == [101, 103, 104])
        #expect(journal.lines.values == ["action 100 -", "action 101 1", "action 103 2", "action 104 3", "flush"])
        token.unsubscribe()
    }

    @Test func `A store's end waits for an observer that delays it, and pending changes are delivered`() async {
        let (journal, quick, seen, gone) = (Journal(delays: true), Journal(), Recorder<Int>(), Gate())
        var store: FluxStore<Counter>? = store()
        let handle = store!.handle
        handle.withAccess { access in
            access.observe(journal)
            access.observe(quick)
        }
        let canary = Locked<Canary?>(Canary(gone))
        let token = store!.subscribe { [canary = canary.current] state in
            withExtendedLifetime(canary) { seen.record(state.count) }
        }
        canary.withLock { $0 = nil }
        store!.dispatch(action: .add(1))
        store = nil
        #expect(dispatcher.add(1) == 0)
        _ = handle.withAccess { $0.apply(.action(.add(1))) }
        journal.finish.withLock { $0.take() }?()
        await gone.opened()
        #expect(seen.values == [1, 2])
        #expect(journal.lines.values.suffix(1) == ["action 2 2"] && quick.lines.values.contains("ending"))
        token.unsubscribe()
    }

    @Test func `Observers are released with the store, or once they are removed`() async {
        final class Guarded: FluxStoreObserver {
            let canary: Canary
            init(_ gone: Gate) { canary = Canary(gone) }
            func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? {
                nil
            }
        }
        let gone = (0..<2).map { _ in Gate() }
        var store: FluxStore<Counter>? = store()
        let place = Locked<Guarded?>(Guarded(gone[0]))
        store!.handle.withAccess { access in
            access.observe(place.current!)
            access.observe(Guarded(gone[1]))
        }
        store!.handle.withAccess { $0.remove(place.current!) }
        #expect(!gone[0].isOpen)
        place.withLock { $0 = nil }
        await gone[0].opened()
        #expect(!gone[1].isOpen)
        store = nil
        await gone[1].opened()
    }

    @Test func `An observer added to an ended store is not kept`() async {
        final class Guarded: FluxStoreObserver {
            let canary: Canary
            let handle: FluxStoreHandle<Counter>
            init(_ gone: Gate, _ handle: FluxStoreHandle<Counter>) { (canary, self.handle) = (Canary(gone), handle) }
            func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? {
                nil
            }
        }
        let handle = store().handle
        let gone = Gate()
        handle.withAccess { access in access.observe(Guarded(gone, handle)) }
        await gone.opened()
    }

    @Test(.stress) func `Stress: an observer added atomically with a read misses and repeats no change`() async {
        let store = store()
        await onThreads(3) { thread in
            if thread > 0 {
                for _ in 0..<3_000 { if thread == 1 { store.dispatch(action: .add(1)) } else { dispatcher.add(1) } }
                return
            }
            for _ in 0..<500 {
                let journal = Journal()
                let start = store.handle.withAccess { access in
                    access.observe(journal)
                    return access.revision
                }
                let end = store.handle.withAccess { access in
                    access.remove(journal)
                    return access.revision
                }
                if journal.lines.values != (start..<end).map({ "action \($0 + 1) \($0 + 1)" }) {
                    Issue.record("\(journal.lines.values) from \(start) to \(end)")
                    return
                }
            }
        }
        #expect(store.state.count == 6_000)
    }

    @Test func `The handle can be used before the store is attached`() {
        let journal = Journal()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher) { handle in
            handle.withAccess { $0.observe(journal) }
            #expect(FluxStoreInfo(handle).dispatcher == nil)
        }
        dispatcher.add(1)
        #expect(journal.lines.values == ["action 1 1"])
        #expect(FluxStoreInfo(store.handle).dispatcher === dispatcher)
    }

    // MARK: - Dispatchers

    final class Attendance: FluxDispatcherObserver {
        let notes = Recorder<String>()
        func attached<State>(_ handle: FluxStoreHandle<State>) {
            notes.record("+\(State.self) \(handle.withAccess { $0.revision })")
        }
        func detached<State>(_ handle: FluxStoreHandle<State>) { notes.record("-\(State.self)") }
    }

    @Test func `A dispatcher observer is notified of present, attached and detached stores`() {
        let attendance = Attendance()
        let first = store()
        first.dispatch(action: .add(1))
        dispatcher.observe(attendance)
        var second: FluxStore<Log>? = FluxStore(initialState: Log(), dispatcher: dispatcher)
        dispatcher.attach(first, priority: 2)
        let other = FluxDispatcher()
        other.attach(first)
        dispatcher.attach(first)
        second = nil
        #expect(attendance.notes.values == ["+Counter 1", "+Log 0", "-Counter", "+Counter 1", "-Log"])
        dispatcher.remove(attendance)
        dispatcher.detach(first)
        #expect(attendance.notes.values.suffix(1) == ["-Counter"])
        #expect(attendance.notes.values.count == 6)
        dispatcher.attach(first)
        dispatcher.remove(attendance)
        #expect(attendance.notes.values.count == 6, "once removed it is told of nothing")
        withExtendedLifetime(second) {}
    }

    @Test func `A store's place changes during an attachment, after it, and after a detachment`() {
        final class Moving: FluxDispatcherObserver {
            let places = Recorder<UInt64>()
            func attached<State>(_ handle: FluxStoreHandle<State>) { places.record(FluxStoreInfo(handle).place) }
            func detached<State>(_ handle: FluxStoreHandle<State>) {}
        }
        let (store, other, moving) = (store(), FluxDispatcher(), Moving())
        let info = FluxStoreInfo(store.handle)
        other.observe(moving)
        var places = [info.place]
        other.attach(store)
        places.append(info.place)
        other.detach(store)
        places.append(info.place)
        #expect(info.place == places[2] && moving.places.values.count == 1)
        #expect(Set(places + moving.places.values).count == 4)
    }

    @Test func `No action is running in any of several dispatchers while they are paused`() async {
        let dispatchers = [FluxDispatcher(), FluxDispatcher()]
        let stores = dispatchers.map { dispatcher in
            (0..<2).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
        }
        await onThreads(4) { thread in
            if thread < 2 {
                for _ in 0..<3_000 { dispatchers[thread].add(1) }
                return
            }
            let order = thread == 2 ? dispatchers : dispatchers.reversed() + dispatchers
            for _ in 0..<1_000 {
                let counts = FluxDispatcher.paused(order) { stores.map { $0.map(\.state.count) } }
                if counts.contains(where: { $0[0] != $0[1] }) {
                    Issue.record("torn: \(counts)")
                    return
                }
            }
        }
    }
}
