import Dispatch
import FluxCore
import Workbench

/// The cheapest possible converter: one event, one action, immediately.
enum Adding: FluxActionConverter {
    enum Event: FluxEvent { case added(Int) }

    static func convert(event: Event, dependency: Void, actionHandler: @escaping @Sendable (Sample.Action) -> Void) {
        switch event {
        case .added(let amount): actionHandler(.add(amount))
        }
    }
}

/// The same as an asynchronous converter; it never suspends.
private enum AddingSoon: FluxAsyncActionConverter {
    enum Event: FluxEvent { case added(Int) }

    static func convert(
        event: Event, dependency: Void, send: @escaping @Sendable (Sample.Action) -> Void
    ) async throws {
        switch event {
        case .added(let amount): send(.add(amount))
        }
    }
}

extension Workload {
    static let fireAsync = Workload(
        name: "w1a",
        title: "fire to applied, async converter that does not suspend",
        cells: [
            Cell(Name.immediate) { effort in
                let dispatcher = FluxDispatcher()
                let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
                let queue = DispatchQueue(label: "hop")
                return try effort.measure(10_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations {
                        queue.async {
                            Task.immediate { @Sendable in _ = dispatcher.dispatch(action: Sample.Action.add(1)) }
                        }
                    }
                    queue.sync {}
                }
            },
            Cell(Name.flux) { effort in
                let dispatcher = FluxDispatcher()
                let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
                let creator = FluxActionCreator<AddingSoon>(dispatcher: dispatcher)
                return try effort.measure(10_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations { creator.fire(.added(1)) }
                    blocking { await creator.flush() }
                }
            },
        ],
        floor: Name.immediate,
        bounds: [.ratio(atMost: 1.3)]
    )

    static let fireBatches = Workload(
        name: "w1f",
        title: "fire to applied, callback converter, batches of 1,000",
        cells: [
            .dispatcherDispatch,
            Cell(Name.flux) { effort in
                let dispatcher = FluxDispatcher()
                let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
                let creator = FluxActionCreator<Adding>(dispatcher: dispatcher)
                let events = [Adding.Event](repeating: .added(1), count: 1_000)
                return try effort.measure(100_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations / events.count { creator.fire(events) }
                    blocking { await creator.flush() }
                }
            },
        ],
        floor: Name.dispatcher,
        bounds: [.ratio(atMost: 3)]
    )

    static let fireOne = Workload(
        name: "w1s",
        title: "fire to applied, callback converter, one event a call",
        cells: [
            Cell(Name.hop) { effort in
                let dispatcher = FluxDispatcher()
                let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
                let queue = DispatchQueue(label: "hop")
                return try effort.measure(10_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations { queue.async { dispatcher.dispatch(action: Sample.Action.add(1)) } }
                    queue.sync {}
                }
            },
            Cell(Name.flux) { effort in
                let dispatcher = FluxDispatcher()
                let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
                let creator = FluxActionCreator<Adding>(dispatcher: dispatcher)
                return try effort.measure(10_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations { creator.fire(.added(1)) }
                    blocking { await creator.flush() }
                }
            },
            Cell("\(Name.flux), to a store") { effort in
                let store = FluxStore(initialState: Sample(), dispatcher: nil)
                let creator = FluxActionCreator<Adding>(store: store)
                return try effort.measure(10_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations { creator.fire(.added(1)) }
                    blocking { await creator.flush() }
                }
            },
            Cell("\(Name.hop), \(Name.floor)") { effort in
                let store = LockedStore()
                let queue = DispatchQueue(label: "hop")
                return try effort.measure(10_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations { queue.async { store.dispatch(.add(1)) } }
                    queue.sync {}
                }
            },
        ],
        floor: Name.hop,
        bounds: [.ratio(atMost: 1.3), .ratio("\(Name.flux), to a store", atMost: 1.2, of: Name.flux)]
    )
}
