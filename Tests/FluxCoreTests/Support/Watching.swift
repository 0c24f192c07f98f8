import Dispatch
import FluxCore
import FluxObservation
import TestSupport

/// Every kind of subscription in the core, for the suites that check the same guarantees for each.
enum Watching: CaseIterable, Sendable {
    case every, latest, everyElsewhere, latestElsewhere, mainQueue, latestOnMain, source, delivery

    /// Whether it delivers every change; the others may skip some.
    var isLossless: Bool { ![.latest, .latestElsewhere, .latestOnMain].contains(self) }

    /// Whether its handler runs on a queue that nothing else in the test uses, and so may block.
    var mayBlock: Bool { ![.mainQueue, .latestOnMain].contains(self) }

    /// Calls a closure with the counts of a store, beginning with the current one.
    func watch(_ store: FluxStore<Counter>, _ see: @escaping @Sendable (Int) -> Void) -> FluxSubscription {
        switch self {
        case .every: return store.subscribe(startingWithCurrent: true) { see($0.count) }
        case .latest: return store.subscribe(.latest, startingWithCurrent: true) { see($0.count) }
        case .everyElsewhere:
            return store.subscribe(on: DispatchQueue(label: "elsewhere"), startingWithCurrent: true) { see($0.count) }
        case .latestElsewhere:
            return store.subscribe(.latest, on: DispatchQueue(label: "elsewhere"), startingWithCurrent: true) {
                see($0.count)
            }
        case .mainQueue:
            return store.subscribe(on: .main, startingWithCurrent: true) { state in
                MainActor.preconditionIsolated()
                see(state.count)
            }
        case .latestOnMain:
            return store.subscribe(.latest, on: .main, startingWithCurrent: true) { state in
                MainActor.preconditionIsolated()
                see(state.count)
            }
        case .source:
            let source: any FluxSource<Counter> = store
            return source.subscribe(startingWithCurrent: true) { see($0.count) }
        case .delivery:
            return store.handle.withAccess { access in
                let delivery = FluxQueueDelivery(startingWith: access.state.count) { see($0) }
                let observer = Delivering(store.handle, delivery)
                access.observe(observer)
                return FluxSubscription({ observer.cancel() }, finish: { await delivery.finish() })
            }
        }
    }
}

/// Puts the changes that an observer is notified of into a delivery, as a module does.
private final class Delivering: FluxStoreObserver {
    private let handle: FluxStoreHandle<Counter>
    private let delivery: FluxQueueDelivery<Int>

    init(_ handle: FluxStoreHandle<Counter>, _ delivery: FluxQueueDelivery<Int>) {
        (self.handle, self.delivery) = (handle, delivery)
    }

    func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? {
        revision == nil ? nil : delivery.put(state.count)
    }

    func ending(_ finish: @escaping @Sendable () -> Void) -> Bool {
        delivery.end()
        return false
    }

    func flush() async { await delivery.flush() }

    func cancel() {
        delivery.cancel()
        handle.withAccess { $0.remove(self) }
    }
}
