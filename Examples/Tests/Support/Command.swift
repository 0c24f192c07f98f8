import Dispatch
import Foundation

/// A program while it runs.
///
/// Its standard error goes to a file, so that it cannot wait for somebody to read it; so does its standard output, unless
/// the test reads that line by line.
///
/// Thread safety: its output is read by one task; the rest may be used from any thread.
public final class Command: @unchecked Sendable {
    private let process = Process()
    private let folder: TemporaryFolder
    private let output = Pipe()
    private var unread = Data()
    private let queue = DispatchQueue(label: "Command")
    private let exit = DispatchSemaphore(value: 0)

    /// A program that this package builds.
    ///
    /// - Parameter name: Its name.
    /// - Returns: Where it is.
    public static func built(_ name: String) -> URL { Bundle.main.bundleURL.appending(component: name) }

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - program: Where it is.
    ///   - arguments: What it is called with.
    ///   - input: The file that it reads; nil: an empty one.
    ///   - other: Where its standard output goes; nil: to who waits for its end, or reads it line by line.
    /// - Throws: Why it cannot be started.
    public init(
        program: URL, _ arguments: [String], input: String? = nil, output other: FileHandle? = nil
    ) throws {
        folder = try TemporaryFolder()
        process.executableURL = program
        process.arguments = arguments
        process.standardInput = FileHandle(forReadingAtPath: input ?? "/dev/null")
        process.standardOutput = other ?? output
        process.standardError = FileHandle(forWritingAtPath: try folder.file("errors", Data()))
        process.terminationHandler = { [exit] _ in exit.signal() }
        try process.run()
        if other != nil { try output.fileHandleForWriting.close() }
        // A program that hangs is a test that fails: its output ends. It may well be deaf to other signals. It has the time that
        // a busy machine takes.
        DispatchQueue.global().asyncAfter(deadline: .now() + 150) { [weak self] in self?.send(SIGKILL) }
    }

    deinit { send(SIGKILL) }

    /// Whether it has not ended.
    public var isRunning: Bool { process.isRunning }

    /// Sends it a signal, unless it has ended.
    ///
    /// - Parameter signal: Which.
    public func send(_ signal: Int32) {
        if process.isRunning { kill(process.processIdentifier, signal) }
    }

    /// Its number.
    public var identifier: Int32 { process.processIdentifier }

    /// What it has written to its standard error so far.
    public var errors: String {
        (try? String(contentsOf: folder.url.appending(component: "errors"), encoding: .utf8)) ?? ""
    }

    /// Sends it SIGINT.
    public func interrupt() {
        process.interrupt()
    }

    /// Waits for the next line of its standard output; nil at the end.
    public func nextLine() async -> String? {
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
    public func finish() async -> (status: Int32, output: String, errors: String) {
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
