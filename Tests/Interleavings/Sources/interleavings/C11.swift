import Explorer
import Flux

/// A view never shows an action's effect on one store of a dispatcher without that on the others, and never goes back.
enum C11 {
    static let scenarios = [
        Scenario("c11-read", "A view read while its dispatcher works is never torn, and never goes back") { scene in
            let dispatcher = FluxDispatcher()
            let one = FluxStore(initialState: Count(), dispatcher: dispatcher)
            let two = makeLog(dispatcher)
            let view = FluxView(one, two) { [$0.count, $1.entries.count] }
            scene.thread("dispatches") { dispatcher.add(1) }
            for name in ["reads", "also reads"] {
                scene.thread(name) {
                    let (first, second) = (view.state, view.state)
                    for state in [first, second] { scene.expect(state[0] == state[1], "torn: \(state)") }
                    scene.expect(first[0] <= second[0], "it went back: \(first), \(second)")
                }
            }
            scene.finally { scene.expect(view.state, is: [1, 1], "the view") }
        },
        Scenario("c11-two-dispatchers", "A view over two dispatchers shows each of them between two actions") { scene in
            let (one, other) = twoDispatchers()
            let stores = [makeLog(one), makeLog(one), makeLog(other), makeLog(other)]
            let view = FluxView(stores) { $0.map(\.entries.count) }
            scene.thread("one") { one.add(1) }
            scene.thread("other") { other.add(2) }
            scene.thread("reads") {
                let state = view.state
                scene.expect(state[0] == state[1] && state[2] == state[3], "torn: \(state)")
            }
            scene.finally { scene.expect(view.state, is: [1, 1, 1, 1], "the view") }
        },
        Scenario("c11-opposite-views", "Views that name two dispatchers in opposite order do not deadlock") { scene in
            let (one, other) = twoDispatchers()
            let stores = [makeLog(one), makeLog(other)]
            let (there, back) = (FluxView(stores) { $0.map(\.entries.count) }, FluxView(stores.reversed()) { $0.count })
            scene.thread("there") { _ = there.state }
            scene.thread("back") { _ = back.state }
            scene.thread("dispatches") {
                one.dispatch(action: Log.Action.addSilently(1))
                other.dispatch(action: Log.Action.addSilently(2))
            }
            scene.finally { scene.expect(there.state, is: [1, 1], "the view") }
        },
        Scenario("c11-watched", "A view with a subscription is never torn, never goes back, and ends on the newest") {
            scene in
            let dispatcher = FluxDispatcher()
            let (one, two) = (makeLog(dispatcher), makeLog(dispatcher))
            let (view, seen) = (FluxView(one, two) { [$0.entries.count, $1.entries.count] }, Noted<[[Int]]>([]))
            let token = Noted<FluxSubscription?>(nil)
            scene.thread("one") { dispatcher.add(1) }
            scene.thread("two") { dispatcher.add(2) }
            scene.thread("subscribes") {
                token.value = view.subscribe(startingWithCurrent: true) { seen.value.append($0) }
            }
            scene.finally {
                for state in seen.value { scene.expect(state[0] == state[1], "torn: \(state)") }
                scene.expect(seen.value.map(\.[0]), is: Array(Set(seen.value.map(\.[0]))).sorted(), "in order")
                withExtendedLifetime(view) { scene.expect(seen.value.last ?? [], is: [2, 2], "the last") }
                token.value = nil
            }
        },
        storesOfNone("c11-stores-of-none", "A view of stores without a dispatcher never goes back in any of them"),
        storesOfNone("c11-stores-anew", "A view that must look up its stores again never goes back", haveMoved: true),
        storesCome("c11-stores-come", "A view whose stores are being attached to a dispatcher is never torn"),
        storesCome("c11-stores-come-anew", "A view that must look up its stores again is never torn", haveMoved: true),
        Scenario("c11-silent", "A view shows silent changes together with announced ones") { scene in
            let dispatcher = FluxDispatcher()
            let (one, two) = (FluxStore(initialState: Count(), dispatcher: dispatcher), makeLog(dispatcher))
            let view = FluxView(one, two) { [$0.count, $1.entries.count] }
            scene.thread("dispatches") { dispatcher.dispatch(action: Log.Action.addSilently(1)) }
            scene.thread("reads") {
                let state = view.state
                scene.expect(state[0] == state[1], "torn: \(state)")
            }
            scene.finally { scene.expect(view.state, is: [1, 1], "the view") }
        },
        Scenario("c11-view-of-views", "A view over another view and its store is never torn") { scene in
            let dispatcher = FluxDispatcher()
            let store = makeLog(dispatcher)
            let view = FluxView(store.view(\.entries.count), store) { [$0, $1.entries.count] }
            scene.thread("dispatches") { store.add(1) }
            scene.thread("reads") {
                let state = view.state
                scene.expect(state[0] == state[1], "torn: \(state)")
            }
            scene.finally { scene.expect(view.state, is: [1, 1], "the view") }
        },
        Scenario("c11-store-moves", "A view whose stores move one after the other is never torn") { scene in
            let (one, other) = twoDispatchers()
            let stores = [makeLog(one), makeLog(one)]
            let view = FluxView(stores) { $0.map(\.entries.count) }
            scene.thread("moves and dispatches") {
                for store in stores { other.attach(store) }
                other.add(1)
            }
            scene.thread("reads") {
                let state = view.state
                scene.expect(state[0] == state[1], "torn: \(state)")
            }
            scene.finally { scene.expect(view.state, is: [1, 1], "the view") }
        },
        storesMove("c11-stores-move-at-once", "A view whose stores move at the same time is never torn") {
            FluxView($0, $1) { [$0.entries.count, $1.entries.count] }
        },
        storesMove("c11-members-move", "A view of a group whose members move at the same time is never torn") {
            one, other in
            let group = FluxView(makeLog(), by: { _, _ in true }) { _ in [0: one, 1: other] }
            return FluxView(group) { members in [0, 1].map { members[$0]?.entries.count ?? 0 } }
        },
        Scenario(
            "c11-bounded",
            "A bounded subscription to a view never repeats a value, and ends on the newest"
        ) { scene in
            let (store, seen) = (makeLog(), Noted<[Bool]>([]))
            let view = store.view { $0.entries.count.isMultiple(of: 2) }
            let token = view.subscribe(.buffered(newest: 1), startingWithCurrent: true) { seen.value.append($0) }
            let other = view.subscribe(.buffered(oldest: 1)) { _ in }
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
            }
            scene.thread("unsubscribes") { other.unsubscribe() }
            scene.finally {
                let seen = seen.value
                scene.expect(zip(seen, seen.dropFirst()).allSatisfy { $0 != $1 }, "repeated: \(seen)")
                withExtendedLifetime((view, token)) { scene.expect(seen.last, is: true, "the last") }
            }
        },
        Scenario("c11-view-goes", "A released view delivers pending changes, and ends") { scene in
            let (store, seen, applied) = (makeLog(), Noted<[Int]>([]), Noted(0))
            let view = Noted<FluxView<Int>?>(store.view(\.entries.count))
            let token = view.value!.subscribe { seen.value.append($0) }
            scene.thread("dispatches") {
                store.add(1)
                if view.value != nil { store.add(2) }
            }
            scene.thread("lets go") {
                applied.value = store.entries.count
                view.value = nil
            }
            scene.finally {
                scene.expectRising(seen.value)
                scene.expect(seen.value.last ?? 0 >= applied.value, "\(applied.value) pending, it saw \(seen.value)")
                applied.value = seen.value.count
                store.add(3)
            }
            scene.finally {
                withExtendedLifetime(token) { scene.expect(seen.value.count, is: applied.value, "calls after the end") }
            }
        },
        Scenario("c11-store-goes", "A store is released with its view, even while the view is at work") { scene in
            let dispatcher = FluxDispatcher()
            let store = Noted<FluxStore<Log>?>(makeLog(dispatcher))
            let view = Noted(store.value?.view(\.entries.count))
            let find = { @Sendable [weak store = store.value] in store }
            let token = view.value?.subscribe { _ in }
            scene.thread("dispatches") { dispatcher.add(1) }
            scene.thread("lets go") {
                (view.value, store.value) = (nil, nil)
                scene.expect(find() == nil, "the store is retained")
            }
            scene.finally { withExtendedLifetime(token) {} }
        },
        Scenario(
            "c11-watchers-come-and-go", "A subscription that begins while the last other one ends misses no change"
        ) { scene in
            let (store, seen) = (makeLog(), Noted<[Int]>([]))
            let view = store.view(\.entries.count)
            let (first, second) = (view.subscribe { _ in }, Noted<FluxSubscription?>(nil))
            scene.thread("goes") { first.unsubscribe() }
            scene.thread("comes") { second.value = view.subscribe(startingWithCurrent: true) { seen.value.append($0) } }
            scene.thread("dispatches") { store.add(1) }
            scene.finally {
                withExtendedLifetime(view) { scene.expect(seen.value.last, is: 1, "the last") }
                second.value = nil
            }
        },
    ]

    // With `haveMoved`, one of the stores has been attached elsewhere since the view looked up their dispatchers.
    private static func storesOfNone(
        _ name: String, _ title: String, haveMoved: Bool = false
    ) -> Scenario {
        Scenario(name, title) { scene in
            let (one, two, seen) = (makeLog(), makeLog(), Noted<[[Int]]>([]))
            let view = FluxView(one, two) { [$0.entries.count, $1.entries.count] }
            if haveMoved { visit(one) }
            // From here on, the value that the view has kept is outdated, so both threads read the stores.
            one.add(0)
            scene.thread("one") { one.add(1) }
            scene.thread("one, and reads") {
                one.add(2)
                seen.value.append(view.state)
            }
            scene.thread("reads, and two") {
                seen.value.append(view.state)
                two.add(3)
            }
            scene.finally {
                let (first, second) = (seen.value[0], seen.value[1])
                let isAhead = [first[0] - second[0], first[1] - second[1]]
                scene.expect(isAhead.min()! >= 0 || isAhead.max()! <= 0, "neither read is the later one: \(seen.value)")
                scene.expect(view.state, is: [3, 1], "the view")
            }
        }
    }

    // With `haveMoved`, one of the stores has been attached elsewhere since the view looked up their dispatchers.
    private static func storesCome(
        _ name: String, _ title: String, haveMoved: Bool = false
    ) -> Scenario {
        Scenario(name, title) { scene in
            let (dispatcher, one, two) = (FluxDispatcher(), makeLog(), makeLog())
            let view = FluxView(one, two) { [$0.entries.count, $1.entries.count] }
            if haveMoved { visit(one) }
            for store in [one, two] { store.add(0) }
            scene.thread("come and dispatches") {
                for store in [one, two] { dispatcher.attach(store) }
                dispatcher.add(1)
            }
            scene.thread("reads") {
                let state = view.state
                scene.expect(state[0] == state[1], "torn: \(state)")
            }
            scene.finally { scene.expect(view.state, is: [2, 2], "the view") }
        }
    }

    private static func storesMove(
        _ name: String, _ title: String, make: @escaping @Sendable (FluxStore<Log>, FluxStore<Log>) -> FluxView<[Int]>
    ) -> Scenario {
        Scenario(name, title) { scene in
            let (one, other) = twoDispatchers()
            let (stores, seen) = ([makeLog(one), makeLog(one)], Noted([0, 0]))
            let view = make(stores[0], stores[1])
            // From here on, the value that the view has kept is outdated.
            one.add(1)
            for store in stores { scene.thread("moves") { other.attach(store) } }
            scene.thread("dispatches") { other.add(2) }
            scene.thread("reads") { seen.value = view.state }
            scene.finally {
                // An action dispatched before one of the stores had moved reached only the other one.
                if view.state == [2, 2] { scene.expect(seen.value[0] == seen.value[1], "torn: \(seen.value)") }
            }
        }
    }

    private static func visit(_ store: FluxStore<Log>) {
        let dispatcher = FluxDispatcher()
        dispatcher.attach(store)
        dispatcher.detach(store)
    }
}
