import CoreMetrics
import Hummingbird
import NIOCore
import Synchronization

/// The metrics of swift-metrics, as text for Prometheus to fetch.
///
/// Counters get the suffix `_total`, timers are histograms in seconds, and aggregating recorders are summaries without
/// quantiles.
final class Prometheus: MetricsFactory {
    fileprivate enum Kind: String { case counter, gauge, summary, histogram }

    /// All series of one name, by their labels.
    private struct Family {
        let kind: Kind
        var series: [String: Series] = [:]
    }

    private let families = Mutex<[String: Family]>([:])

    // MARK: - Creating

    func makeCounter(label: String, dimensions: [(String, String)]) -> any CounterHandler {
        series(.counter, label + "_total", dimensions)
    }

    func makeFloatingPointCounter(
        label: String, dimensions: [(String, String)]
    ) -> any FloatingPointCounterHandler {
        series(.counter, label + "_total", dimensions)
    }

    func makeMeter(label: String, dimensions: [(String, String)]) -> any MeterHandler {
        series(.gauge, label, dimensions)
    }

    func makeRecorder(label: String, dimensions: [(String, String)], aggregate: Bool) -> any RecorderHandler {
        series(aggregate ? .summary : .gauge, label, dimensions)
    }

    func makeTimer(label: String, dimensions: [(String, String)]) -> any TimerHandler {
        series(.histogram, label + "_seconds", dimensions)
    }

    // A series is never removed: Prometheus would take its return for a restart.
    func destroyCounter(_ handler: any CounterHandler) {}
    func destroyFloatingPointCounter(_ handler: any FloatingPointCounterHandler) {}
    func destroyMeter(_ handler: any MeterHandler) {}
    func destroyRecorder(_ handler: any RecorderHandler) {}
    func destroyTimer(_ handler: any TimerHandler) {}

    private func series(_ kind: Kind, _ label: String, _ dimensions: [(String, String)]) -> Series {
        let name = Self.name(label)
        let labels = dimensions.map { "\(Self.name($0.0))=\"\(Self.escaped($0.1))\"" }.joined(separator: ",")
        return families.withLock { families in
            // A name has one kind. A metric of another kind with the same name is counted separately and not shown.
            let family = families[name, default: Family(kind: kind)]
            if family.kind != kind { return Series(kind) }
            let series = family.series[labels] ?? Series(kind)
            families[name, default: family].series[labels] = series
            return series
        }
    }

    /// A valid name: only letters, digits and underscores, and no digit first.
    private static func name(_ label: String) -> String {
        let name = String(label.map { $0.isASCII && ($0.isLetter || $0.isNumber) ? $0 : "_" })
        return name.first?.isNumber == true ? "_" + name : name
    }

    private static func escaped(_ value: String) -> String {
        value.map { ["\\": "\\\\", "\"": "\\\"", "\n": "\\n"][$0] ?? String($0) }.joined()
    }

    // MARK: - Showing

    /// All series, grouped by name.
    var text: String {
        let families = families.withLock { $0 }
        return families.sorted { $0.key < $1.key }.map { name, family in
            "# TYPE \(name) \(family.kind)\n"
                + family.series.sorted { $0.key < $1.key }.map { $1.lines(name, $0) }.joined()
        }.joined()
    }

    var response: Response {
        Response(
            status: .ok, headers: [.contentType: "text/plain; version=0.0.4; charset=utf-8"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
    }
}

/// One series of any kind.
private final class Series: CounterHandler, FloatingPointCounterHandler, MeterHandler, RecorderHandler, TimerHandler {
    private struct Numbers {
        /// The value of a counter or gauge, or the sum of the recorded values.
        var value = 0.0
        var count = 0
        /// For each bound, how many values were at most this bound and above the previous one.
        var buckets = [Int](repeating: 0, count: Series.bounds.count)
    }

    static let bounds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

    private let kind: Prometheus.Kind
    private let numbers = Mutex(Numbers())

    init(_ kind: Prometheus.Kind) { self.kind = kind }

    func increment(by amount: Int64) { increment(by: Double(amount)) }
    func increment(by amount: Double) { numbers.withLock { $0.value += amount } }
    func decrement(by amount: Double) { increment(by: -amount) }
    func reset() { numbers.withLock { $0 = Numbers() } }
    func set(_ value: Int64) { set(Double(value)) }
    func set(_ value: Double) { numbers.withLock { $0.value = value } }
    func record(_ value: Int64) { record(Double(value)) }
    func record(_ value: Double) {
        if kind == .gauge { return set(value) }
        numbers.withLock { numbers in
            numbers.value += value
            numbers.count += 1
            if let bucket = Self.bounds.firstIndex(where: { value <= $0 }) { numbers.buckets[bucket] += 1 }
        }
    }
    func recordNanoseconds(_ duration: Int64) { record(Double(duration) / 1e9) }

    func lines(_ name: String, _ labels: String) -> String {
        let numbers = numbers.withLock { $0 }
        let braced = labels.isEmpty ? "" : "{\(labels)}"
        if kind == .counter || kind == .gauge { return "\(name)\(braced) \(Self.text(numbers.value))\n" }
        var lines = ""
        if kind == .histogram {
            let before = labels.isEmpty ? "" : labels + ","
            var sum = 0
            for (bound, count) in zip(Self.bounds, numbers.buckets) {
                sum += count
                lines += "\(name)_bucket{\(before)le=\"\(bound)\"} \(sum)\n"
            }
            lines += "\(name)_bucket{\(before)le=\"+Inf\"} \(numbers.count)\n"
        }
        return lines + "\(name)_sum\(braced) \(Self.text(numbers.value))\n\(name)_count\(braced) \(numbers.count)\n"
    }

    private static func text(_ value: Double) -> String {
        Int(exactly: value).map { "\($0)" } ?? "\(value)"
    }
}
