import Dispatch
import TestSupport
import Testing

@testable import FluxCore

/// A queue is drained by one outlet, however often its object is made anew.
@Suite struct OutletPerQueueTests {
    /// C8: On Linux `DispatchQueue.main` and `.global()` are new objects at each use, so `===` never finds their outlet.
    @Test func `All subscriptions on the main queue share an outlet`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let subscriptions = (0..<10).map { _ in store.subscribe(on: DispatchQueue.main) { _ in } }
        let outlets = store.handle.lock.withLock { $0.mailboxes.list.pairs.count }
        #expect(outlets == 1)
        withExtendedLifetime(subscriptions) {}
    }
}
