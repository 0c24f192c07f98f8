import FluxCore
import TestSupport
import Testing

/// A handler may be a value, a function by its name, or a closure in parentheses, on a store and on any source.
///
/// It receives what a trailing closure receives. `.ci/check-misuse` also checks that these forms compile.
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

    @Test func `A store accepts a value or a closure in parentheses as a handler`() async {
        let (seen, handler) = recording()
        let (other, _) = recording()
        let token = FluxSubscription([store.subscribe(handler), store.subscribe({ other.record($0.number) })])
        for _ in 0..<3 { store.dispatch(action: .turn) }
        await store.flush()
        #expect(seen.values == [1, 2, 3] && other.values == [1, 2, 3])
        token.unsubscribe()
    }

    @Test func `A source accepts a value or a closure in parentheses as a handler`() async {
        let source: any FluxSource<Page> = store
        let (seen, handler) = recording()
        let token = FluxSubscription([source.subscribe(handler), source.subscribe({ seen.record($0.number) })])
        for _ in 0..<3 { store.dispatch(action: .turn) }
        await store.flush()
        #expect(seen.values == [1, 1, 2, 2, 3, 3])
        token.unsubscribe()
    }
}
