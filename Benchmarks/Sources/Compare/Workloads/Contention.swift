import FluxCore
import Foundation
import Workbench

extension Workload {
    static let twoThreads = Workload(
        name: "w4",
        title: "two threads dispatching into one store",
        cells: [
            Cell(Name.floor) { effort in
                let initial = Sample()
                return try effort.measureTwoThreads {
                    LockedStore(initial)
                } total: {
                    $0.state.count
                } body: { store, operations in
                    for _ in 0..<operations { store.dispatch(.add(1)) }
                }
            },
            Cell(Name.flux) { effort in
                let initial = Sample()
                return try effort.measureTwoThreads {
                    FluxStore(initialState: initial, dispatcher: nil)
                } total: {
                    $0.state.count
                } body: { store, operations in
                    for _ in 0..<operations { store.dispatch(action: .add(1)) }
                }
            },
            Cell(Name.queue) { effort in
                try effort.measureTwoThreads {
                    QueueStore()
                } total: {
                    $0.state.count
                } body: { store, operations in
                    for _ in 0..<operations { store.dispatch(.add(1)) }
                }
            },
            Cell(Name.actor) { effort in
                let store = ActorStore()
                return try effort.measure(100_000, total: { store.count }) { operations in
                    blocking {
                        async let other: Void = store.dispatch(times: operations / 2)
                        await store.dispatch(times: operations / 2)
                        await other
                    }
                }
            },
        ],
        floor: Name.floor,
        bounds: [.ratio(atMost: 1.2)]
    )

    static let twoStores = Workload(
        name: "w4s",
        title: "two threads, each its own store and dispatcher, against one thread",
        cells: [
            Cell(
                Name.flux,
                readings: { effort in
                    let sites = [Site(), Site()]
                    return try effort.measureScaling(Name.flux, total: { sites[$0].store.state.count }) {
                        thread, operations in
                        let dispatcher = sites[thread].dispatcher
                        for _ in 0..<operations { dispatcher.dispatch(action: Sample.Action.add(1)) }
                    }
                }),
            Cell(
                Name.floor,
                readings: { effort in
                    let stores = [LockedStore(), LockedStore()]
                    return try effort.measureScaling(Name.floor, total: { stores[$0].state.count }) {
                        thread, operations in
                        let store = stores[thread]
                        for _ in 0..<operations { store.dispatch(.add(1)) }
                    }
                }),
        ],
        bounds: [.value("\(Name.flux), speed-up", atLeast: 1.7)]
    )

    static let manyThreads = Workload(
        name: "w4m",
        title: "four threads for each core, into one store, against one thread",
        cells: [
            Cell(
                Name.flux,
                readings: { effort in
                    let initial = Sample()
                    return try effort.measureCrowd(Name.flux, 400_000) {
                        FluxStore(initialState: initial, dispatcher: nil)
                    } count: {
                        $0.state.count
                    } body: { store, operations in
                        for _ in 0..<operations { store.dispatch(action: .add(1)) }
                    }
                }),
            Cell(
                fired,
                readings: { effort in
                    let initial = Sample()
                    return try effort.measureCrowd(fired, 100_000) {
                        FiringSite(initial)
                    } count: {
                        $0.store.state.count
                    } body: { site, operations in
                        for _ in 0..<operations { site.creator.fire(.added(1)) }
                    } finish: { site in
                        blocking { await site.creator.flush() }
                    }
                }),
            Cell(
                Name.floor,
                readings: { effort in
                    let initial = Sample()
                    return try effort.measureCrowd(Name.floor, 400_000) {
                        LockedStore(initial)
                    } count: {
                        $0.state.count
                    } body: { store, operations in
                        for _ in 0..<operations { store.dispatch(.add(1)) }
                    }
                }),
        ],
        bounds: [
            .ratio("\(Name.flux), crowd", atMost: 5, of: "\(Name.flux), one thread"),
            .ratio("\(fired), crowd", atMost: 5, of: "\(fired), one thread"),
        ]
    )

