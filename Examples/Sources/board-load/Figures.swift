import Foundation

/// The system's figures for a process.
struct Figures {
    /// The memory that it has now, and the most that it had, in bytes.
    var memory = 0
    var mostMemory = 0
    /// The part of that memory that is its own, without files such as the program.
    var ownMemory = 0
    /// The processor time that it has used, in seconds.
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
        // Counted after the name, which may contain blanks: the times are the 12th and 13th fields.
        let fields = stat.split(separator: ")").last?.split(separator: " ") ?? []
        if fields.count > 12, let user = Double(fields[11]), let system = Double(fields[12]) {
            processor = (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
        }
    }
}
