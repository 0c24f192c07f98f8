import FluxCore
import FluxPersistence
import TestSupport
import Testing

/// A row of the comparison with other libraries.
@Suite struct OfflineSupportTests {
    let dispatcher = FluxDispatcher()

    @Test func `Offline support`() async throws {
        let folder = Folder()
        let file = {
            FluxFile<Log>(path: folder.state) { log in
                log.entries.map(UInt8.init)
            } decode: { bytes in
                Log(entries: bytes.map(Int.init))
            }
        }
        do {
            let store = FluxStore(initialState: Log(), dispatcher: dispatcher, persistence: file())
            dispatcher.dispatch(action: Counter.Action.add(7))
            await store.flush()
        }
        let store = FluxStore(initialState: Log(), dispatcher: dispatcher, persistence: file())
        dispatcher.dispatch(action: Counter.Action.add(8))
        guard case .restored = await store.ready else {
            Issue.record("nothing was restored")
            return
        }
        #expect(store.state.entries == [7, 8])
        // The folder is removed when the test ends, so the save must be done by then.
        await store.flush()
    }
}
