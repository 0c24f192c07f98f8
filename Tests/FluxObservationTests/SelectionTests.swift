import Dispatch
import FluxCore
import FluxObservation
import TestSupport
import Testing

/// Parts of a state: delivered only when they change, selected once per change.
@Suite struct SelectionTests {
    struct Shop: FluxState {
        enum Action: FluxAction { case items([Int]), filter(Int), user(String), nothing }
        var items: [Int] = []
        var filter = 0
        var user = "nobody"

        mutating func handle(action: Action) -> Shop? {
            switch action {
            case .items(let new): items = new
            case .filter(let new): filter = new
            case .user(let new): user = new
            case .nothing: break
            }
            return self
        }
    }

    let store = FluxStore(initialState: Shop(), dispatcher: nil)

    @Test func `A part is delivered when it has changed, and is selected once per change`() async {
        let (seen, selected) = (Recorder<Int>(), Locked(0))
        let subscription = store.subscribe(to: { shop in
            selected.withLock { $0 += 1 }
            return shop.items.count
        }) { seen.record($0) }
        for action in [Shop.Action.items([1]), .user("me"), .items([2]), .nothing, .items([1, 2]), .items([])] {
            store.dispatch(action: action)
        }
        await store.flush()
        #expect(seen.values == [1, 2, 0])
        #expect(selected.current == 7, "the start and six changes")
        subscription.unsubscribe()
    }

    @Test func `The first change is compared with the part as it was at the start`() async {
        let seen = (0..<4).map { _ in Recorder<String>() }
        let subscriptions = [
            store.subscribe(to: \.user) { seen[0].record($0) },
            store.subscribe(to: \.user) { old, new in seen[1].record("\(old) \(new)") },
            store.subscribe(to: \.user, startingWithCurrent: true) { seen[2].record("now \($0)") },
            store.subscribe(to: \.user, by: { $0.count == $1.count }) { seen[3].record("longer \($0)") },
        ]
        store.dispatch(action: .user("nobody"))
        store.dispatch(action: .user("me"))
        store.dispatch(action: .user("ma"))
        await store.flush()
        #expect(
            seen.map(\.values) == [
                ["me", "ma"], ["nobody me", "me ma"], ["now nobody", "now me", "now ma"], ["longer me"],
            ])
        FluxSubscription(subscriptions).unsubscribe()
    }

    @Test func `A subscription to several parts says which of them have changed`() async {
        let seen = Recorder<[Bool]>()
        let subscription = store.subscribe(toAnyOf: \.items, \.user) { shop, changed in
            seen.record([changed.contains(\.items), changed.contains(\.user)])
        }
        for action in [Shop.Action.items([1]), .filter(3), .user("me"), .nothing] { store.dispatch(action: action) }
        await store.flush()
        #expect(seen.values == [[true, false], [false, true]])
        subscription.unsubscribe()
    }

    /// Created only by a key path; reads a store when it is released, which is allowed only while no lock is held.
    private final class Reading: Sendable, Equatable {
        let count: Int
        let store: FluxStore<Shop>
        init(_ count: Int, _ store: FluxStore<Shop>) { (self.count, self.store) = (count, store) }
        deinit { _ = store.state }
        static func == (one: Reading, other: Reading) -> Bool { one.count == other.count }
    }

    private struct Made: FluxState {
        enum Action: FluxAction { case add }
        let store: FluxStore<Shop>
        var count = 0
        var reading: Reading { Reading(count, store) }
        mutating func handle(action: Action) -> Made? {
            count += 1
            return self
        }
    }

    @Test func `A part that is replaced is released while no lock is held`() async {
        let made = FluxStore(initialState: Made(store: store), dispatcher: nil)
        let seen = Recorder<Int>()
        let tokens = [
            made.subscribe(to: \.reading) { seen.record($0.count) },
            made.subscribe(toAnyOf: \.count, \.reading) { state, changed in
                seen.record(changed.contains(\.reading) ? state.count : 0)
            },
        ]
        for _ in 1...3 { made.dispatch(action: .add) }
        await made.flush()
        #expect(seen.values.sorted() == [1, 1, 2, 2, 3, 3])
        FluxSubscription(tokens).unsubscribe()
    }

    @Test func `On the main queue, handlers of old and new parts and of several parts run on the main actor`() async {
        let seen = Recorder<String>()
        let subscriptions = [
            store.subscribe(to: \.user, on: .main) { old, new in
                MainActor.preconditionIsolated()
                seen.record("\(old) \(new)")
            },
            store.subscribe(toAnyOf: \.items, \.user, on: .main) { shop, changed in
                MainActor.preconditionIsolated()
                seen.record("\(shop.user) \(changed.contains(\.user))")
            },
        ]
        store.dispatch(action: .user("me"))
        store.dispatch(action: .filter(1))
        await seen.count(2)
        await store.flush()
        #expect(seen.values == ["nobody me", "me true"])
        FluxSubscription(subscriptions).unsubscribe()
    }

    @Test func `With .latest, several parts may have changed at once`() async {
        let seen = Recorder<Int>()
        let entered = Gate()
        let gate = Gate()
        let subscription = store.subscribe(toAnyOf: \.items, \.user, \.filter, .latest) { _, changed in
            seen.record(changed.count)
            entered.open()
            gate.wait()
        }
        store.dispatch(action: .filter(1))
        await entered.opened()
        store.dispatch(action: .items([1]))
        store.dispatch(action: .user("me"))
        gate.open()
        await store.flush()
        #expect(seen.values == [1, 2])
        subscription.unsubscribe()
    }

    @Test func `A memoising selector computes once per change of its inputs for all its subscriptions`() async {
        let computed = Locked(0)
        let visible = fluxSelector(\Shop.items, \Shop.filter) { items, filter in
            computed.withLock { $0 += 1 }
            return items.filter { $0 >= filter }
        }
        let (one, two) = (Recorder<[Int]>(), Recorder<[Int]>())
        let subscriptions = [
            store.subscribe(to: visible) { one.record($0) }, store.subscribe(to: visible) { two.record($0) },
        ]
        await store.flush()
        #expect(computed.current == 1)
        for action in [Shop.Action.items([1, 5]), .user("me"), .filter(3), .user("you"), .nothing] {
            store.dispatch(action: action)
        }
        await store.flush()
        #expect(one.values == [[1, 5], [5]])
        #expect(two.values == one.values)
        #expect(computed.current == 3)
        FluxSubscription(subscriptions).unsubscribe()
    }

    @Test func `A value that a selector has no room for is released while no lock is held`() async {
        let selected = fluxSelector(\Shop.filter) { [store] in Reading($0, store) }
        let token = store.subscribe(to: selected, startingWithCurrent: true) { _ in }
        await store.flush()
        await token.finish()
        // Only the selector has the part now, and it creates another one while the store's lock is held.
        store.dispatch(action: .filter(1))
        let other = store.subscribe(to: selected) { _ in }
        store.dispatch(action: .filter(2))
        await store.flush()
        withExtendedLifetime((token, other)) {}
    }

    @Test func `A value that another thread evicts from a selector is released while no lock is held`() {
        let again = Locked<(@Sendable (Shop) -> Reading)?>(nil)
        let selected = fluxSelector(\Shop.filter) { [store] filter in
            if filter == 2 { elsewhere { _ = again.current?(Shop(filter: 3)) } }
            return Reading(filter, store)
        }
        again.withLock { $0 = selected }
        _ = selected(Shop(filter: 1))
        #expect(FluxPureCode.run("a test") { selected(Shop(filter: 2)) }.count == 2)
        again.withLock { $0 = nil }
    }

    @Test func `A selector with a capacity of 2 keeps the two values used last`() {
        let computed = Recorder<Int>()
        let double = fluxSelector(\Shop.filter, capacity: 2) { filter in
            computed.record(filter)
            return filter * 2
        }
        var shop = Shop()
        for filter in [1, 2, 1, 2, 3, 2, 1] {
            shop.filter = filter
            #expect(double(shop) == filter * 2)
        }
        #expect(computed.values == [1, 2, 3, 1])
    }

    @Test func `A part of a view is selected like a part of a store`() async {
        let view = store.view { [$0.user, "\($0.items.count)"] }
        let seen = Recorder<String>()
        let subscription = view.subscribe(to: \.[0]) { seen.record($0) }
        store.dispatch(action: .items([1]))
        await view.flush()
        store.dispatch(action: .user("me"))
        await view.flush()
        #expect(seen.values == ["me"])
        subscription.unsubscribe()
    }
}

