import FluxCore
import FluxDiagnostics
import FluxRouting
import TestSupport
import Testing

/// What an observer sees of an event on its whole way: one origin, each failure once, and what commands do.
@Suite struct OriginTests {
    /// What was reported, in order, each with its origin if it has one.
    final class Trail: FluxInstrumentation {
        let lines = Recorder<String>()
        let origins = Recorder<FluxOrigin?>()

        /// Keeps both recorders in the same order, whichever threads report.
        private let count = Locked(0)

        private func note(_ line: String, _ origin: FluxOrigin?) {
            count.withLock { count in
                count += 1
                origins.record(origin)
                lines.record(line)
            }
        }

        func fired(_ event: any FluxEvent, origin: FluxOrigin) { note("fired \(event)", origin) }
        func failed(_ event: any FluxEvent, error: any Error, origin: FluxOrigin) { note("failed \(event)", origin) }
        func retried(_ event: any FluxEvent, attempt: Int, error: any Error, origin: FluxOrigin) {
            note("retried \(attempt)", origin)
        }
        func dispatched(_ action: any FluxAction, origin: FluxOrigin?) { note("dispatched \(action)", origin) }
        func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
            note("applied \(action)", FluxOrigin.current)
        }

        /// The lines of one origin.
        func lines(of origin: FluxOrigin?) -> [String] {
            zip(origins.values, lines.values).compactMap { $0 == origin ? $1 : nil }
        }
    }

    let dispatcher = FluxDispatcher()
    let trail = Trail()
    let store: FluxStore<Log>

    init() {
        store = FluxStore(initialState: Log(), dispatcher: dispatcher)
        dispatcher.instrument(trail)
    }

    @Test(arguments: [false, true]) func `The reports of one event share one origin`(isArray: Bool) async {
        let callback = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        let async = FluxActionCreator<WorkConverter>(dependency: .init(), dispatcher: dispatcher)
        if isArray {
            callback.fire([.add(1), .add(2)])
            async.fire([.add(3), .add(4)])
        } else {
            for number in 1...2 { callback.fire(.add(number)) }
            for number in 3...4 { async.fire(.add(number)) }
        }
        await callback.flush()
        await async.flush()
        let origins = Set(trail.origins.values)
        #expect(origins.count == 4 && !origins.contains(nil))
        let trails = Set(origins.map { trail.lines(of: $0) })
        #expect(trails == Set((1...4).map { ["fired add(\($0))", "dispatched add(\($0))", "applied add(\($0))"] }))
    }

    @Test func `A conversion that suspends and resumes on another thread keeps its origin`() async {
        let site = WorkConverter.Site { $0 == 1 }
        let creator = FluxActionCreator<WorkConverter>(dependency: site, dispatcher: dispatcher)
        let (first, second) = (creator.fire(.add(1)), creator.fire(.add(2)))
        _ = await second.outcome
        site.gate(1).open()
        _ = await first.outcome
        for origin in Set(trail.origins.values) {
            #expect(
                trail.lines(of: origin).map { $0.suffix(6) }.allSatisfy { $0 == trail.lines(of: origin)[0].suffix(6) })
            #expect(trail.lines(of: origin).count == 3)
        }
    }

    @Test func `Middleware that continues later keeps the origin, and other actions there have none`() async {
        let kept = Locked<[FluxNext]>([])
        let later = dispatcher.add(FluxInterceptor { _, next in kept.withLock { $0.append(next) } })
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        creator.fire(.add(1))
        await creator.flush()
        let origin = trail.origins.values[0]
        await onThreads(1) { [dispatcher] _ in
            later.remove()
            dispatcher.add(7)
            for next in kept.current { next(Counter.Action.add(9)) }
            dispatcher.add(8)
        }
        #expect(trail.lines(of: origin) == ["fired add(1)", "dispatched add(1)", "applied add(9)"])
        #expect(trail.lines(of: nil) == ["dispatched add(7)", "applied add(7)", "dispatched add(8)", "applied add(8)"])
        kept.withLock { $0 = [] }
    }

    @Test func `A dispatcher known only as FluxDispatching keeps the origin`() async {
        let any: any FluxDispatching = dispatcher
        let watcher = Watcher()
        dispatcher.instrument(watcher)
        let creator = FluxActionCreator<CounterConverter>(dispatcher: any)
        _ = await creator.fire(.add(1)).outcome
        let origins = watcher.notes.values.compactMap { if case .dispatched(let origin) = $0 { origin } else { nil } }
        #expect(origins.count == 1)
    }

}
