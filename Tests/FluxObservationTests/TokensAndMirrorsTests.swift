import Dispatch
import FluxCore
import FluxObservation
import Observation
import TestSupport
import Testing

/// Tokens in sets, and the mirror.
@Suite struct TokensAndMirrorsTests {
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

        @Test @MainActor func `A mirror has what changed as it was made`() async {
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

        @Test @MainActor func `A state that goes may look at the mirror, which has the new one`() async {
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

        @Test @MainActor func `A mirror of what does not change tells of nothing until it does`() async {
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

        @Test @MainActor func `A mirror of a part tells of no change of another part, not even of the first`() async {
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

        @Test @MainActor func `A mirror has what its view has announced, though as good as what it shows`() async {
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
}
