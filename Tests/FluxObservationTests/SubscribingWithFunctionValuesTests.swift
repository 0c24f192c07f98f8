import FluxCore
import FluxObservation
import TestSupport
import Testing

/// A handler may be a value, a function by its name, or a closure in parentheses, on every kind of source.
///
/// It gets what a trailing closure gets. `.ci/check-misuse` also checks that these calls compile.
@Suite struct SubscribingWithFunctionValuesTests {
    struct Page: FluxState {
        enum Action: FluxAction { case turn, write(String) }

        var number = 0
        var lines: [String] = []

        mutating func handle(action: Action) -> Page? {
            switch action {
            case .turn: number += 1
            case .write(let line): lines.append(line)
            }
            return self
        }
    }

    let store = FluxStore(initialState: Page(), dispatcher: nil)

    private func recording() -> (Recorder<Int>, @Sendable (Page) -> Void) {
        let seen = Recorder<Int>()
        return (seen, { seen.record($0.number) })
    }

    @Test func `A view, and a value known only as a source, accept a function value as their handler`() async {
        let view = FluxView(store, by: { $0.number == $1.number }) { $0 }
        let source: any FluxSource<Page> = store
        let (seen, handler) = recording()
        let (other, same) = recording()
        let token = FluxSubscription([
            view.subscribe(handler), view.subscribe({ seen.record($0.number) }), source.subscribe(same),
        ])
        for number in 1...3 {
            store.dispatch(action: .turn)
            await view.flush()
            await store.flush()
            #expect(seen.values.count == number * 2)
        }
        #expect(seen.values == [1, 1, 2, 2, 3, 3] && other.values == [1, 2, 3])
        token.unsubscribe()
    }

    @Test func `A subscription to a part accepts a function value with the new part or with old and new`() async {
        let (new, both) = (Recorder<Int>(), Recorder<[Int]>())
        let handler: @Sendable (Int) -> Void = { new.record($0) }
        let change: @Sendable (Int, Int) -> Void = { both.record([$0, $1]) }
        let token = FluxSubscription([store.subscribe(to: \.number, handler), store.subscribe(to: \.number, change)])
        store.dispatch(action: .write("a"))
        for _ in 0..<2 { store.dispatch(action: .turn) }
        await store.flush()
        #expect(new.values == [1, 2] && both.values == [[0, 1], [1, 2]])
        token.unsubscribe()
    }

    @Test func `A subscription to several parts accepts a function value`() async {
        let seen = Recorder<String>()
        let handler: @Sendable (Page, Set<PartialKeyPath<Page>>) -> Void = { page, changed in
            seen.record("\(page.number) \(changed == [\Page.lines]) \(changed == [\Page.number])")
        }
        let token = store.subscribe(toAnyOf: \.number, \.lines, handler)
        store.dispatch(action: .write("a"))
        store.dispatch(action: .turn)
        await store.flush()
        #expect(seen.values == ["0 true false", "1 false true"])
        token.unsubscribe()
    }
}
