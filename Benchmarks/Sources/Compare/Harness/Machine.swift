import Foundation

/// The machine of a run, without which its numbers mean little.
struct Machine: Codable {
    let cpu: String
    let cores: Int
    let system: String
    let swift: String
    let date: String

    var text: String { "\(cpu), \(cores) cores · \(system) · \(swift) · \(date)" }

    static func current() -> Machine {
        Machine(
            cpu: cpu,
            cores: ProcessInfo.processInfo.activeProcessorCount,
            system: ProcessInfo.processInfo.operatingSystemVersionString,
            swift: swift,
            date: Date.now.formatted(.iso8601)
        )
    }

    private static var cpu: String {
        #if os(Linux)
            let info = (try? String(contentsOfFile: "/proc/cpuinfo", encoding: .utf8)) ?? ""
            let line = info.split(separator: "\n").first { $0.hasPrefix("model name") }
            return line?.split(separator: ":").last?.trimmingCharacters(in: .whitespaces) ?? "unknown CPU"
        #else
            return output(of: ["sysctl", "-n", "machdep.cpu.brand_string"]) ?? "unknown CPU"
        #endif
    }

    private static var swift: String {
        let version = output(of: ["swift", "--version"])?.split(separator: "\n").first { $0.contains("Swift version") }
        return version.map(String.init) ?? "unknown Swift"
    }

    private static func output(of command: [String]) -> String? {
        let process = Process()
        let pipe = Pipe()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = command
        process.standardOutput = pipe
        process.standardError = FileHandle.nullDevice
        guard (try? process.run()) != nil else { return nil }
        let data = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return String(decoding: data, as: UTF8.self).trimmingCharacters(in: .whitespacesAndNewlines)
    }
}
