import Dispatch
import Explorer
import Flux

/// `unsubscribe()` never waits, and no further call is decided on; `finish()` waits for the last.
///
/// Released stores and creators are freed, and their pending work is done (C10).
enum C7 {
    static let scenarios = [
        Scenario("c7-finish", "Once finish() has returned, no call of the handler runs or begins") { scene in
            C7.finishing(scene) { $0.subscribe($1) }
        },
        Scenario("c7-unsubscribe", "After unsubscribe() at most one call begins, which was already decided on") {
            scene in
            let (store, late, isOver) = (makeLog(), Noted(0), Noted(false))
            let token = store.subscribe { _ in if isOver.value { late.value += 1 } }
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
            }
            scene.thread("unsubscribes") {
                token.unsubscribe()
                isOver.value = true
            }
            scene.finally { scene.expect(late.value <= 1, "\(late.value) calls were decided on after unsubscribe()") }
        },
        Scenario("c7-unsubscribe-inside", "A handler that ends its own subscription is not called again") { scene in
            C7.endingInside(scene) { $0.subscribe($1) }
        },
        Scenario("c7-part-inside", "A handler of a part that ends its own subscription is not called again") { scene in
            C7.endingInside(scene) { $0.subscribe(to: { $0 }, by: { _, _ in false }, $1) }
        },
        Scenario("c7-unsubscribe-on-queue", "After unsubscribe() on the subscription's own queue, no call begins") {
            scene in
            let (store, queue, isOver) = (makeLog(), DispatchQueue(label: "mine"), Noted(false))
            let token = store.subscribe(on: queue) { _ in scene.expect(!isOver.value, "a call after the end") }
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
            }
            scene.thread("unsubscribes") {
                queue.async {
                    token.unsubscribe()
                    isOver.value = true
                }
            }
        },
        Scenario("c7-token-goes", "A token released at any step ends its subscription, and no other") { scene in
            let (store, other, token) = (makeLog(), Noted<[Int]>([]), Noted<FluxSubscription?>(nil))
            token.value = store.subscribe { _ in scene.point() }
            let stays = store.subscribe { other.value.append($0.entries.count) }
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
            }
            scene.thread("lets go") { token.value = nil }
            scene.finally { withExtendedLifetime(stays) { scene.expect(other.value, is: [1, 2], "the other saw") } }
        },
        Scenario(
            "c7-subscribe-and-unsubscribe", "Subscriptions come and go while actions flow; the last ends on the newest"
        ) { scene in
            let (store, seen) = (makeLog(), Noted<[Int]>([]))
            let stays = store.subscribe(.latest) { _ in }
            let last = Noted<FluxSubscription?>(nil)
            scene.thread("dispatches") {
                store.add(1)
                store.add(2)
            }
            scene.thread("comes and goes") {
                store.subscribe { _ in }.unsubscribe()
                last.value = store.subscribe(startingWithCurrent: true) { seen.value.append($0.entries.count) }
            }
            scene.finally {
                withExtendedLifetime(stays) { scene.expect(seen.value.last, is: 2, "the last") }
                last.value = nil
            }
        },
        Scenario("c7-delivery", "A bounded subscription gets no call after finish()") { scene in
            C7.finishing(scene) { $0.subscribe(.buffered(oldest: 2), $1) }
        },
        Scenario("c7-part", "A subscription to a part gets no call after finish()") { scene in
            C7.finishing(scene) { $0.subscribe(to: { $0 }, by: { _, _ in false }, $1) }
        },
        Scenario("c7-flush-and-unsubscribe", "A flush returns even if the subscription ends meanwhile") { scene in
            let store = makeLog()
            let token = store.subscribe { _ in }
            scene.thread("dispatches") { store.add(1) }
            scene.thread("unsubscribes") { token.unsubscribe() }
            scene.task("flushes") { await store.flush() }
        },
        Scenario("c7-interceptor", "A removed interceptor gets no action that is dispatched later") { scene in
            let (dispatcher, isRemoved) = (FluxDispatcher(), Noted(false))
            let store = makeLog(dispatcher)
            let registration = dispatcher.add(
                .before { action in
                    if case .add(2)? = action as? Log.Action { scene.expect(!isRemoved.value, "called once removed") }
                })
            scene.thread("dispatches") {
                dispatcher.add(1)
                if isRemoved.value { dispatcher.add(2) }
            }
            scene.thread("removes") {
                registration.remove()
                isRemoved.value = true
            }
            scene.finally { scene.expect(store.entries.first, is: 1, "applied") }
        },
        Scenario("c10-store-goes", "A store released at any step delivers pending changes, and ends") { scene in
            let (store, seen) = (Noted<FluxStore<Log>?>(makeLog()), Noted<[Int]>([]))
            let token = store.value!.subscribe { seen.value.append($0.entries.count) }
            let applied = Noted(0)
            scene.thread("dispatches") {
                guard let store = store.value else { return }
                store.add(1)
                store.add(2)
                applied.value = 2
            }
            scene.thread("lets go") { store.value = nil }
            scene.finally {
                withExtendedLifetime(token) {
                    scene.expect(seen.value, is: applied.value == 0 ? [] : [1, 2], "seen")
                }
            }
        },
        Scenario("c10-bounded-goes", "Bounded subscriptions of a released store deliver or count each change, and end")
        { scene in
            let (store, applied) = (Noted<FluxStore<Log>?>(makeLog()), Noted(0))
            let (newest, each, overflows) = (Noted<[Int]>([]), Noted<[Int]>([]), Noted(0))
            let bounded = store.value!.subscribe(.buffered(newest: 1)) { newest.value.append($0.entries.count) }
            let failing = store.value!.subscribe(failingAfter: 1) { result in
                scene.expect(overflows.value == 0, "something after the error")
                switch result {
                case .success(let state): each.value.append(state.entries.count)
                case .failure: overflows.value += 1
                }
            }
            scene.thread("dispatches") {
                guard let store = store.value else { return }
                for entry in 1...3 { store.add(entry) }
                applied.value = 3
            }
            scene.thread("lets go") { store.value = nil }
            scene.finally {
                let applied = applied.value
                scene.expectRising(newest.value)
                scene.expect(newest.value.last ?? 0, is: applied, "the newest")
                scene.expect(newest.value.count + bounded.dropped, is: applied, "delivered or counted")
                scene.expect(each.value, is: Array(1...3).prefix(each.value.count).map { $0 }, "each")
                scene.expect(overflows.value, is: each.value.count < applied ? 1 : 0, "errors")
                let missed = applied - each.value.count
                scene.expect(failing.dropped <= missed && (failing.dropped > 0) == (missed > 0), "\(failing.dropped)")
            }
        },
        Scenario("c10-store-of-dispatcher-goes", "A released store leaves its dispatcher, even while that dispatches") {
            scene in
            let dispatcher = FluxDispatcher()
            let store = Noted<FluxStore<Log>?>(makeLog(dispatcher))
            scene.thread("dispatches") {
                dispatcher.add(1)
                dispatcher.add(2)
            }
            scene.thread("lets go") { store.value = nil }
            scene.finally { scene.expect(dispatcher.stores.count, is: 0, "stores") }
        },
        Scenario("c10-dispatcher-goes", "A dispatcher and its store can be released in any order") { scene in
            let dispatcher = Noted<FluxDispatcher?>(FluxDispatcher())
            let store = Noted<FluxStore<Log>?>(nil)
            dispatcher.value!.attach(keeping: makeLog(), priority: 1)
            store.value = makeLog(dispatcher.value)
            scene.thread("dispatches") { dispatcher.value?.add(1) }
            scene.thread("dispatcher goes") { dispatcher.value = nil }
            scene.thread("store goes") { store.value = nil }
        },
        Scenario("c10-creator-goes", "Releasing a creator loses no event that was fired") { scene in
            let store = makeLog()
            let creator = Noted<FluxActionCreator<Sending>?>(FluxActionCreator(store: store))
            let fired = Noted<[Int]>([])
            scene.thread("fires") {
                for entry in [1, 2] {
                    guard let creator = creator.value else { return }
                    fired.value.append(entry)
                    creator.fire(.add([entry]))
                }
            }
            scene.thread("lets go") { creator.value = nil }
            scene.finally { scene.expect(store.entries, is: fired.value, "applied") }
        },
        Scenario("c10-ended-is-told", "A subscription is notified of the end once, after the last state") { scene in
            let (store, seen, ends) = (Noted<FluxStore<Log>?>(makeLog()), Noted<[Int]>([]), Noted(0))
            let token = store.value!.subscribe(
                .every, on: nil, startingWithCurrent: true, ended: { ends.value += 1 },
                {
                    scene.expect(ends.value == 0, "a state after the end")
                    seen.value.append($0.entries.count)
                })
            scene.thread("dispatches") { store.value?.add(1) }
            scene.thread("lets go") { store.value = nil }
            scene.finally {
                withExtendedLifetime(token) { scene.expect(ends.value, is: 1, "notifications of the end") }
            }
        },
        Scenario(
            "c10-observer-added", "An observer added while actions flow misses none after that, and gets none twice"
        ) { scene in
            let (store, journal) = (makeLog(), Journal())
            let first = Noted<Int>(0)
            scene.thread("one") {
                store.add(1)
                store.add(2)
            }
            scene.thread("two") { store.add(3) }
            scene.thread("looks on") {
                first.value = store.handle.withAccess { access in
                    access.observe(journal)
                    return Int(access.revision)
                }
            }
            scene.finally {
                let noted = journal.noted.withLock { $0 }
                scene.expect(noted, is: Array((first.value + 1)...4).dropLast(), "revisions")
                store.handle.withAccess { $0.remove(journal) }
            }
        },
        Scenario("instrumented", "Instrumentation is notified of each applied action once, with its own revision") {
            scene in
            let (store, told) = (makeLog(), Told())
            store.instrument(told)
            // Waking this subscription lets another thread run before the instrumentation is notified.
            let subscription = store.subscribe { _ in }
            scene.thread("one") { store.add(1) }
            scene.thread("two") {
                store.add(2)
                store.add(3)
            }
            scene.finally {
                let applied = told.applied.withLock { $0 }
                for (entry, revision) in applied {
                    scene.expect(store.entries[revision - 1], is: entry, "the action of revision \(revision)")
                }
                scene.expect(Set(applied.map(\.entry)).count, is: 3, "different actions reported")
                scene.expect(applied.count, is: 3, "reports")
                withExtendedLifetime(subscription) {}
            }
        },
    ]
}