extension SelectionTests {
    /// C5: with `.latest`, the first state delivered may already include the first change.
    @Test func `With .latest too, the first change is compared with the part before it`() async {
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let (parts, changes, anyOf) = (Recorder<String>(), Recorder<String>(), Recorder<Int>())
        let subscriptions = [
            store.subscribe(to: \.user, .latest, on: queue) { parts.record($0) },
            store.subscribe(to: \.user, .latest, on: queue) { old, new in changes.record("\(old) \(new)") },
            store.subscribe(toAnyOf: \.user, \.filter, .latest, on: queue) { _, changed in
                anyOf.record(changed.count)
            },
        ]
        store.dispatch(action: .user("me"))
        queue.resume()
        await store.flush()
        #expect(parts.values == ["me"] && changes.values == ["nobody me"] && anyOf.values == [1])
        FluxSubscription(subscriptions).unsubscribe()
    }

    @Test func `A selector with a capacity of 3 keeps the three values used last`() {
        let computed = Locked(0)
        let double = fluxSelector(\Shop.filter, capacity: 3) { filter in
            computed.withLock { $0 += 1 }
            return 2 * filter
        }
        var shop = Shop()
        for filter in [1, 2, 3, 2, 2, 1, 3, 2, 1] {
            _ = shop.handle(action: .filter(filter))
            #expect(double(shop) == 2 * filter)
        }
        #expect(computed.current == 3)
        for filter in [4, 1, 2, 3] { _ = shop.handle(action: .filter(filter)).map(double) }
        #expect(computed.current == 5, "the 4 and, for which it had no room, the 3")
    }

    @Test func `A selector with a capacity of 0 stops the program, with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = fluxSelector(\Shop.filter, capacity: 0) { $0 }
        }
        let message = result.said
        #expect(message.contains("a selector that keeps 0 values computes each time. Let it keep at least 1."))
    }

    @Test(.timeLimit(.minutes(1)))
    func `A subscription to a part of a custom source misses no change that happens while it begins`() async {
        let (source, seen) = (Changing(), Recorder<Int>())
        let token = source.subscribe(to: \.count, .latest) { seen.record($0) }
        await seen.count(1)
        #expect(seen.values == [1])
        token.unsubscribe()
        var counts = source.values(of: \.count, startingWithCurrent: false).makeAsyncIterator()
        #expect(await counts.next() == 2)
    }
}
