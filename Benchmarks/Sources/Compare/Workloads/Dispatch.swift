import FluxCore
import Workbench

extension Workload {
    static let dispatch = Workload(
        name: "w1",
        title: "store.dispatch, no subscriber, one thread",
        cells: [
            .lockedDispatch,
            Cell(Name.flux) { effort in
                let store = FluxStore(initialState: Sample(), dispatcher: nil)
                return try effort.measure(100_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations { store.dispatch(action: .add(1)) }
                }
            },
            Cell(Name.queue) { effort in
                let store = QueueStore()
                return try effort.measure(100_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations { store.dispatch(.add(1)) }
                }
            },
            Cell(Name.actor) { effort in
                let store = ActorStore()
                return try effort.measure(10_000, total: { store.count }) { operations in
                    blocking {
                        for _ in 0..<operations { await store.dispatch(.add(1)) }
                    }
                }
            },
            Cell(Name.combine) { effort in
                let store = CombineStore()
                return try effort.measure(100_000, total: { store.state.count }) { operations in
                    for _ in 0..<operations { store.dispatch(.add(1)) }
                }
            },
        ],
        floor: Name.floor,
        bounds: [.ratio(atMost: 1.15)]
    )

    static let throughDispatcher = Workload(
        name: "w1d",
        title: "dispatcher.dispatch with one store, no subscriber",
        cells: [.lockedDispatch, .dispatcherDispatch],
        floor: Name.floor,
        bounds: [.ratio(Name.dispatcher, atMost: 2.3)]
    )
}

extension Cell {
    /// The floor without a subscriber.
    static let lockedDispatch = Cell(Name.floor) { effort in
        let store = LockedStore()
        return try effort.measure(100_000, total: { store.state.count }) { operations in
            for _ in 0..<operations { store.dispatch(.add(1)) }
        }
    }

    static let dispatcherDispatch = Cell(Name.dispatcher) { effort in
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
        return try effort.measure(100_000, total: { store.state.count }) { operations in
            for _ in 0..<operations { dispatcher.dispatch(action: Sample.Action.add(1)) }
        }
    }
}
