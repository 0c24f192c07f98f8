import Dispatch
import TestSupport
import Testing

@testable import FluxCore

/// One delivery drains a queue, however often the queue's object is created anew.
@Suite struct DeliveryPerQueueTests {
    /// C8: On Linux `DispatchQueue.main` and `.global()` are new objects at each use, which `===` would not match.
    @Test func `All subscriptions on the main queue share one delivery`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let subscriptions = (0..<10).map { _ in store.subscribe(on: DispatchQueue.main) { _ in } }
        let deliveries = store.handle.lock.withLock { $0.mailboxes.list.pairs().count }
        #expect(deliveries == 1)
        withExtendedLifetime(subscriptions) {}
    }
}
