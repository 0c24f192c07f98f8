import Benchmark
import FluxCore
import Workbench

/// What may not become slower unnoticed; `compare` says how fast it is next to what else there is.
///
/// No name has a space in it: version 1.38.1 writes the thresholds of such a benchmark under another name than it reads.
let benchmarks: @Sendable () -> Void = {
    // Wide, because the thresholds that are committed come from another machine than the one they are checked on: they
    // catch what has become three times as slow, or needs many more threads.
    Benchmark.defaultConfiguration = .init(
        metrics: [.wallClock, .throughput, .peakMemoryResident, .threads],
        warmupIterations: 10,
        scalingFactor: .kilo,
        maxDuration: .seconds(1),
        maxIterations: 2_000,
        thresholds: [
            .wallClock: BenchmarkThresholds(relative: [.p50: 100, .p90: 200]),
            .throughput: BenchmarkThresholds(relative: [.p50: 50, .p90: 66]),
            .peakMemoryResident: BenchmarkThresholds(relative: [.p50: 50, .p90: 50]),
            .threads: BenchmarkThresholds(relative: [.p50: 100, .p90: 100]),
        ]
    )

    Benchmark("dispatch-store") { benchmark in
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        benchmark.startMeasurement()
        for _ in benchmark.scaledIterations { store.dispatch(action: .add(1)) }
        benchmark.stopMeasurement()
        benchmark.expect(store.state.count)
    }

    Benchmark("dispatch-dispatcher") { benchmark in
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Sample(), dispatcher: dispatcher)
        benchmark.startMeasurement()
        for _ in benchmark.scaledIterations { dispatcher.dispatch(action: Sample.Action.add(1)) }
        benchmark.stopMeasurement()
        benchmark.expect(store.state.count)
    }

    Benchmark("fire-batch") { benchmark in
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        let creator = FluxActionCreator<Adding>(store: store)
        let events = [Adding.Event](repeating: .added, count: benchmark.scaledIterations.count)
        benchmark.startMeasurement()
        creator.fire(events)
        await creator.flush()
        benchmark.stopMeasurement()
        benchmark.expect(store.state.count)
    }

    Benchmark("fire-one") { benchmark in
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        let creator = FluxActionCreator<Adding>(store: store)
        benchmark.startMeasurement()
        for _ in benchmark.scaledIterations { creator.fire(.added) }
        await creator.flush()
        benchmark.stopMeasurement()
        benchmark.expect(store.state.count)
    }

    Benchmark("subscriber-one") { benchmark in
        try benchmark.deliver(subscribers: 1, actions: benchmark.scaledIterations.count)
    }

    Benchmark("subscribers-1000") { benchmark in
        try benchmark.deliver(subscribers: 1_000, actions: 1)
    }

    Benchmark("store-make-and-drop") { benchmark in
        let initial = Sample()
        for _ in benchmark.scaledIterations {
            let store = FluxStore(initialState: initial, dispatcher: nil)
            withExtendedLifetime(store.subscribe { blackHole($0) }) {}
        }
    }
}

extension Benchmark {
    fileprivate func deliver(subscribers: Int, actions: Int) throws {
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        let finish = Finish()
        let tallies = (0..<subscribers).map { _ in Tally(finish) }
        let tokens = tallies.map { tally in store.subscribe { tally.see($0.count) } }
        for tally in tallies { tally.anticipate(actions) }
        startMeasurement()
        for _ in 0..<actions { store.dispatch(action: .add(1)) }
        finish.wait()
        stopMeasurement()
        for tally in tallies { try tally.check() }
        withExtendedLifetime(tokens) {}
    }

    fileprivate func expect(_ count: Int) {
        if count != scaledIterations.count {
            error("\(count) actions were applied instead of \(scaledIterations.count)")
        }
    }
}

/// Converts each event into one action, at once.
private enum Adding: FluxActionConverter {
    enum Event: FluxEvent { case added }

    static func convert(event: Event, dependency: Void, actionHandler: @escaping @Sendable (Sample.Action) -> Void) {
        actionHandler(.add(1))
    }
}
