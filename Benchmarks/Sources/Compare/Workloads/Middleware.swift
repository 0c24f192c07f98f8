import FluxCore
import FluxDiagnostics
import FluxRouting
import Workbench

extension Workload {
    static let middleware = Workload(
        name: "wm",
        title: "dispatcher.dispatch past middleware that passes on",
        cells: [.lockedDispatch]
            + [0, 1, 10].map { count in
                Cell("\(count) middleware") { effort in
                    let dispatcher = FluxDispatcher()
                    for _ in 0..<count { dispatcher.add(PassOn()) }
                    let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
                    return try effort.measure(10_000, total: { store.state.count }) { operations in
                        for _ in 0..<operations { dispatcher.dispatch(action: Sample.Action.add(1)) }
                    }
                }
            },
        floor: Name.floor,
        bounds: [
            // A dispatch, plus 5 and 25 times the floor.
            .ratio("0 middleware", atMost: 2.3),
            .ratio("1 middleware", atMost: 2.3 + 5),
            .ratio("10 middleware", atMost: 2.3 + 25),
        ]
    )

    static let instrumentation = Workload(
        name: "wh",
        title: "what instrumentation adds to an action",
        cells: [
            .lockedDispatch,
            Cell("on a store") { effort in
                try added(effort) { store, _ in
                    store.instrument(Watcher())
                } dispatch: { store, _ in
                    store.dispatch(action: .add(1))
                }
            },
            Cell("on a dispatcher") { effort in
                try added(effort) { _, dispatcher in
                    dispatcher.instrument(Watcher())
                } dispatch: { _, dispatcher in
                    dispatcher.dispatch(action: Sample.Action.add(1))
                }
            },
        ],
        floor: Name.floor,
        bounds: [.ratio("on a store", atMost: 5), .ratio("on a dispatcher", atMost: 5)]
    )

    private static func added(
        _ effort: Effort,
        instrument: (FluxStore<Sample>, FluxDispatcher) -> Void,
        dispatch: (FluxStore<Sample>, FluxDispatcher) -> Void
    ) throws -> Double {
        let times = try [false, true].map { isInstrumented in
            let dispatcher = FluxDispatcher()
            let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
            if isInstrumented { instrument(store, dispatcher) }
            return try effort.measure(10_000, total: { store.state.count }) { operations in
                for _ in 0..<operations { dispatch(store, dispatcher) }
            }
        }
        return times[1] - times[0]
    }

    static let names = Workload(
        name: "wn",
        title: "dispatch to a name, among so many stores",
        cells: [1, 1_000_000].map { count in
            Cell(
                "among \(count)",
                readings: { effort in
                    let dispatcher = FluxDispatcher()
                    let initial = Sample()
                    let stores = (0..<count).map { _ in FluxStore(initialState: initial, dispatcher: nil) }
                    for (index, store) in stores.enumerated() { try dispatcher.attach(store, as: "store \(index)") }
                    func measure(_ indices: [Int]) throws -> Double {
                        let names = indices.map { "store \($0)" }
                        let total = { Set(indices).reduce(0) { $0 + stores[$1].state.count } }
                        let before = total()
                        return try effort.measure(10_240, total: { total() - before }) { operations in
                            for _ in 0..<operations / names.count {
                                for name in names { dispatcher.dispatch(action: Sample.Action.add(1), to: name) }
                            }
                        }
                    }
                    return [
                        Reading(name: "one name among \(count)", value: try measure([0])),
                        Reading(
                            name: "1,024 names in turn among \(count)",
                            value: try measure((0..<1_024).map { $0 &* 7_919 % count })),
                    ]
                })
        },
        floor: "one name among 1",
        bounds: [.ratio("one name among 1000000", atMost: 1.3)]
    )
}

private struct PassOn: FluxMiddleware {
    func handle(action: any FluxAction, next: FluxNext) {
        next(action)
    }
}

/// An instrumentation that does next to nothing, so that the library's part is measured.
private struct Watcher: FluxInstrumentation {
    func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
        precondition(duration >= .zero)
    }
}
