import FluxCore
import FluxDiagnostics
import Tracing

/// Makes a span of swift-distributed-tracing for each action that is applied.
///
/// Copy this file into your program.
///
///     let registration = dispatcher.instrument(FluxTracing(InstrumentationSystem.tracer))
///
/// The attribute `flux.origin` is the same for all actions of one event, so that a trace can be found by it.
struct FluxTracing: FluxInstrumentation {
    private let tracer: any Tracer

    /// - Parameter tracer: What makes the spans.
    init(_ tracer: any Tracer) {
        self.tracer = tracer
    }

    func fired(_ event: any FluxEvent, origin: FluxOrigin) {
        let span = tracer.startSpan("fire \(type(of: event))", ofKind: .producer)
        span.attributes["flux.origin"] = Int64(bitPattern: origin.id)
        span.end()
    }

    func failed(_ event: any FluxEvent, error: any Error, origin: FluxOrigin) {
        let span = tracer.startSpan("convert \(type(of: event))")
        span.attributes["flux.origin"] = Int64(bitPattern: origin.id)
        span.recordError(error)
        span.setStatus(.init(code: .error))
        span.end()
    }

    func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
        let span = tracer.startSpan("apply \(type(of: action))", ofKind: .internal)
        span.attributes["flux.store"] = "\(store)"
        // Told after the fact, so the span itself takes no time.
        span.attributes["flux.duration"] = "\(duration)"
        if let revision { span.attributes["flux.revision"] = Int64(bitPattern: revision) }
        if let origin = FluxOrigin.current { span.attributes["flux.origin"] = Int64(bitPattern: origin.id) }
        span.end()
    }
}
