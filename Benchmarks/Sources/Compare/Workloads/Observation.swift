import AsyncAlgorithms
import Dispatch
import FluxCore
import FluxObservation
import Synchronization
import Workbench

extension Workload {
    static let latestSubscriber = Workload(
        name: "w2l",
        title: "one subscriber that may skip states, per dispatch",
        cells: [
            Cell(Name.floor) { effort in
                let store = LockedStore()
                store.subscribe { _ in }
                return try effort.measure(100_000) {
                    store.state.count
                } batch: { operations in
                    for _ in 0..<operations { store.dispatch(.add(1)) }
                }
            },
            Cell(Name.flux) { try measureNewest($0) { $0.subscribe(.latest, $1) } },
            Cell("\(Name.flux), of 16 buffered") { try measureNewest($0) { $0.subscribe(.buffered(newest: 16), $1) } },
        ],
        floor: Name.floor,
        bounds: [.ratio(atMost: 2.5)]
    )

    /// Measures a subscriber that sees the last state, but not necessarily each one.
    private static func measureNewest(
        _ effort: Effort,
        _ subscribe: (FluxStore<Sample>, @escaping @Sendable (Sample) -> Void) -> FluxSubscription
    ) throws -> Double {
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        let last = Atomic<Int>(0)
        let token = subscribe(store) { last.store($0.count, ordering: .relaxed) }
        defer { withExtendedLifetime(token) {} }
        return try effort.measure(100_000) {
            blocking { await store.flush() }
            return last.load(ordering: .relaxed)
        } batch: { operations in
            for _ in 0..<operations { store.dispatch(action: .add(1)) }
        }
    }

    static let selectors = Workload(
        name: "w9",
        title: "1,000 selectors, per subscriber and change",
        cells: [
            .lockedDispatch,
            Cell("unchanged") { try measureSelectors($0, actions: 1_000) { $0.ballast.count } },
            Cell("changed") { try measureSelectors($0, actions: 1_000) { $0.count } },
        ],
        floor: Name.floor,
        bounds: [.ratio("unchanged", atMost: 1.1), .ratio("changed", atMost: 12)]
    )

    private static func measureSelectors(
        _ effort: Effort, actions: Int, _ select: @escaping @Sendable (Sample) -> Int
    ) throws -> Double {
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        let calls = Atomic<Int>(0)
        let tokens = (0..<1_000).map { _ in
            store.subscribe(to: select) { _ in calls.add(1, ordering: .relaxed) }
        }
        blocking { await store.flush() }
        let before = calls.load(ordering: .relaxed)
        var changes = 0
        let time = effort.measure {
            let time = ContinuousClock().measure {
                for _ in 0..<actions { store.dispatch(action: .add(1)) }
                blocking { await store.flush() }
            }
            changes += actions
            return time / .nanoseconds(actions * tokens.count)
        }
        let called = calls.load(ordering: .relaxed) - before
        let expected = select(Sample()) == 0 ? changes * tokens.count : 0
        try expect("handlers called", called, expected)
        return time
    }

    static let iterators = Workload(
        name: "w10",
        title: "1,000 async iterators, per wake-up",
        cells: [
            Cell("AsyncStream each") { effort in
                let streams = (0..<1_000).map { _ in
                    AsyncStream<Sample>.makeStream(bufferingPolicy: .bufferingNewest(1))
                }
                let store = LockedStore()
                for stream in streams { store.subscribe { stream.continuation.yield($0) } }
                return measureIterators(effort, streams.map(\.stream)) { store.dispatch(.add(1)) }
            },
            Cell("share") { effort in
                let (stream, continuation) = AsyncStream<Sample>.makeStream(bufferingPolicy: .bufferingNewest(1))
                let store = LockedStore()
                store.subscribe { continuation.yield($0) }
                let shared = stream.share(bufferingPolicy: .bufferingLatest(1))
                return measureIterators(effort, (0..<1_000).map { _ in shared }) { store.dispatch(.add(1)) }
            },
            Cell(Name.flux) { effort in
                let store = FluxStore(initialState: Sample(), dispatcher: nil)
                let states = (0..<1_000).map { _ in store.states(.latest, startingWithCurrent: false) }
                return measureIterators(effort, states) { store.dispatch(action: .add(1)) }
            },
        ],
        floor: "AsyncStream each",
        bounds: [.ratio(atMost: 0.4), .ratio(atMost: 1, of: "share")]
    )

