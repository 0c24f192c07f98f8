import Foundation

/// How much of the machine others used while a workload was measured, and so how far its figures can be trusted.
struct Calm: Codable {
    /// The part of all cores that was busy with other work, from 0 to 1.
    let others: Double
    /// Whether that is so much that the workload must be measured again.
    let isToDistrust: Bool

    /// Above this part of the machine the figures are not to be trusted: a twentieth of two cores is a tenth of one.
    static let limit = 0.05
}

/// Records the work that the machine has done so far, to tell later how much others used.
struct CalmWatch {
    private let start = Self.now()

    /// How calm the machine was since then; nil if the system does not say.
    var calm: Calm? {
        guard let start, let end = Self.now(), end.all > start.all else { return nil }
        let others = max(0, (end.busy - start.busy) - (end.own - start.own)) / (end.all - start.all)
        return Calm(others: others, isToDistrust: others > Calm.limit)
    }

    /// Returns the seconds of all cores, those of the busy ones, and those used by this process and its finished
    /// children.
    private static func now() -> (all: Double, busy: Double, own: Double)? {
        #if os(Linux)
            guard let text = try? String(contentsOfFile: "/proc/stat", encoding: .utf8) else { return nil }
            // user, nice, system, idle, waiting for a disk, interrupts, software interrupts, given to another guest.
            let ticks = text.prefix { $0 != "\n" }.split(separator: " ").dropFirst().prefix(8).compactMap { Double($0) }
            guard ticks.count == 8 else { return nil }
            let second = Double(sysconf(Int32(_SC_CLK_TCK)))
            let all = ticks.reduce(0, +)
            return (all / second, (all - ticks[3] - ticks[4]) / second, used(RUSAGE_SELF) + used(RUSAGE_CHILDREN))
        #else
            return nil
        #endif
    }

    #if os(Linux)
        private static func used(_ who: __rusage_who) -> Double {
            var usage = rusage()
            getrusage(__rusage_who_t(who.rawValue), &usage)
            return [usage.ru_utime, usage.ru_stime].reduce(0) { $0 + Double($1.tv_sec) + Double($1.tv_usec) / 1e6 }
        }
    #endif
}
