import FluxCore
import FluxDiagnostics
import InMemoryTracing
import Logging
import MetricsTestKit
import Synchronization
import Testing

@testable import CoreMetrics
@testable import FluxInstruments

/// The adapters report to their backends what instrumentation reports to them.
@Suite(.serialized) struct FluxInstrumentsTests {
    struct Clicks: FluxState {
        struct Click: FluxAction {}
        var count = 0
        mutating func handle(action: Click) -> Clicks? {
            count += 1
            return self
        }
    }

    enum Clicking: FluxActionConverter {
        struct Event: FluxEvent {}
        static func convert(event: Event, dependency: Void, actionHandler: @escaping (Clicks.Click) -> Void) {
            actionHandler(Clicks.Click())
        }
    }

    let dispatcher = FluxDispatcher()
    let store: FluxStore<Clicks>
    let creator: FluxActionCreator<Clicking>

    init() {
        store = FluxStore(initialState: Clicks(), dispatcher: dispatcher)
        creator = FluxActionCreator(dispatcher: dispatcher)
    }

    @Test func `A logger gets a line for each event fired and each action dispatched and applied`() async {
        let lines = Lines()
        var logger = Logger(label: "flux") { _ in lines }
        logger.logLevel = .debug
        dispatcher.instrument(FluxLogging(logger))
        creator.fire(Clicking.Event())
        await creator.flush()
        #expect(lines.all.map { $0.prefix { $0 != " " } } == ["fired", "dispatched", "applied"])
        #expect(lines.all[2].contains("store=FluxStore<Clicks>") && lines.all[2].contains("revision=1"))
    }

    @Test func `Metrics count events, actions and changes, and time the applied actions`() async throws {
        let metrics = TestMetrics()
        MetricsSystem.bootstrapInternal(metrics)
        dispatcher.instrument(FluxMetrics(label: "flux"))
        store.instrument(FluxMetrics(label: "store"))
        let token = store.subscribe { _ in }
        creator.fire([Clicking.Event(), Clicking.Event()])
        await creator.flush()
        await store.flush()
        token.unsubscribe()
        #expect(try metrics.expectCounter("flux.fired").totalValue == 2)
        #expect(try metrics.expectCounter("flux.dispatched").totalValue == 2)
        #expect(try metrics.expectCounter("flux.announced").totalValue == 2)
        #expect(try metrics.expectTimer("flux.applied").values.count == 2)
        #expect(try metrics.expectTimer("store.applied").values.count == 2)
    }

    @Test func `A tracer gets a span for each event and each action, with the same origin`() async {
        let tracer = InMemoryTracer()
        dispatcher.instrument(FluxTracing(tracer))
        creator.fire(Clicking.Event())
        await creator.flush()
        let spans = tracer.finishedSpans
        #expect(spans.map(\.operationName) == ["fire Event", "apply Click"])
        #expect(spans[0].attributes.get("flux.origin") == spans[1].attributes.get("flux.origin"))
    }
}

/// Records the lines of a log.
private final class Lines: LogHandler, Sendable {
    private let lines = Mutex<[String]>([])
    var all: [String] { lines.withLock { $0 } }
    var logLevel: Logger.Level {
        get { .trace }
        set {}
    }
    var metadata: Logger.Metadata {
        get { [:] }
        set {}
    }
    subscript(metadataKey key: String) -> Logger.MetadataValue? {
        get { nil }
        set {}
    }

    func log(event: LogEvent) {
        let details = (event.metadata ?? [:]).sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
        lines.withLock { $0.append("\(event.message)\(details)") }
    }
}
