import Foundation

/// What the system says of a process.
struct Figures {
    /// How much memory it has now, and had at most, in bytes.
    var memory = 0
    var mostMemory = 0
    /// How much of that is its own, and not that of files such as the program.
    var ownMemory = 0
    /// The time that it has spent on processors, in seconds.
    var processor = 0.0

    init(of process: Int32) {
        let status = (try? String(contentsOfFile: "/proc/\(process)/status", encoding: .utf8)) ?? ""
        for line in status.split(separator: "\n") {
            let words = line.split(whereSeparator: \.isWhitespace)
            guard words.count > 1, let kilobytes = Int(words[1]) else { continue }
            if words[0] == "VmRSS:" { memory = kilobytes * 1_024 }
            if words[0] == "VmHWM:" { mostMemory = kilobytes * 1_024 }
            if words[0] == "RssAnon:" { ownMemory = kilobytes * 1_024 }
        }
        let stat = (try? String(contentsOfFile: "/proc/\(process)/stat", encoding: .utf8)) ?? ""
        // After the name, which may have blanks: the times are the 12th and 13th.
        let fields = stat.split(separator: ")").last?.split(separator: " ") ?? []
        if fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) {
            processor = (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
        }
    }
}
