import FluxCore
import FluxObservation
import TestSupport
import Testing

/// The same argument has the same label in every call.
@Suite struct LabelsTests {
    @Test func `The delivery has no label for several parts, just as it has none for one part`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gate = Gate()
        let seen = Recorder<Int>()
        let token = store.subscribe(toAnyOf: \.count, \.disorder, .latest) { state, changed in
            seen.record(changed == [\.count] ? state.count : -1)
            gate.wait()
        }
        store.dispatch(action: .add(1))
        await seen.count(1)
        for _ in 0..<10 { store.dispatch(action: .add(1)) }
        gate.open()
        await store.flush()
        #expect(seen.values == [1, 11], "what came meanwhile was skipped")
        token.unsubscribe()
    }
}
