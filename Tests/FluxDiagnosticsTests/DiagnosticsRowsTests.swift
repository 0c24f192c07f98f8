import FluxCore
import FluxDiagnostics
import TestSupport
import Testing

/// The rows of the table "Coming from another library" on observing and history: each has a test of its name and code.
@Suite struct DiagnosticsRowsTests {
    let dispatcher = FluxDispatcher()

    @Test func `Undo, redo and looking back`() {
        let store = log()
        let history = FluxHistory(store, limit: 100)
        store.dispatch(action: .add(1))
        history.undo()
        #expect(store.state.entries.isEmpty)
        history.redo()
        #expect(history.entries.map { "\($0.action)" } == ["add(1)"])
    }

    @Test func `Logging and tracing`() {
        struct Lines: FluxInstrumentation {
            let lines = Recorder<String>()
            func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
                lines.record("\(store) \(action)")
            }
        }
        let store = log()
        let lines = Lines()
        let registration = dispatcher.instrument(lines)
        dispatcher.add(1)
        #expect(lines.lines.values == ["FluxStore<Log> add(1)"])
        registration.remove()
        withExtendedLifetime(store) {}
    }

    func log(_ dispatcher: FluxDispatcher? = nil) -> FluxStore<Log> {
        FluxStore(initialState: Log(), dispatcher: dispatcher ?? self.dispatcher)
    }
}
