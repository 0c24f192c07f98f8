import Dispatch
import Explorer
import Flux

/// Each announced change comes once and in order, and a handler never runs twice at once.
///
/// This also holds if handlers dispatch (C6), and if one is slow (C8).
enum C5 {
    static let scenarios = [
        Scenario("c5-every", "A subscription gets each change of two threads once and in order") { scene in
            let (store, seen, calls) = (makeLog(), Noted<[[Int]]>([]), Noted(0))
            let token = store.subscribe {
                calls.value += 1
                scene.expect(calls.value == 1, "two calls at once")
                scene.point()
                calls.value -= 1
                seen.value.append($0.entries)
            }
            scene.thread("one") { store.add(1) }
            scene.thread("two") {
                store.add(2)
                store.add(3)
            }
            scene.finally {
                withExtendedLifetime(token) {
                    scene.expect(seen.value.map(\.count), is: [1, 2, 3], "the lengths of the states")
                    scene.expect(seen.value.last ?? [], is: store.entries, "the last")
                }
            }
        },
        Scenario("c5-starting-with-current", "A snapshot and the changes after it have no gap and no duplicate") {
            scene in
            let (store, seen, token) = (makeLog(), Noted<[Int]>([]), Noted<FluxSubscription?>(nil))
            scene.thread("one") {
                store.add(1)
                store.add(2)
            }
            scene.thread("two") { store.add(3) }
            scene.thread("subscribes") {
                token.value = store.subscribe(startingWithCurrent: true) { seen.value.append($0.entries.count) }
            }
            scene.finally {
                let first = seen.value.first ?? 4
                scene.expect(seen.value, is: Array(min(first, 3)...3), "the lengths of the states")
                token.value = nil
            }
        },
        Scenario("c5-next", "A subscription that replaces the only one gets each later change once") { scene in
            let (store, seen, calls, before) = (makeLog(), Noted<[Int]>([]), Noted(0), Noted(0))
            let token = Noted<FluxSubscription?>(store.subscribe { _ in })
            let other = store.subscribe(.latest) { _ in }
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
            }
            scene.thread("comes and goes") {
                token.value = nil
                before.value = store.entries.count
                token.value = store.subscribe(startingWithCurrent: true) {
                    calls.value += 1
                    scene.expect(calls.value == 1, "two calls at once")
                    scene.point()
                    calls.value -= 1
                    seen.value.append($0.entries.count)
                }
                store.add(3)
            }
            scene.finally {
                let first = seen.value.first ?? 4
                scene.expect(first >= before.value, "it began with \(first), after \(before.value)")
                scene.expect(seen.value, is: Array(min(first, 3)...3), "the lengths of the states")
                token.value = nil
                withExtendedLifetime(other) {}
            }
        },
        Scenario("c5-latest", "A subscription to the latest never goes back, repeats nothing, and ends on the newest") {
            scene in
            let (store, seen) = (makeLog(), Noted<[Int]>([]))
            let token = store.subscribe(.latest) { seen.value.append($0.entries.count) }
            scene.thread("one") {
                store.add(1)
                store.add(2)
            }
            scene.thread("two") { store.add(3) }
            scene.finally {
                withExtendedLifetime(token) {
                    scene.expectRising(seen.value)
                    scene.expect(seen.value.last, is: 3, "the last")
                }
            }
        },
        Scenario("c5-latest-joined", "A subscription to the latest that joins another one also ends on the newest") {
            scene in
            let (store, one, two) = (makeLog(), Noted<[Int]>([]), Noted<[Int]>([]))
            let token = Noted<FluxSubscription?>(nil)
            let first = store.subscribe(.latest) { one.value.append($0.entries.count) }
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
            }
            scene.thread("joins") {
                token.value = store.subscribe(.latest, startingWithCurrent: true) { two.value.append($0.entries.count) }
            }
            scene.finally {
                for (name, seen) in [("the first", one.value), ("the second", two.value)] {
                    scene.expectRising(seen, name)
                    scene.expect(seen.last, is: 2, "the last of \(name)")
                }
                withExtendedLifetime(first) { token.value = nil }
            }
        },
        Scenario(
            "c5-latest-part", "Subscriptions to the latest of a part never go back or repeat, and end on the newest"
        ) { scene in
            let (store, one, two) = (makeLog(), Noted<[Int]>([]), Noted<[Int]>([]))
            let (token, queue) = (Noted<FluxSubscription?>(nil), DispatchQueue(label: "mine"))
            let part: @Sendable (Log) -> Int = { $0.entries.count }
            // No two values are equal here, so a state that is delivered twice would show.
            let first = store.subscribe(to: part, by: { _, _ in false }, .latest) { one.value.append($0) }
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
            }
            scene.thread("joins") {
                token.value = store.subscribe(
                    to: part, by: { _, _ in false }, .latest, on: queue, startingWithCurrent: true
                ) {
                    two.value.append($0)
                }
            }
            scene.finally {
                for (name, seen) in [("the first", one.value), ("the second", two.value)] {
                    scene.expectRising(seen, name)
                    scene.expect(seen.last, is: 2, "the last of \(name)")
                }
                withExtendedLifetime(first) { token.value = nil }
            }
        },
        Scenario(
            "c5-latest-on-queue",
            "On a user's queue the latest never goes back, ends on the newest, and comes once for each turn"
        ) { scene in
            let (store, seen, queue) = (makeLog(), Noted<[Int]>([]), DispatchQueue(label: "mine"))
            let token = store.subscribe(.latest, on: queue) {
                seen.value.append($0.entries.count)
                // What the handler enqueues comes before its next call.
                queue.async { seen.value.append(0) }
            }
            scene.thread("one") {
                store.add(1)
                store.add(2)
            }
            scene.thread("two") { store.add(3) }
            scene.finally {
                withExtendedLifetime(token) {
                    let counts = seen.value.filter { $0 > 0 }
                    scene.expectRising(counts)
                    scene.expect(counts.last, is: 3, "the last")
                    scene.expect(seen.value, is: counts.flatMap { [$0, 0] }, "a turn for each")
                }
            }
        },
        Scenario("c5-concurrent-queue", "A handler on a concurrent queue is called in order, and never twice at once") {
            scene in
            let (store, seen, newest) = (makeLog(), Noted<[Int]>([]), Noted<[Int]>([]))
            let calls = Noted((every: 0, latest: 0))
            let tokens = [
                store.subscribe(on: .global()) {
                    calls.value.every += 1
                    scene.expect(calls.value.every == 1, "two calls at once")
                    scene.point()
                    calls.value.every -= 1
                    seen.value.append($0.entries.count)
                },
                store.subscribe(.latest, on: .global()) {
                    calls.value.latest += 1
                    scene.expect(calls.value.latest == 1, "two calls of the latest at once")
                    scene.point()
                    calls.value.latest -= 1
                    newest.value.append($0.entries.count)
                },
            ]
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
                store.add(3)
            }
            scene.finally {
                withExtendedLifetime(tokens) {
                    scene.expect(seen.value, is: [1, 2, 3], "each")
                    scene.expect(newest.value.last, is: 3, "the newest")
                }
            }
        },
        Scenario(
            "c5-latest-on-concurrent-queue", "A handler of the latest on a concurrent queue never runs twice at once"
        ) { scene in
            let (store, calls, newest) = (makeLog(), Noted(0), Noted(0))
            let token = store.subscribe(.latest, on: .global()) {
                calls.value += 1
                scene.expect(calls.value == 1, "two calls at once")
                scene.point()
                calls.value -= 1
                newest.value = $0.entries.count
            }
            store.add(1)
            for (name, entry) in [("one", 2), ("two", 3), ("three", 4)] { scene.thread(name) { store.add(entry) } }
            scene.finally { withExtendedLifetime(token) { scene.expect(newest.value, is: 4, "the newest") } }
        },
        Scenario("c5-two-queues", "Subscriptions on two queues each get all changes in order") { scene in
            let (store, one, two) = (makeLog(), Noted<[Int]>([]), Noted<[Int]>([]))
            let tokens = [
                store.subscribe { one.value.append($0.entries.count) },
                store.subscribe(on: DispatchQueue(label: "other")) { two.value.append($0.entries.count) },
            ]
            scene.thread("one") { store.add(1) }
            scene.thread("two") { store.add(2) }
            scene.finally {
                withExtendedLifetime(tokens) {
                    scene.expect(one.value, is: [1, 2], "on the store's queue")
                    scene.expect(two.value, is: [1, 2], "on the other")
                }
            }
        },
        Scenario("c5-part", "A subscription to a part gets each change of it once") { scene in
            let (store, seen) = (makeLog(), Noted<[Int]>([]))
            let token = store.subscribe(to: \.entries.count) { seen.value.append($0) }
            scene.thread("one") { store.add(1) }
            scene.thread("two") { store.add(2) }
            scene.finally { withExtendedLifetime(token) { scene.expect(seen.value, is: [1, 2], "counts") } }
        },
        Scenario("c5-buffered", "A buffer for one change keeps the newest, and counts the dropped ones") { scene in
            let (store, seen) = (makeLog(), Noted<[Int]>([]))
            let token = store.subscribe(.buffered(newest: 1)) { seen.value.append($0.entries.count) }
            scene.thread("one") {
                store.add(1)
                store.add(2)
            }
            scene.thread("two") { store.add(3) }
            scene.finally {
                scene.expect(seen.value == seen.value.sorted(), "it went back: \(seen.value)")
                scene.expect(seen.value.last, is: 3, "the last")
                scene.expect(seen.value.count + token.dropped, is: 3, "delivered or counted")
            }
        },
        Scenario("c5-actions-joined", "A subscription to actions that begins while the only other one ends misses none")
        { scene in
            let (dispatcher, seen) = (FluxDispatcher(), Noted<[String]>([]))
            let store = FluxStore(initialState: Log(), dispatcher: dispatcher)
            let first = Noted<FluxSubscription?>(dispatcher.subscribeActions { _ in })
            let token = Noted<FluxSubscription?>(nil)
            scene.thread("goes") { first.value = nil }
            scene.thread("comes") {
                token.value = dispatcher.subscribeActions { applied in seen.value.append("\(applied.action)") }
                store.add(1)
            }
            scene.finally {
                scene.expect(seen.value.count, is: 1, "reported actions")
                withExtendedLifetime(store) { token.value = nil }
            }
        },
        Scenario("c5-sequence", "An async sequence of states never goes back, and reaches the newest") { scene in
            let (store, seen) = (makeLog(), Noted<[Int]>([]))
            scene.task("iterates") {
                for await state in store.states {
                    seen.value.append(state.entries.count)
                    if state.entries.count == 2 { return }
                }
            }
            scene.thread("one") { store.add(1) }
            scene.thread("two") { store.add(2) }
            scene.finally { scene.expectRising(seen.value) }
        },
        Scenario(
            "c5-sequence-cancelled", "An async sequence of each state ends when its task is cancelled, at any step"
        ) { scene in
            let (store, seen) = (makeLog(), Noted<[Int]>([]))
            let cancel = scene.task("iterates") {
                for await state in store.states(.every) { seen.value.append(state.entries.count) }
            }
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
            }
            scene.thread("cancels") { cancel() }
            scene.finally {
                let first = seen.value.first ?? 0
                scene.expect(seen.value, is: Array((first..<(first + seen.value.count))), "each one once")
            }
        },
        Scenario("c5-flush", "A flush returns once all changes applied before have been delivered") { scene in
            C5.flushing(scene) { store, see in
                let token = store.subscribe { see($0.entries.count) }
                return (token, { await store.flush() })
            }
        },
        Scenario("c5-flush-part", "A flush returns once all earlier changes of a part have been delivered") { scene in
            C5.flushing(scene) { store, see in
                let token = store.subscribe(to: \.entries.count) { see($0) }
                return (token, { await store.flush() })
            }
        },
        Scenario("c5-flush-view", "A flush of a view returns once all changes applied before have been delivered") {
            scene in
            C5.flushing(scene) { store, see in
                let view = store.view(\.entries.count)
                let token = view.subscribe { see($0) }
                return (token, { await view.flush() })
            }
        },
        Scenario("c6-handler-dispatches", "Subscriptions see states in order even if a handler dispatches") { scene in
            let (store, one, two) = (makeLog(), Noted<[Int]>([]), Noted<[Int]>([]))
            let tokens = [
                store.subscribe { state in
                    one.value.append(state.entries.count)
                    if state.entries.last == 1 { store.add(9) }
                },
                store.subscribe { two.value.append($0.entries.count) },
            ]
            scene.thread("one") { store.add(1) }
            scene.thread("two") { store.add(2) }
            scene.finally {
                withExtendedLifetime(tokens) {
                    scene.expect(one.value, is: [1, 2, 3], "the handler that dispatches")
                    scene.expect(two.value, is: [1, 2, 3], "the handler behind it")
                }
            }
        },
        Scenario(
            "c6-handler-subscribes", "A handler can subscribe, and end another subscription, while actions are applied"
        ) { scene in
            let (store, seen) = (makeLog(), Noted<[Int]>([]))
            let tokens = Noted<[FluxSubscription]>([])
            tokens.value.append(
                store.subscribe { _ in
                    if tokens.value.count > 1 { return tokens.value[1].unsubscribe() }
                    tokens.value.append(
                        store.subscribe(startingWithCurrent: true) { seen.value.append($0.entries.count) })
                })
            scene.thread("one") { store.add(1) }
            scene.thread("two") {
                store.add(2)
                store.add(3)
            }
            scene.finally {
                scene.expectRising(seen.value)
                tokens.value = []
            }
        },
        Scenario("c8-blocked-handler", "A blocked handler delays no other queue and no dispatch") { scene in
            let (store, gate, seen) = (makeLog(), Gate(), Noted<[Int]>([]))
            let tokens = [
                store.subscribe(on: DispatchQueue(label: "slow")) { _ in gate.pass() },
                store.subscribe {
                    seen.value.append($0.entries.count)
                    if $0.entries.count == 2 { gate.open() }
                },
            ]
            scene.thread("one") { store.add(1) }
            scene.thread("two") { store.add(2) }
            scene.finally { withExtendedLifetime(tokens) { scene.expect(seen.value, is: [1, 2], "seen meanwhile") } }
        },
        Scenario("c5-part-starts", "The latest of a part is not delivered unless the part has changed") { scene in
            let (store, seen) = (makeLog(), Noted<[Bool]>([]))
            let token = store.subscribe(to: { $0.entries.contains(9) }, .latest) { seen.value.append($0) }
            scene.thread("dispatches") { store.add(1) }
            scene.finally { withExtendedLifetime(token) { scene.expect(seen.value, is: [], "delivered") } }
        },
    ]

    private static func flushing(
        _ scene: Scene,
        _ watch: (FluxStore<Log>, @escaping @Sendable (Int) -> Void) -> (FluxSubscription, @Sendable () async -> Void)
    ) {
        let (store, seen) = (makeLog(), Noted(0))
        let (token, flush) = watch(store) { seen.value = $0 }
        scene.thread("dispatches") { store.add(1) }
        scene.task("flushes") {
            store.add(2)
            let applied = store.entries.count
            await flush()
            scene.expect(seen.value >= applied, "\(seen.value) of \(applied) were delivered")
        }
        // Keeps what is watched alive until the end.
        scene.finally { withExtendedLifetime((token, flush)) { scene.expect(seen.value, is: 2, "delivered") } }
    }
}
