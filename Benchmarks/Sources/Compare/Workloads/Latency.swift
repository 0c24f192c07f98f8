import Dispatch
import FluxCore
import Synchronization
import Workbench

extension Workload {
    static let latency = Workload(
        name: "w8",
        title: "dispatch until a waiting handler begins, the queue idle",
        cells: [Cell(Name.flux, readings: measureLatency)],
        floor: "\(Name.hop), to .global(), p50",
        bounds: [.ratio("\(Name.flux), p50", atMost: 1.2)]
    )

    /// Two hops, because an event is converted on one queue and the state delivered on another.
    static let fireLatency = Workload(
        name: "w14",
        title: "fire until a waiting handler begins, the queues idle",
        cells: [Cell(Name.flux, readings: measureFireLatency)],
        floor: "\(Name.hop), to .global(), p50",
        bounds: [
            .ratio("\(Name.flux), p50", atMost: 2),
            .ratio("\(Name.flux), p99", atMost: 2, of: "\(Name.hop), to .global(), p99"),
        ]
    )

    /// The wait of a test or a request after its dispatch.
    static let idleFlush = Workload(
        name: "w15",
        title: "a dispatch and a flush, nothing due",
        cells: [
            Cell(Name.call) { effort in
                let idle = Idle()
                let total = Atomic<Int>(0)
                return try effort.measure(10_000) {
                    total.load(ordering: .relaxed)
                } batch: { operations in
                    blocking {
                        for _ in 0..<operations { await idle.add(1) }
                        await total.store(idle.count, ordering: .relaxed)
                    }
                }
            },
            Cell(Name.flux) { effort in
                let store = FluxStore(initialState: Sample(), dispatcher: nil)
                return try effort.measure(10_000) {
                    store.state.count
                } batch: { operations in
                    blocking {
                        for _ in 0..<operations {
                            store.dispatch(action: .add(1))
                            await store.flush()
                        }
                    }
                }
            },
        ],
        floor: Name.call,
        bounds: [.ratio(atMost: 15)]
    )

    private actor Idle {
        var count = 0
        func add(_ amount: Int) { count += amount }
    }

    @Sendable
    private static func measureLatency(_ effort: Effort) throws -> [Reading] {
        let bell = Bell()
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        let token = store.subscribe { _ in bell.ring() }
        let (readings, rounds) = try measureHops(effort, bell) { store.dispatch(action: .add(1)) }
        withExtendedLifetime(token) {}
        try expect("total", store.state.count, rounds)
        return readings
    }

    @Sendable
    private static func measureFireLatency(_ effort: Effort) throws -> [Reading] {
        let bell = Bell()
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
        let creator = FluxActionCreator<Adding>(dispatcher: dispatcher)
        let token = store.subscribe { _ in bell.ring() }
        let (readings, rounds) = try measureHops(effort, bell) { creator.fire(.added(1)) }
        withExtendedLifetime(token) {}
        try expect("total", store.state.count, rounds)
        return readings
    }

    /// Measures the hops in turn in one process, so that each finds the machine's threads in the same condition.
    private static func measureHops(
        _ effort: Effort, _ bell: Bell, _ flux: () -> Void
    ) throws -> (readings: [Reading], rounds: Int) {
        let queue = DispatchQueue(label: "hop")
        let pooled = DispatchQueue(label: "pooled", target: .global())
        var bare: [Double] = []
        var inPool: [Double] = []
        var own: [Double] = []
        // The order rotates, because a hop finds what the previous one left behind: a core awake or asleep.
        var round = 0
        _ = effort.measure {
            for turn in round..<round + 3 {
                switch turn % 3 {
                case 0: bare.append(bell.time { queue.async { bell.ring() } })
                case 1: inPool.append(bell.time { pooled.async { bell.ring() } })
                default: own.append(bell.time(flux))
                }
            }
            round += 1
            return 0
        }
        try expect("handlers called", bell.rings, 3 * own.count)
        let all = [(Name.hop, bare), ("\(Name.hop), to .global()", inPool), (Name.flux, own)]
        return (
            all.flatMap { name, times in
                [50.0, 99].map { Reading(name: "\(name), p\(Int($0))", value: times.percentile($0)) }
            }, own.count
        )
    }
}

/// Measures the time from a call to the first line of what it causes on another thread.
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
        // Long enough for the other thread to finish and go to sleep, so that the next call finds the queue idle.
        let idle = DispatchTime.now().uptimeNanoseconds + 30_000
        while DispatchTime.now().uptimeNanoseconds < idle {}
        return Double(latency)
    }
}

extension Name {
    fileprivate static let call = "a call of an actor"
}
