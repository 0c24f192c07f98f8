import FluxCore
import FluxDiagnostics
import Tracing

/// Creates swift-distributed-tracing spans for fired events, failed events and applied actions.
///
/// Copy this file into your program.
///
///     let registration = dispatcher.instrument(FluxTracing(InstrumentationSystem.tracer))
///
/// All spans of one event have the same attribute `flux.origin`, by which its trace can be found.
struct FluxTracing: FluxInstrumentation {
    private let tracer: any Tracer

    /// - Parameter tracer: The tracer that creates the spans.
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
        // The action has already been applied, so the span itself takes no time.
        span.attributes["flux.duration"] = "\(duration)"
        if let revision { span.attributes["flux.revision"] = Int64(bitPattern: revision) }
        if let origin = FluxOrigin.current { span.attributes["flux.origin"] = Int64(bitPattern: origin.id) }
        span.end()
    }
}
