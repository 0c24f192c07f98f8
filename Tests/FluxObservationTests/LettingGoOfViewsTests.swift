import FluxCore
import FluxObservation
import TestSupport
import Testing

/// A view keeps its sources, and nobody keeps them for the view once that has gone (C10).
@Suite struct LettingGoOfViewsTests {
    enum Watching: CaseIterable { case all, latest, part, view }

    /// Lets go of a store and of its view with something due there; returns what looks for the store.
    private func leave(_ watching: Watching, _ seen: Highest) -> (
        store: () -> FluxStore<Counter>?, token: FluxSubscription
    ) {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let view = watching == .view ? store.view(\.count).view { $0 } : store.view(\.count)
        let token =
            switch watching {
            case .all, .view: view.subscribe { seen.see($0) }
            case .latest: view.subscribe(.latest) { seen.see($0) }
            case .part: view.subscribe(to: { -$0 }) { seen.see(-$0) }
            }
        for _ in 0..<5 { store.dispatch(action: .add(1)) }
        return withExtendedLifetime(view) { ({ [weak store] in store }, token) }
    }

    @Test(arguments: Watching.allCases)
    func `A store goes with the view that is watched`(_ watching: Watching) {
        for _ in 0..<1_000 {
            let rest = leave(watching, Highest())
            #expect(rest.store() == nil)
        }
    }

    @Test(arguments: Watching.allCases)
    func `What is due is delivered all the same`(_ watching: Watching) async {
        for _ in 0..<100 {
            let seen = Highest()
            let rest = leave(watching, seen)
            await seen.reaches(5)
            withExtendedLifetime(rest) {}
        }
    }

    /// A store as a source, which counts how often it is read for a view.
    private struct Counted: WrappedSource {
        let base = FluxStore(initialState: Counter(), dispatcher: nil)
        let captures = Locked(0)

        func capture(in cut: FluxCut) -> @Sendable () -> Counter {
            captures.withLock { $0 += 1 }
            return base.capture(in: cut)
        }
    }

    @Test func `A view that goes reads its sources neither for nobody nor without a change`() {
        for isWatched in [false, true] {
            let source = Counted()
            var view: FluxView<Int>? = FluxView(source) { $0.count }
            let token = isWatched ? view?.subscribe { _ in } : nil
            let before = source.captures.current
            if !isWatched { source.base.dispatch(action: .add(1)) }
            view = nil
            #expect(source.captures.current == before)
            withExtendedLifetime(token) {}
        }
    }
}
