import FluxCore
import FluxDiagnostics
import FluxRouting
import TestSupport
import Testing

/// A store that was detached with all of its type is detached, whatever it is given to do afterwards.
///
/// What a store needs to react is made when it first does. It must be made from where the store is at that moment, and
/// not from where it was when it was made.
@Suite struct DetachedStoresStayDetachedTests {
    let dispatcher = FluxDispatcher()

    struct Noting: FluxInstrumentation {
        let notes: Recorder<String>
        func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
            notes.record("\(action)")
        }
    }

    private func store() -> FluxStore<Counter> { FluxStore(initialState: Counter(count: 1), dispatcher: dispatcher) }

    @Test func `A reaction that is added after the detaching does not attach the store again`() {
        let store = store()
        #expect(dispatcher.detach(Counter.self) == 1)
        store.on(LogOut.self) { state, _ in state.count = 0 }
        #expect(dispatcher.dispatch(action: LogOut()) == 0)
        #expect(dispatcher.add(1) == 0)
        #expect(store.state.count == 1 && store.revision == 0)
        #expect(!dispatcher.responds(to: LogOut.self) && !dispatcher.responds(to: Counter.Action.self))
        #expect(dispatcher.stores.isEmpty)
        #expect(!dispatcher.detach(store), "it is not there")
    }

    @Test func `Nor does a history`() {
        let store = store()
        dispatcher.detach(Counter.self)
        let history = FluxHistory(store, limit: 1)
        #expect(dispatcher.add(1) == 0)
        store.dispatch(action: .add(1))
        #expect(history.entries.count == 1 && dispatcher.stores.isEmpty)
    }

    @Test func `Nor does an observer of the store`() {
        let (store, notes) = (store(), Recorder<String>())
        dispatcher.detach(Counter.self)
        store.instrument(Noting(notes: notes))
        #expect(dispatcher.add(1) == 0)
        #expect(notes.values == [] && dispatcher.stores.isEmpty)
    }
}
