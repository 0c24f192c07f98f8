import Dispatch
import TestSupport
import Testing

@testable import FluxCore

/// A queue is drained by one delivery, however often its object is made anew.
@Suite struct DeliveryPerQueueTests {
    /// C8: On Linux `DispatchQueue.main` and `.global()` are new objects at each use, so `===` never finds their delivery.
    @Test func `All subscriptions on the main queue share a delivery`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let subscriptions = (0..<10).map { _ in store.subscribe(on: DispatchQueue.main) { _ in } }
        let deliveries = store.handle.lock.withLock { $0.mailboxes.list.pairs().count }
        #expect(deliveries == 1)
        withExtendedLifetime(subscriptions) {}
    }
}
