import Dispatch
import FluxCore
import FluxObservation
import Observation
import TestSupport
import Testing

/// Tokens in sets, and the mirror.
@Suite struct TokensAndMirrorsTests {
    @Test func `Tokens can be stored in an array, and a token created from them ends all subscriptions`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (seen, newest, queue) = (Recorder<Int>(), Recorder<Int>(), DispatchQueue(label: "suspended"))
        var tokens: [FluxSubscription] = []
        for _ in 0..<3 { store.subscribe { seen.record($0.count) }.store(in: &tokens) }
        for limit in 1...2 {
            store.subscribe(.buffered(newest: limit), on: queue) { newest.record($0.count) }.store(in: &tokens)
        }
        let all = FluxSubscription(tokens)
        // One of the two has room for one of these changes, and the other for two.
        queue.suspend()
        for _ in 0..<3 { store.dispatch(action: .add(1)) }
        #expect(all.dropped == 3)
        queue.resume()
        await store.flush()
        #expect(seen.values == [1, 1, 1, 2, 2, 2, 3, 3, 3])
        #expect(newest.values.sorted() == [2, 3, 3])
        // Each token is still in the array, so nothing but the token of all of them ends the subscriptions.
        all.unsubscribe()
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(seen.values.count == 9 && newest.values.count == 3)
        withExtendedLifetime(tokens) {}
    }

    @Test func `A released token of several tokens ends the subscriptions whose tokens are not kept elsewhere`() async {
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

    #if canImport(Observation)
        @Test @MainActor func `A mirror changes once a turn and ends on the newest state`() async {
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

        @Test @MainActor func `A mirror includes a change that happens while it is created`() async {
            let source = Changing()
            let mirror = source.observed()
            #expect(mirror.state.count == 1)
            source.base.dispatch(action: .add(1))
            await source.flush()
            #expect(mirror.state.count == 2)
        }

        /// Calls a closure on the main actor when it is released.
        final class Leaving: Sendable {
            private let gone: @MainActor @Sendable () -> Void
            init(_ gone: @escaping @MainActor @Sendable () -> Void) { self.gone = gone }
            deinit { MainActor.assumeIsolated { gone() } }
        }

        struct Page: FluxState {
            var content: Leaving?
            mutating func handle(action: Counter.Action) -> Page? {
                content = nil
                return self
            }
        }

        @MainActor final class Screen {
            var mirror: FluxObserved<Page>?
            var seen: [Bool] = []
        }

        @Test @MainActor func `A state can read the mirror as it is released, and finds the new state`() async {
            let screen = Screen()
            let content = Leaving { [weak screen] in
                if let page = screen?.mirror?.state { screen?.seen.append(page.content == nil) }
            }
            let store = FluxStore(initialState: Page(content: consume content), dispatcher: nil)
            screen.mirror = store.observed()
            await store.flush()
            // The mirror is the last to keep the old page.
            store.dispatch(action: .add(1))
            await store.flush()
            #expect(screen.seen == [true])
        }

        @Test @MainActor func `A mirror reports no change until its view changes`() async {
            let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil)
            let mirror = store.view(\.count).observed()
            let changes = Locked(0)
            withObservationTracking {
                _ = mirror.state
            } onChange: {
                changes.withLock { $0 += 1 }
            }
            for _ in 0..<100 { await Task.yield() }
            await store.flush()
            #expect(changes.current == 0)
            store.dispatch(action: .add(1))
            while mirror.state != 2 { await Task.yield() }
            #expect(changes.current == 1)
        }

        @Test @MainActor func `A mirror of a part reports no change of another part, not even the first one`() async {
            let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil)
            let tens = store.view { $0.count / 10 }
            let mirror = tens.observed()
            let changes = Locked(0)
            withObservationTracking {
                _ = mirror.state
            } onChange: {
                changes.withLock { $0 += 1 }
            }
            store.dispatch(action: .add(1))
            await tens.flush()
            #expect(changes.current == 0)
            store.dispatch(action: .add(10))
            await tens.flush()
            #expect(changes.current == 1)
            #expect(mirror.state == 1)
        }

        @Test @MainActor func `A mirror shows an announced value even if it counts as equal to the one shown`() async {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let rough = store.view(\.count, by: { abs($0 - $1) < 5 })
            store.dispatch(action: .add(4))
            let mirror = rough.observed()
            let changes = Locked(0)
            withObservationTracking {
                #expect(mirror.state == 4)
            } onChange: {
                changes.withLock { $0 += 1 }
            }
            store.dispatch(action: .add(4))
            #expect(rough.state == 8, "announced, for the last that was is 0")
            await rough.flush()
            #expect(mirror.state == 8)
            #expect(changes.current == 1)
        }

        @Test @MainActor func `A mirror of a part is released with its last reference`() async {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            var view: FluxView<Int>? = store.view(\.count)
            let part = Weak(view!)
            var mirror: FluxObserved<Int>? = view!.observed()
            weak let gone = mirror
            store.dispatch(action: .add(1))
            await view!.flush()
            #expect(mirror?.state == 1)
            view = nil
            #expect(part.object != nil, "the mirror keeps the view")
            mirror = nil
            #expect(gone == nil)
            #expect(await part.isGone())
        }
    #endif
}
