import FluxCore
import FluxObservation
import TestSupport
import Testing

/// C10: a view keeps its sources, and nothing keeps them on its behalf once the view is released.
@Suite struct LettingGoOfViewsTests {
    enum Watching: CaseIterable { case all, latest, part, view }

    /// Releases a store and its view with deliveries pending; returns a closure that looks for the store.
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
    func `A store that only a view keeps is released with the view, even if the view is watched`(_ watching: Watching) {
        for _ in 0..<1_000 {
            let rest = leave(watching, Highest())
            #expect(rest.store() == nil)
        }
    }

    @Test(arguments: Watching.allCases)
    func `Pending values are delivered even after the view is released`(_ watching: Watching) async {
        for _ in 0..<100 {
            let seen = Highest()
            let rest = leave(watching, seen)
            await seen.reaches(5)
            withExtendedLifetime(rest) {}
        }
    }

    /// A store as a source that counts how often it is captured for a view.
    private struct Counted: WrappedSource {
        let base = FluxStore(initialState: Counter(), dispatcher: nil)
        let captures = Locked(0)

        func capture(in cut: FluxCut) -> @Sendable () -> Counter {
            captures.withLock { $0 += 1 }
            return base.capture(in: cut)
        }
    }

    @Test func `Releasing a view reads no source if the view is unwatched or nothing has changed`() {
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
