import Dispatch
import Foundation

/// A program while it runs.
///
/// Its standard error goes to a file, so that it cannot wait for somebody to read it; so does its standard output, unless
/// the test reads that line by line.
final class Command: @unchecked Sendable {
    private let process = Process()
    private let folder: TemporaryFolder
    private let output = Pipe()
    private var unread = Data()
    private let queue = DispatchQueue(label: "Command")
    private let exit = DispatchSemaphore(value: 0)

    /// The program that this package builds.
    static let accessWatch = Bundle.main.bundleURL.appending(component: "access-watch")

    init(program: URL = accessWatch, _ arguments: [String], input: String? = nil) throws {
        folder = try TemporaryFolder()
        process.executableURL = program
        process.arguments = arguments
        process.standardInput = FileHandle(forReadingAtPath: input ?? "/dev/null")
        process.standardOutput = output
        process.standardError = FileHandle(forWritingAtPath: try folder.file("errors", Data()))
        process.terminationHandler = { [exit] _ in exit.signal() }
        try process.run()
        // A program that hangs is a test that fails: its output ends. It may well be deaf to other signals.
        DispatchQueue.global().asyncAfter(deadline: .now() + 60) { [weak self] in self?.kill() }
    }

    deinit {
        kill()
    }

    private func kill() {
        if process.isRunning { _ = Foundation.kill(process.processIdentifier, SIGKILL) }
    }

    var identifier: Int32 { process.processIdentifier }

    /// What it has written to its standard error so far.
    var errors: String {
        (try? String(contentsOf: folder.url.appending(component: "errors"), encoding: .utf8)) ?? ""
    }

    func interrupt() {
        process.interrupt()
    }

    /// Waits for the next line of its standard output; nil at the end.
    func nextLine() async -> String? {
        await onQueue { [self] in
            while true {
                if let end = unread.firstIndex(of: UInt8(ascii: "\n")) {
                    defer { unread = Data(unread[(end + 1)...]) }
                    return String(decoding: unread[..<end], as: UTF8.self)
                }
                let more = output.fileHandleForReading.availableData
                if more.isEmpty { return nil }
                unread += more
            }
        }
    }

    /// Waits for its end; returns its exit status and the rest of its standard output.
    func finish() async -> (status: Int32, output: String, errors: String) {
        await onQueue { [self] in
            let rest = unread + output.fileHandleForReading.readDataToEndOfFile()
            exit.wait()
            return (process.terminationStatus, String(decoding: rest, as: UTF8.self), errors)
        }
    }

    private func onQueue<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { continuation in
            queue.async { continuation.resume(returning: body()) }
        }
    }
}

/// The summary as the program prints it with `--json`.
struct Report: Decodable, Equatable, Sendable {
    struct Path: Decodable, Equatable, Sendable {
        var path: String
        var requests: Int
        var missed: Int
    }

    var lines: Int
    var malformed: Int
    var requests: Int
    var bytes: Int
    var statusClasses: [String: Int]
    var busiestPaths: [Path]
    var withoutPath: Int

    init(_ text: String) throws {
        self = try JSONDecoder().decode(Report.self, from: Data(text.utf8))
    }
}
