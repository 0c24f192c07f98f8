import CHeap
import FluxCore
import Foundation
import Workbench

extension Workload {
    static let footprint = Workload(
        name: "w6",
        title: "100,000 stores with a subscriber each",
        cells: [
            Cell(
                Name.flux,
                readings: { _ in
                    let initial = Sample()
                    return try measureStores(Name.flux) { (tally: Tally) in
                        let store = FluxStore(initialState: initial)
                        return (store, store.subscribe { tally.see($0.count) })
                    } dispatch: { (pair: (store: FluxStore<Sample>, FluxSubscription)) in
                        pair.store.dispatch(action: .add(1))
                    }
                }),
            Cell(
                Name.floor,
                readings: { _ in
                    let initial = Sample()
                    return try measureStores(Name.floor) { (tally: Tally) in
                        let store = LockedStore(initial)
                        store.subscribe { tally.see($0.count) }
                        return store
                    } dispatch: { (store: LockedStore) in
                        store.dispatch(.add(1))
                    }
                }),
        ],
        bounds: [
            .value("\(Name.flux), heap", atMost: 416),
            .value("\(Name.flux), heap after a change each", atMost: 800),
            .ratio("\(Name.flux), to make", atMost: 2.5, of: "\(Name.floor), to make"),
            .ratio("\(Name.flux), to drop", atMost: 8, of: "\(Name.floor), to drop"),
        ]
    )

    private static func measureStores<Store>(
        _ name: String, make: (Tally) -> Store, dispatch: (Store) -> Void
    ) throws -> [Reading] {
        let count = 100_000
        let finish = Finish()
        let tallies = (0..<count).map { _ in Tally(finish) }
        var stores: [Store] = []
        stores.reserveCapacity(count)
        // What the first store of a type creates once is not part of each store's cost.
        withExtendedLifetime(make(Tally(finish))) {}
        let before = heap_bytes()
        let making = onThisThread {
            for tally in tallies { stores.append(make(tally)) }
        }
        let made = heap_bytes() - before
        if made == 0 { throw WrongCount(description: "the allocator does not say how much it has given out") }
        for tally in tallies { tally.anticipate(1) }
        for store in stores { dispatch(store) }
        finish.wait()
        for tally in tallies { try tally.check() }
        let used = heap_bytes() - before
        let dropping = onThisThread { stores.removeAll(keepingCapacity: true) }
        // In whole bytes: a remainder that is too small for another piece goes to the piece before it.
        func each(_ bytes: Int) -> Double { (Double(bytes) / Double(count)).rounded() }
        return [
            Reading(name: "\(name), heap", value: each(made), unit: "B"),
            Reading(name: "\(name), to make", value: making / Double(count)),
            Reading(name: "\(name), heap after a change each", value: each(used), unit: "B"),
            Reading(name: "\(name), to drop", value: dropping / Double(count)),
        ]
    }
}

/// Returns the time, in ns, that the calling thread spent at work.
///
/// The body is measured once, not in batches, so in wall time an interruption by another program would show in full.
private func onThisThread(_ body: () -> Void) -> Double {
    func now() -> Double {
        var time = timespec()
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
        return Double(time.tv_sec) * 1e9 + Double(time.tv_nsec)
    }
    let start = now()
    body()
    return now() - start
}
