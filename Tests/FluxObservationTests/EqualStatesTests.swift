import FluxCore
import FluxObservation
import TestSupport
import Testing

/// `to: \.self` skips equal states, for users who come from ReSwift.
@Suite struct EqualStatesTests {
    struct Level: FluxState, Equatable {
        struct Set: FluxAction { let to: Int }

        var value = 0

        mutating func handle(action: Set) -> Level? {
            value = action.to
            return self
        }
    }

    let store = FluxStore(initialState: Level(), dispatcher: nil)

    @Test func `A state equal to the last is skipped`() async {
        let (all, some) = (Recorder<Int>(), Recorder<Int>())
        let token = FluxSubscription([
            store.subscribe { all.record($0.value) },
            store.subscribe(to: \.self) { level in some.record(level.value) },
        ])
        for value in [0, 1, 1, 1, 2, 1] { store.dispatch(action: .init(to: value)) }
        await store.flush()
        #expect(all.values == [0, 1, 1, 1, 2, 1] && some.values == [1, 2, 1])
        token.unsubscribe()
    }

    @Test func `A subscription that skips equal states can start with the current one or get old and new`() async {
        let (some, both) = (Recorder<Int>(), Recorder<[Int]>())
        let token = FluxSubscription([
            store.subscribe(to: \.self, startingWithCurrent: true) { level in some.record(level.value) },
            store.subscribe(to: \.self) { old, new in both.record([old.value, new.value]) },
        ])
        for value in [0, 1, 1] { store.dispatch(action: .init(to: value)) }
        await store.flush()
        #expect(some.values == [0, 1] && both.values == [[0, 1]])
        token.unsubscribe()
    }
}
