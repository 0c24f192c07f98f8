import Dispatch
import FluxCore
import Synchronization
import Workbench

extension Workload {
    static let latency = Workload(
        name: "w8",
        title: "dispatch until a waiting handler begins, the queue idle",
        cells: [Cell(Name.flux, readings: measureLatency)],
        floor: "\(Name.hop), p50",
        bounds: [.ratio("\(Name.flux), p50", atMost: 1.2)]
    )

    /// The hops take turns in one process, so that each finds the threads of the machine as the other does.
    @Sendable
    private static func measureLatency(_ effort: Effort) throws -> [Reading] {
        let queue = DispatchQueue(label: "hop")
        let pooled = DispatchQueue(label: "pooled", target: .global())
        let bell = Bell()
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        let token = store.subscribe { _ in bell.ring() }
        var bare: [Double] = []
        var inPool: [Double] = []
        var flux: [Double] = []
        // Who is first changes: what one hop leaves behind, a core awake or asleep, the next one finds.
        var round = 0
        _ = effort.measure {
            for turn in round..<round + 3 {
                switch turn % 3 {
                case 0: bare.append(bell.time { queue.async { bell.ring() } })
                case 1: inPool.append(bell.time { pooled.async { bell.ring() } })
                default: flux.append(bell.time { store.dispatch(action: .add(1)) })
                }
            }
            round += 1
            return 0
        }
        withExtendedLifetime(token) {}
        try expect("handlers called", bell.rings, 3 * flux.count)
        try expect("total", store.state.count, flux.count)
        return [(Name.hop, bare), ("\(Name.hop), to .global()", inPool), (Name.flux, flux)].flatMap { name, times in
            [50.0, 99].map { Reading(name: "\(name), p\(Int($0))", value: times.percentile($0)) }
        }
    }
}

/// Takes the time from a call to the first line of what it causes on another thread.
private final class Bell: Sendable {
    private let rang = Atomic<UInt64>(0)
    private let count = Atomic<Int>(0)
    private let heard = DispatchSemaphore(value: 0)

    var rings: Int { count.load(ordering: .relaxed) }

    func ring() {
        rang.store(DispatchTime.now().uptimeNanoseconds, ordering: .relaxed)
        count.add(1, ordering: .relaxed)
        heard.signal()
    }

    func time(_ call: () -> Void) -> Double {
        let start = DispatchTime.now().uptimeNanoseconds
        call()
        heard.wait()
        let latency = rang.load(ordering: .relaxed) - start
        // Long enough for the other thread to finish and go to sleep: the next call shall find the queue idle.
        let idle = DispatchTime.now().uptimeNanoseconds + 30_000
        while DispatchTime.now().uptimeNanoseconds < idle {}
        return Double(latency)
    }
}
