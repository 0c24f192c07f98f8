import CHeap
import Foundation

/// What is counted of the process.
enum Meter: CaseIterable {
    case heap, resident, threads, descriptors

    var name: String {
        switch self {
        case .heap: "heap, as the allocator counts it"
        case .resident: "resident memory"
        case .threads: "threads"
        case .descriptors: "open descriptors"
        }
    }

    var unit: String {
        switch self {
        case .heap, .resident: "kB"
        case .threads, .descriptors: ""
        }
    }

    /// How much higher the last third may be than the middle one, if that has so many threads fewer.
    func tolerance(from value: Double, threads: Double) -> Double {
        switch self {
        // Hash tables are of this size or of another, as it comes; and Dispatch keeps a thousand continuations for each thread.
        case .heap: 64 + value / 100 + 128 * max(threads, 0)
        // The allocator keeps what was freed in pieces that it cannot give back.
        case .resident: 4_096 + value / 20
        // The system makes and ends them as it likes, a few at a time.
        case .threads: 4
        case .descriptors: 0
        }
    }

    /// The count now; nil where the system does not tell.
    fileprivate var reading: Double? {
        switch self {
        case .heap: heap_bytes() > 0 ? Double(heap_bytes()) / 1_024 : nil
        case .resident: Self.residentMemory
        case .threads: Self.entries(of: "/proc/self/task")
        // The one that reads the folder is among them each time.
        case .descriptors: Self.entries(of: "/dev/fd")
        }
    }

    private static func entries(of folder: String) -> Double? {
        (try? FileManager.default.contentsOfDirectory(atPath: folder)).map { Double($0.count) }
    }

    private static var residentMemory: Double? {
        guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
            let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmRSS:") })
        else { return nil }
        return line.split(separator: " ").dropFirst().first.flatMap { Double($0) }
    }
}

/// What was counted at one moment at which everything rested.
struct Sample: CustomStringConvertible {
    let time: Duration
    let readings: [Meter: Double]

    static func now(after time: Duration) -> Sample {
        Sample(
            time: time,
            readings: Dictionary(
                uniqueKeysWithValues: Meter.allCases.compactMap { meter in meter.reading.map { (meter, $0) } })
        )
    }

    var minutes: Double { time / .seconds(60) }

    var description: String {
        let counts = Meter.allCases.compactMap { meter in readings[meter].map { meter.text($0) } }
        return String(format: "%.1f min: ", minutes) + counts.joined(separator: ", ")
    }
}

extension Meter {
    /// A count with what it counts.
    func text(_ value: Double) -> String {
        switch self {
        case .heap: String(format: "%.0f kB of heap", value)
        case .resident: String(format: "%.0f kB resident", value)
        case .threads: String(format: "%.0f threads", value)
        case .descriptors: String(format: "%.0f descriptors", value)
        }
    }
}