    private static let fired = "\(Name.flux), fire to applied"
}

private final class FiringSite: Sendable {
    let store: FluxStore<Sample>
    let creator: FluxActionCreator<Adding>

    init(_ initial: Sample) {
        store = FluxStore(initialState: initial, dispatcher: nil)
        creator = FluxActionCreator(store: store)
    }
}

private struct Site: Sendable {
    let dispatcher: FluxDispatcher
    let store: FluxStore<Sample>

    init() {
        dispatcher = FluxDispatcher()
        store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
    }
}

extension ActorStore {
    nonisolated fileprivate func dispatch(times: Int) async {
        for _ in 0..<times { await dispatch(.add(1)) }
    }
}

extension Effort {
    /// Times two threads that share a store.
    ///
    /// A store lies on one cache line or across two, depending on its address, which makes a factor of 2 here. So each
    /// batch creates a store at another offset. All stores are kept, so that none takes the place of another.
    fileprivate func measureTwoThreads<Store: AnyObject & Sendable>(
        make: () -> Store,
        total: (Store) -> Int,
        body: @escaping @Sendable (_ store: Store, _ operations: Int) -> Void
    ) throws -> Double {
        let operations = 200_000
        var stores: [Store] = []
        var pads: [UnsafeMutableRawPointer] = []
        defer { for pad in pads { pad.deallocate() } }
        return try measure {
            for _ in 0..<Int.random(in: 0..<4) { pads.append(.allocate(byteCount: 40, alignment: 16)) }
            let store = make()
            stores.append(store)
            let time = onThreads(2) { _ in body(store, operations) }
            try expect("total", total(store), 2 * operations)
            return time / .nanoseconds(2 * operations)
        }
    }

    /// Times one thread and, in turn, four threads for each core, with a new store each time.
    fileprivate func measureCrowd<Store: AnyObject & Sendable>(
        _ name: String,
        _ total: Int,
        make: () -> Store,
        count: (Store) -> Int,
        body: @escaping @Sendable (_ store: Store, _ operations: Int) -> Void,
        finish: (Store) -> Void = { _ in }
    ) throws -> [Reading] {
        let crowd = 4 * ProcessInfo.processInfo.activeProcessorCount
        func time(_ threads: Int) throws -> Double {
            let store = make()
            let operations = total / threads
            var time = onThreads(threads) { _ in body(store, operations) }
            time += ContinuousClock().measure { finish(store) }
            try expect("total", count(store), threads * operations)
            return time / .nanoseconds(threads * operations)
        }
        var alone: [Double] = []
        let all = try measure {
            alone.append(try time(1))
            return try time(crowd)
        }
        return [
            Reading(name: "\(name), one thread", value: alone.median),
            Reading(name: "\(name), crowd", value: all),
        ]
    }

    /// Times one thread and two in turn.
    ///
    /// The speed-up is that of the best batches. Whether two stores disturb each other shows only when no other program
    /// uses one of the machine's cores.
    fileprivate func measureScaling(
        _ name: String,
        total: (_ thread: Int) -> Int,
        body: @escaping @Sendable (_ thread: Int, _ operations: Int) -> Void
    ) throws -> [Reading] {
        let operations = 50_000
        var expected = 0
        var alone: [Double] = []
        var both: [Double] = []
        _ = try measure {
            alone.append(onThreads(1) { body($0, operations) } / .nanoseconds(operations))
            both.append(onThreads(2) { body($0, operations) } / .nanoseconds(2 * operations))
            expected += operations
            try expect("total of the second", total(1), expected)
            try expect("total of the first", total(0), 2 * expected)
            return 0
        }
        let (one, two) = (alone.percentile(0), both.percentile(0))
        return [
            Reading(name: "\(name), one thread", value: one),
            Reading(name: "\(name), two threads", value: two),
            Reading(name: "\(name), speed-up", value: one / two, unit: "x"),
        ]
    }
}