    /// Makes one change at a time, and waits until every iterator has seen it.
    private static func measureIterators<States: AsyncSequence & Sendable>(
        _ effort: Effort, _ all: [States], change: () -> Void
    ) -> Double where States.Element == Sample {
        let rally = Rally()
        let tasks = all.map { states in
            Task.detached {
                var iterator = states.makeAsyncIterator()
                rally.started.add(1, ordering: .relaxed)
                var last = 0
                while let state = try? await iterator.next(isolation: nil) {
                    if state.count == last { continue }
                    last = state.count
                    if rally.left.subtract(1, ordering: .sequentiallyConsistent).newValue == 0 {
                        rally.reached.signal()
                    }
                }
            }
        }
        while rally.started.load(ordering: .relaxed) < all.count {}
        let time = effort.measure {
            rally.left.store(all.count, ordering: .sequentiallyConsistent)
            let time = ContinuousClock().measure {
                change()
                rally.reached.wait()
            }
            return time / .nanoseconds(all.count)
        }
        tasks.forEach { $0.cancel() }
        return time
    }

    static let views = Workload(
        name: "w11",
        title: "reading a view of 3 stores, after a change of one and without",
        cells: [
            Cell("by hand") { effort in
                let stores = (0..<3).map { _ in FluxStore(initialState: Sample()) }
                return try effort.measure(1_000) {
                    stores[0].state.count
                } batch: { operations in
                    var sum = 0
                    for _ in 0..<operations {
                        stores[0].dispatch(action: .add(1))
                        sum &+= stores[0].state.count &+ stores[1].state.count &+ stores[2].state.count
                    }
                    if sum == .min { throw WrongCount(description: "a sum") }
                }
            },
            Cell("view, changed") { effort in
                let stores = (0..<3).map { _ in FluxStore(initialState: Sample()) }
                let view = FluxView(stores[0], stores[1], stores[2]) { $0.count &+ $1.count &+ $2.count }
                return try effort.measure(1_000) {
                    view.state
                } batch: { operations in
                    for _ in 0..<operations {
                        stores[0].dispatch(action: .add(1))
                        _ = view.state
                    }
                }
            },
            Cell("view, unchanged") { effort in
                let stores = (0..<3).map { _ in FluxStore(initialState: Sample()) }
                let view = FluxView(stores[0], stores[1], stores[2]) { $0.count &+ $1.count &+ $2.count }
                return try effort.measure {
                    var sum = 0
                    let time = ContinuousClock().measure { for _ in 0..<1_000 { sum &+= view.state } }
                    try expect("sum", sum, 0)
                    return time / .nanoseconds(1_000)
                }
            },
        ],
        floor: "by hand",
        bounds: [.ratio("view, changed", atMost: 3)]
    )

    static let viewsOfMany = Workload(
        name: "w11n",
        title: "n stores changed once each and a view of them flushed, per store",
        cells: [1_000, 10_000, 100_000].flatMap { count in
            [false, true].map { isWatched in
                Cell(isWatched ? "\(count), watched" : "\(count)") { effort in
                    let stores = (0..<count).map { _ in FluxStore(initialState: Sample()) }
                    let view = FluxView(stores) { $0.reduce(0) { $0 + $1.count } }
                    let token = isWatched ? view.subscribe { _ in } : nil
                    defer { withExtendedLifetime(token) {} }
                    return try effort.measure(count) {
                        view.state
                    } batch: { _ in
                        for store in stores { store.dispatch(action: .add(1)) }
                        blocking { await view.flush() }
                    }
                }
            }
        },
        bounds: [1_000, 10_000, 100_000].map { .ratio("\($0), watched", atMost: 10, of: "\($0)") }
    )

    static let oneForMany = Workload(
        name: "w11o",
        title: "one action that 4,000 stores take, and a view of them flushed, per store",
        cells: [false, true].map { isWatched in
            Cell(isWatched ? "watched" : "unwatched") { effort in
                let dispatcher = FluxDispatcher()
                let stores = (0..<4_000).map { _ in FluxStore(initialState: Sample(), dispatcher: dispatcher) }
                let view = FluxView(stores) { $0.reduce(0) { $0 + $1.count } }
                let token = isWatched ? view.subscribe { _ in } : nil
                defer { withExtendedLifetime(token) {} }
                return try effort.measure(stores.count) {
                    view.state
                } batch: { _ in
                    dispatcher.dispatch(action: Sample.Action.add(1))
                    blocking { await view.flush() }
                }
            }
        },
        floor: "unwatched",
        bounds: [.ratio("watched", atMost: 10)]
    )
}

/// The counters by which a cell waits for its iterators.
private final class Rally: Sendable {
    let left = Atomic<Int>(0)
    let started = Atomic<Int>(0)
    let reached = DispatchSemaphore(value: 0)
}
