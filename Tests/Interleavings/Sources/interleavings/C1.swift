import Explorer
import Flux

/// One action at a time, each exactly once, and what follows from that for readers.
enum C1 {
    static let scenarios = [
        Scenario("c1-dispatches", "Two threads dispatch to a store, and no update is lost") { scene in
            let store = FluxStore(initialState: Log(scene: scene), dispatcher: nil)
            scene.thread("one") { store.add(1) }
            scene.thread("two") { store.add(2) }
            scene.finally {
                scene.expect(store.entries.sorted(), is: [1, 2], "applied")
                scene.expect(store.revision, is: 2, "the revision")
            }
        },
        Scenario("c1-dispatcher-and-store", "Actions through a dispatcher and past it are applied one at a time") {
            scene in
            let dispatcher = FluxDispatcher()
            let store = FluxStore(initialState: Log(scene: scene), dispatcher: dispatcher)
            scene.thread("dispatcher") { dispatcher.add(1) }
            scene.thread("store") { store.dispatch(action: .addSilently(2)) }
            scene.thread("another") { store.handle.withAccess { _ = $0.apply(.action(.add(3))) } }
            scene.finally { scene.expect(store.entries.sorted(), is: [1, 2, 3], "applied") }
        },
        Scenario("c1-reaction-and-store", "A reaction and an action to the store are applied one at a time") { scene in
            struct Signal: FluxAction { let entry: Int }
            let dispatcher = FluxDispatcher()
            let store = FluxStore(initialState: Log(scene: scene), dispatcher: dispatcher)
            _ = store.handle.route(Signal.self) { signal in
                .other(signal) { log in log.handle(action: .add(signal.entry)) != nil }
            }
            scene.thread("reaction") { dispatcher.dispatch(action: Signal(entry: 1)) }
            scene.thread("store") { store.add(2) }
            scene.finally { scene.expect(store.entries.sorted(), is: [1, 2], "applied") }
        },
        Scenario("c2-read-your-writes", "When a dispatch has returned, the state has the change") { scene in
            let dispatcher = FluxDispatcher()
            let store = makeLog(dispatcher)
            for (name, entry) in [("one", 1), ("two", 2)] {
                scene.thread(name) {
                    dispatcher.add(entry)
                    scene.expect(store.entries.contains(entry), "\(entry) is not there after its dispatch")
                }
            }
            scene.finally { scene.expect(store.entries.sorted(), is: [1, 2], "applied") }
        },
        Scenario("c2-feature", "A feature of a store is created once, whichever thread needs it first") { scene in
            let (store, kept) = (makeLog(), Noted<[Gate]>([]))
            for name in ["one", "two"] {
                scene.thread(name) { kept.value.append(store.handle.feature(Gate.self) { Gate() }) }
            }
            scene.finally {
                scene.expect(kept.value[0] === kept.value[1], "two features of one type")
                kept.value = []
            }
        },
        Scenario("c3-program-order", "The actions of each thread keep their order in every store") { scene in
            let dispatcher = FluxDispatcher()
            let store = makeLog(dispatcher)
            scene.thread("one") {
                dispatcher.add(1)
                dispatcher.add(2)
            }
            scene.thread("two") {
                dispatcher.add(3)
                dispatcher.add(4)
            }
            scene.finally {
                scene.expect([1, 2], in: store.entries, "one's")
                scene.expect([3, 4], in: store.entries, "two's")
            }
        },
        Scenario("c3-events", "Events of one thread are converted in the order fired while another thread fires") {
            scene in
            let store = makeLog()
            let creator = FluxActionCreator<Sending>(store: store)
            scene.thread("one") {
                creator.fire(.add([1]))
                creator.fire(.add([2, 3]))
            }
            scene.thread("two") { creator.fire(.add([4])) }
            scene.finally {
                scene.expect([1, 2, 3], in: store.entries, "one's")
                scene.expect(store.entries.count, is: 4, "applied")
                scene.expect(creator.inFlight, is: 0, "in flight")
            }
        },
        Scenario("c3-async-events", "Actions sent before asynchronous conversions suspend keep the order fired") {
            scene in
            let store = makeLog()
            let creator = FluxActionCreator<Working>(store: store)
            scene.thread("fires") {
                creator.fire(.work(1))
                creator.fire(.work(2))
            }
            scene.finally {
                scene.expect([10, 20], in: store.entries, "before they suspend")
                scene.expect(store.entries.sorted(), is: [10, 11, 20, 21], "applied")
            }
        },
        Scenario("c4-one-order", "All stores of a dispatcher see its actions in the same order") { scene in
            let dispatcher = FluxDispatcher()
            let (one, other) = (makeLog(dispatcher), makeLog(dispatcher))
            scene.thread("one") { dispatcher.add(1) }
            scene.thread("two") { dispatcher.add(2) }
            scene.finally {
                scene.expect(one.entries, is: other.entries, "the order in the other store")
                scene.expect(one.entries.count, is: 2, "applied")
            }
        },
        Scenario("c4-attached-again", "A store that gets another priority misses no action and gets none twice") {
            scene in
            let dispatcher = FluxDispatcher()
            let store = makeLog(dispatcher)
            scene.thread("dispatches") {
                dispatcher.add(1)
                dispatcher.add(2)
            }
            scene.thread("attaches") { dispatcher.attach(store, priority: 1) }
            scene.finally { scene.expect(store.entries, is: [1, 2], "applied") }
        },
        Scenario("c4-moved", "A store that moves gets actions dispatched meanwhile, in order and once") { scene in
            let (one, other) = twoDispatchers()
            let store = makeLog(one)
            scene.thread("dispatches") {
                one.add(1)
                other.add(2)
            }
            scene.thread("moves") { other.attach(store) }
            scene.finally {
                scene.expect(!store.entries.isEmpty, "both actions were missed")
                scene.expect([1, 2].filter(store.entries.contains), in: store.entries, "in order, each once")
                scene.expect(FluxStoreInfo(store.handle).dispatcher === other, "the store is not where it was moved to")
            }
        },
        Scenario("c4-moved-twice", "A store that two threads move ends up in one place only") { scene in
            let (one, other) = twoDispatchers()
            let store = makeLog()
            scene.thread("one") { one.attach(store) }
            scene.thread("two") { other.attach(store) }
            scene.finally {
                one.add(1)
                other.add(2)
                scene.expect(store.entries.count, is: 1, "places where it is attached")
            }
        },
        Scenario("c4-detached", "A detached store gets no more actions from its dispatcher") { scene in
            let dispatcher = FluxDispatcher()
            let (store, isDetached) = (makeLog(dispatcher), Noted(false))
            scene.thread("dispatches") {
                let was = isDetached.value
                dispatcher.add(1)
                if was { scene.expect(store.entries, is: [], "applied") }
            }
            scene.thread("detaches") {
                scene.expect(dispatcher.detach(store), "the store was not attached")
                isDetached.value = true
            }
            scene.finally { scene.expect(dispatcher.stores.count, is: 0, "stores") }
        },
        Scenario("c4-detached-name", "Once a store is detached, no action to its name reaches it") { scene in
            let dispatcher = FluxDispatcher()
            let (store, seen) = (makeLog(nil), Noted<[Int]?>(nil))
            try? dispatcher.attach(store, as: "one")
            scene.thread("dispatches") {
                let isTaken = dispatcher.dispatch(action: Log.Action.add(1), to: "one")
                scene.expect(store.entries, is: isTaken ? [1] : [], "applied")
            }
            scene.thread("detaches") {
                dispatcher.detach(store)
                seen.value = store.entries
            }
            scene.finally {
                scene.expect(seen.value ?? [], is: store.entries, "entries once detached, and at the end")
            }
        },
        Scenario("c4-first-names", "Two threads give the first names, and a detached store loses its own") { scene in
            let dispatcher = FluxDispatcher()
            let (kept, gone) = (makeLog(nil), makeLog(nil))
            scene.thread("names") { try? dispatcher.attach(kept, as: "kept") }
            scene.thread("names and detaches") {
                try? dispatcher.attach(gone, as: "gone")
                dispatcher.detach(gone)
            }
            scene.finally {
                dispatcher.dispatch(action: Log.Action.add(1), to: "kept")
                scene.expect(kept.entries, is: [1], "found by its name")
                let new = makeLog(nil)
                do { try dispatcher.attach(new, as: "gone") } catch { scene.expect(false, "\(error)") }
            }
        },
        Scenario("c4-watched-stores", "An observer is notified of a store once, and of its attachment first") { scene in
            let dispatcher = FluxDispatcher()
            let (watch, store) = (StoreWatch(), makeLog(nil))
            scene.thread("watches") { dispatcher.observe(watch) }
            scene.thread("attaches") {
                dispatcher.attach(store)
                dispatcher.detach(store)
            }
            scene.finally {
                let told = watch.told.withLock { $0 }
                scene.expect(told == [] || told == [true, false], "notified \(told)")
                dispatcher.remove(watch)
            }
        },
        Scenario(
            "c4-children-followed", "All below a dispatcher are followed, while they come and it is subscribed to"
        ) { scene in
            let (top, follows) = (FluxDispatcher(), Follows())
            let (middle, leaf) = twoDispatchers()
            let token = Noted<FluxSubscription?>(nil)
            scene.thread("subscribes") { token.value = top.subscribeToAll { follows.subscribe($0) } }
            scene.thread("attaches") {
                _ = try? top.attach(middle)
                if token.value != nil { scene.expect(follows.has(middle), "not followed once attached") }
            }
            scene.thread("attaches below") { _ = try? middle.attach(leaf) }
            scene.finally {
                for one in [top, middle, leaf] { scene.expect(follows.has(one), "not followed at the end") }
                token.value = nil
                scene.expect(follows.count, is: 0, "followed after the end")
            }
        },
        Scenario(
            "c4-children-left", "What is no longer below a dispatcher is left, whatever comes below it meanwhile"
        ) { scene in
            let (top, follows) = (FluxDispatcher(), Follows())
            let (middle, leaf) = twoDispatchers()
            _ = try? top.attach(middle)
            let token = Noted<FluxSubscription?>(top.subscribeToAll { follows.subscribe($0) })
            scene.thread("detaches") { top.detach(middle) }
            scene.thread("attaches below") { _ = try? middle.attach(leaf) }
            scene.thread("dispatches") { top.add(1) }
            scene.finally {
                scene.expect(follows.has(top) && follows.count == 1, "followed: \(follows.count)")
                token.value = nil
                scene.expect(follows.count, is: 0, "followed after the end")
            }
        },
    ]
}

/// The dispatchers that a subscription to all follows.
private final class Follows: Sendable {
    private let all = FluxLock<[ObjectIdentifier]>([])

    var count: Int { all.withLock { $0.count } }

    func has(_ dispatcher: FluxDispatcher) -> Bool { all.withLock { $0.contains(ObjectIdentifier(dispatcher)) } }

    func subscribe(_ dispatcher: FluxDispatcher) -> FluxSubscription {
        let id = ObjectIdentifier(dispatcher)
        all.withLock { $0.append(id) }
        return FluxSubscription { [self] in all.withLock { $0.removeAll { $0 == id } } }
    }
}

/// Records attached stores as true, and detached ones as false.
private final class StoreWatch: FluxDispatcherObserver {
    let told = FluxLock<[Bool]>([])

    func attached<State>(_ handle: FluxStoreHandle<State>) { told.withLock { $0.append(true) } }
    func detached<State>(_ handle: FluxStoreHandle<State>) { told.withLock { $0.append(false) } }
}
