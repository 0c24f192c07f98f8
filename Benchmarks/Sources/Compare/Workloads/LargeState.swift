import Dispatch
import FluxCore
import FluxObservation
import Synchronization
import Workbench

extension Workload {
    /// A subscription that keeps states makes the next change copy the array; one that keeps parts, or none, does not.
    static let largeState = Workload(
        name: "w13",
        title: "append to 100,000 Ints, watched: for the thread that dispatches, and until all is handed over",
        cells: [
            Cell(
                Name.floor,
                readings: { effort in
                    let list = Mutex(List(size: 100_000))
                    let seen = Seen()
                    return try effort.measure(Name.floor, 20_000, seen) { operations in
                        for number in 0..<operations {
                            list.withLock { list in
                                list.apply(.append(number))
                                seen.see(list.count)
                            }
                        }
                    } flush: {
                    }
                }),
            // Any code that keeps each state for another thread copies the array each time.
            Cell(
                Name.copies,
                readings: { effort in
                    let list = Mutex(List(size: 100_000))
                    let queue = DispatchQueue(label: "copies")
                    let seen = Seen()
                    return try effort.measure(Name.copies, 200, seen) { operations in
                        for number in 0..<operations {
                            let state = list.withLock { list in
                                list.apply(.append(number))
                                return list
                            }
                            queue.async { seen.see(state.count) }
                        }
                    } flush: {
                        queue.sync {}
                    }
                }),
            watched("state, .every", 200) { store, seen in store.subscribe { seen.see($0.count) } },
            watched("state, .latest", 20_000) { store, seen in store.subscribe(.latest) { seen.see($0.count) } },
            watched("to: \\.count, .every", 20_000) { store, seen in store.subscribe(to: { $0.count }, seen.see) },
            watched("to: \\.count, .latest", 20_000) { store, seen in
                store.subscribe(to: { $0.count }, .latest, seen.see)
            },
            watched("actions", 20_000) { store, seen in store.subscribeActions { _ in seen.seeOne() } },
        ],
        floor: "\(Name.floor), to dispatch",
        bounds: [
            .ratio("state, .every, handed over", atMost: 1.2, of: "\(Name.copies), handed over"),
            .ratio("to: \\.count, .every, to dispatch", atMost: 4),
            .ratio("to: \\.count, .every, handed over", atMost: 6),
            .ratio("to: \\.count, .latest, to dispatch", atMost: 4),
        ]
    )

    private static func watched(
        _ name: String, _ operations: Int,
        _ watch: @escaping @Sendable (FluxStore<List>, Seen) -> FluxSubscription
    ) -> Cell {
        Cell(
            name,
            readings: { effort in
                let store = FluxStore(initialState: List(size: 100_000), dispatcher: nil)
                let seen = Seen()
                let token = watch(store, seen)
                defer { withExtendedLifetime(token) {} }
                return try effort.measure(name, operations, seen) { operations in
                    for number in 0..<operations { store.dispatch(action: .append(number)) }
                } flush: {
                    blocking { await store.flush() }
                }
            })
    }
}

extension Effort {
    /// Times the thread that dispatches, and the whole until the last change was delivered.
    fileprivate func measure(
        _ name: String, _ operations: Int, _ seen: Seen, dispatch: (Int) -> Void, flush: () -> Void
    ) throws -> [Reading] {
        var (expected, dispatching) = (0, [Double]())
        let delivered = try measure {
            let clock = ContinuousClock()
            let start = clock.now
            dispatch(operations)
            dispatching.append((clock.now - start) / .nanoseconds(operations))
            flush()
            let time = clock.now - start
            expected += operations
            try expect("the last that was seen", seen.last, expected)
            return time / .nanoseconds(operations)
        }
        return [
            Reading(name: "\(name), to dispatch", value: dispatching.median),
            Reading(name: "\(name), handed over", value: delivered),
        ]
    }
}

/// The last count that a subscriber saw.
private final class Seen: Sendable {
    private let count = Atomic<Int>(0)

    var last: Int { count.load(ordering: .relaxed) }

    @Sendable func see(_ count: Int) { self.count.store(count, ordering: .relaxed) }

    func seeOne() { see(last + 1) }
}