/// Records its notifications.
private final class Told: FluxInstrumentation {
    let applied = FluxLock<[(entry: Int, revision: Int)]>([])

    func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
        guard case .add(let entry)? = action as? Log.Action, let revision else { return }
        applied.withLock { $0.append((entry, Int(revision))) }
    }
}

/// Records the revisions of announced changes.
private final class Journal: FluxStoreObserver {
    let noted = FluxLock<[Int]>([])

    func applied(_ change: FluxChange<Log>, _ state: Log, revision: UInt64?) -> (any FluxSettling)? {
        if let revision { noted.withLock { $0.append(Int(revision)) } }
        return nil
    }
}

extension C7 {
    /// Checks that no call runs or begins after a subscription has finished amid changes.
    private static func finishing(
        _ scene: Scene,
        _ subscribe: (FluxStore<Log>, @escaping @Sendable (Log) -> Void) -> FluxSubscription
    ) {
        let (store, isOver) = (makeLog(), Noted(false))
        let token = subscribe(store) { _ in
            scene.expect(!isOver.value, "a call begins after finish()")
            scene.point()
            scene.expect(!isOver.value, "a call runs after finish()")
        }
        scene.thread("dispatches") {
            store.add(1)
            store.add(2)
        }
        scene.task("finishes") {
            await token.finish()
            isOver.value = true
        }
    }

    private static func endingInside(
        _ scene: Scene,
        _ subscribe: (FluxStore<Log>, @escaping @Sendable (Log) -> Void) -> FluxSubscription
    ) {
        let (store, calls, token) = (makeLog(), Noted(0), Noted<FluxSubscription?>(nil))
        token.value = subscribe(store) { _ in
            calls.value += 1
            token.value?.unsubscribe()
        }
        scene.thread("one") {
            store.add(1)
            store.add(2)
        }
        scene.thread("two") { store.add(3) }
        scene.finally {
            scene.expect(calls.value, is: 1, "calls")
            token.value = nil
        }
    }
}
