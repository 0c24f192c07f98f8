import CHeap
import Foundation

/// A quantity that is measured in the process.
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

    /// Returns how much higher the last third may be than the middle one, if it has that many more threads.
    func tolerance(from value: Double, threads: Double) -> Double {
        switch self {
        // Hash tables have one size or another by chance, and Dispatch keeps a thousand continuations for each thread.
        case .heap: 64 + value / 100 + 128 * max(threads, 0)
        // The allocator keeps freed memory in pieces that it cannot return.
        case .resident: 4_096 + value / 20
        // The system creates and ends threads as it likes, a few at a time.
        case .threads: 4
        case .descriptors: 0
        }
    }

    /// The current value; nil if the system does not report it.
    fileprivate var reading: Double? {
        switch self {
        case .heap: heap_bytes() > 0 ? Double(heap_bytes()) / 1_024 : nil
        case .resident: Self.residentMemory
        case .threads: Self.entries(of: "/proc/self/task")
        // Includes the one that reads the folder, each time.
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

/// The readings at a moment when everything rested.
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
    /// Returns a value together with what it measures.
    func text(_ value: Double) -> String {
        switch self {
        case .heap: String(format: "%.0f kB of heap", value)
        case .resident: String(format: "%.0f kB resident", value)
        case .threads: String(format: "%.0f threads", value)
        case .descriptors: String(format: "%.0f descriptors", value)
        }
    }
}
