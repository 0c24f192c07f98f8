import Explorer
import Flux

/// Each announced change once, in order, never two calls of a handler at once.
enum C5 {
    static let scenarios = [
        Scenario("c5-two-dispatchers-one-handler", "A subscription gets each change of two threads once and in order") {
            scene in
            let (store, seen) = (scene.log(), Noted<[[Int]]>([]))
            let token = store.subscribe { seen.value.append($0.entries) }
            scene.thread("one") { store.dispatch(action: .add(1)) }
            scene.thread("two") { store.dispatch(action: .add(2)) }
            scene.finally {
                withExtendedLifetime(token) {
                    scene.expect(seen.value.map(\.count), is: [1, 2], "how long the states were")
                    scene.expect(seen.value.last ?? [], is: store.state.entries, "the last")
                }
            }
        },
        Scenario("c5-starting-with-current", "A snapshot and the changes after it have no gap and nothing twice") { scene in
            let (store, seen) = (scene.log(), Noted<[Int]>([]))
            let token = Noted<FluxSubscription?>(nil)
            scene.thread("dispatches") {
                store.dispatch(action: .add(1))
                store.dispatch(action: .add(2))
            }
            scene.thread("subscribes") {
                token.value = store.subscribe(startingWithCurrent: true) { seen.value.append($0.entries.count) }
            }
            scene.finally {
                let first = seen.value.first ?? -1
                scene.expect(seen.value, is: Array(min(first, 2)...2), "how long the states were")
                token.value = nil
            }
        },
    ]
}
