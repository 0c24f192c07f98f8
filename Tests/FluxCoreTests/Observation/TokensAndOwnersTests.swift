import FluxCore
import Observation
import Testing

/// Tokens in sets, subscriptions without one, and the mirror.
@Suite struct TokensAndOwnersTests {
    @Test func `Tokens in a set go together, and one token of many ends them all`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let seen = Recorder<Int>()
        var tokens: [FluxSubscription] = []
        for _ in 0..<3 { store.subscribe { seen.record($0.count) }.store(in: &tokens) }
        store.subscribe(.buffered(newest: 1)) { _ in }.store(in: &tokens)
        let all = FluxSubscription(tokens)
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.values == [1, 1, 1])
        #expect(all.dropped == 0)
        all.unsubscribe()
        store.dispatch(action: .add(1))
        tokens = []
        await store.flush()
        #expect(seen.values == [1, 1, 1])
    }

    @Test func `A token of many that goes lets those go that nobody else keeps`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gone = Gate()
        let canary = Locked<Canary?>(Canary(gone))
        var all: FluxSubscription? = FluxSubscription([
            store.subscribe { [canary = canary.current] _ in withExtendedLifetime(canary) {} }
        ])
        canary.withLock { $0 = nil }
        withExtendedLifetime(all) {}
        all = nil
        await gone.opened()
    }

    final class Owner: Sendable {
        let seen = Recorder<Int>()
        let gone: Canary

        init(_ gone: Gate) {
            self.gone = Canary(gone)
        }
    }

    @Test func `A subscription with an owner lasts as long as it, keeps it not, and needs no token`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (ownerGone, handlerGone) = (Gate(), Gate())
        let canary = Locked<Canary?>(Canary(handlerGone))
        var owner: Owner? = Owner(ownerGone)
        let seen = owner!.seen
        store.subscribe(with: owner!, startingWithCurrent: true) { [canary = canary.current] owner, state in
            withExtendedLifetime(canary) { owner.seen.record(state.count) }
        }
        canary.withLock { $0 = nil }
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.values == [0, 1])
        owner = nil
        await ownerGone.opened()
        store.dispatch(action: .add(1))
        await handlerGone.opened()
        await store.flush()
        #expect(seen.values == [0, 1])
    }

    @Test func `A part of an owner is told when it changes, and lets go with the next change after the owner`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (ownerGone, handlerGone) = (Gate(), Gate())
        let canary = Locked<Canary?>(Canary(handlerGone))
        var owner: Owner? = Owner(ownerGone)
        let seen = owner!.seen
        store.subscribe(with: owner!, to: { $0.count / 10 }) { [canary = canary.current] owner, tens in
            withExtendedLifetime(canary) { owner.seen.record(tens) }
        }
        canary.withLock { $0 = nil }
        for amount in [1, 10, 1, 20] { store.dispatch(action: .add(amount)) }
        await store.flush()
        #expect(seen.values == [1, 3])
        owner = nil
        await ownerGone.opened()
        // Any change, also one that leaves the part as it was.
        store.dispatch(action: .add(1))
        await handlerGone.opened()
        #expect(seen.values == [1, 3])
    }

    @MainActor final class Controller {
        var title = ""
    }

    @Test @MainActor func `An owner on the main actor is handed states there`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let controller = Controller()
        store.subscribe(with: controller, .latest, on: .main) { controller, state in
            controller.title = "\(state.count)"
        }
        let other = Controller()
        store.subscribe(with: other, to: \.count, on: .main, startingWithCurrent: true) { controller, count in
            controller.title += "\(count)"
        }
        store.dispatch(action: .add(3))
        await store.flush()
        #expect(controller.title == "3")
        #expect(other.title == "03")
    }

    #if canImport(Observation)
        @Test @MainActor func `A mirror changes once a turn and ends on the newest`() async {
            let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil)
            let mirror = store.observed()
            #expect(mirror.state.count == 1, "at once")
            await store.flush()
            let changes = Locked(0)
            withObservationTracking {
                _ = mirror.state
            } onChange: {
                changes.withLock { $0 += 1 }
            }
            for _ in 0..<100 { store.dispatch(action: .add(1)) }
            #expect(mirror.state.count == 1, "not before this turn is over")
            await store.flush()
            #expect(mirror.state.count == 101)
            #expect(changes.current == 1)
        }

        @Test @MainActor func `A mirror of a part, whose view it keeps, and which goes when it goes`() async {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            var mirror: FluxObserved<Int>? = store.view(\.count).observed()
            weak let gone = mirror
            store.dispatch(action: .add(1))
            for _ in 0..<1_000 where mirror?.state != 1 { await Task.yield() }
            await store.flush()
            let seen = mirror?.state
            #expect(seen == 1 || seen == 0)
            mirror = nil
            #expect(gone == nil)
        }
    #endif

    @Test func `A store that never changes does not keep the handlers of objects that are gone`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let kept = Locked(0)
        for _ in 0..<1_000 {
            let captured = CountedCapture(kept)
            store.subscribe(with: ShortLived()) { _, _ in withExtendedLifetime(captured) {} }
        }
        #expect(kept.current <= 32)
    }
}

private final class ShortLived: Sendable {}

private final class CountedCapture: Sendable {
    let count: Locked<Int>

    init(_ count: Locked<Int>) {
        self.count = count
        count.withLock { $0 += 1 }
    }

    deinit {
        count.withLock { $0 -= 1 }
    }
}
