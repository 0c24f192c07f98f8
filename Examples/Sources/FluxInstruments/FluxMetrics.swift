import FluxCore
import FluxDiagnostics
import Metrics

/// Counts and times the events and actions of a dispatcher or a store with swift-metrics.
///
/// Copy this file into your program.
///
///     let registration = store.instrument(FluxMetrics(label: "cart"))
///
/// The metrics are created once, not per action. Metrics should have few dimensions, so no action or event is one.
struct FluxMetrics: FluxInstrumentation {
    private let fired, failed, retried, dispatched, announced: Counter
    private let applying: Metrics.Timer

    /// - Parameter label: The prefix of each metric's label.
    init(label: String) {
        fired = Counter(label: "\(label).fired")
        failed = Counter(label: "\(label).failed")
        retried = Counter(label: "\(label).retried")
        dispatched = Counter(label: "\(label).dispatched")
        announced = Counter(label: "\(label).announced")
        applying = Metrics.Timer(label: "\(label).applied")
    }

    func fired(_ event: any FluxEvent, origin: FluxOrigin) { fired.increment() }

    func failed(_ event: any FluxEvent, error: any Error, origin: FluxOrigin) { failed.increment() }

    func retried(_ event: any FluxEvent, attempt: Int, error: any Error, origin: FluxOrigin) { retried.increment() }

    func dispatched(_ action: any FluxAction, origin: FluxOrigin?) { dispatched.increment() }

    func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
        if revision != nil { announced.increment() }
        applying.recordNanoseconds(duration.wholeNanoseconds)
    }
}

extension Duration {
    fileprivate var wholeNanoseconds: Int64 {
        components.seconds * 1_000_000_000 + components.attoseconds / 1_000_000_000
    }
}
