import Dispatch
import Foundation

/// A running program.
///
/// Its standard error goes to a file, so the program never blocks because its errors are not read. Its standard output
/// goes to a pipe, which ``nextLine()`` and ``finish()`` read, unless a test gives another handle.
///
/// Thread safety: one task reads its output; everything else may be used from any thread.
public final class Command: @unchecked Sendable {
    private let process = Process()
    private let folder: TemporaryFolder
    private let output = Pipe()
    private var unread = Data()
    private let queue = DispatchQueue(label: "Command")
    private let exit = DispatchSemaphore(value: 0)

    /// Returns the location of a program that this package builds.
    ///
    /// - Parameter name: The name of the program.
    /// - Returns: The location of the program.
    public static func built(_ name: String) -> URL { Bundle.main.bundleURL.appending(component: name) }

    /// Starts a program.
    ///
    /// - Parameters:
    ///   - program: The location of the program.
    ///   - arguments: The arguments of the program.
    ///   - input: The file to use as standard input; nil for an empty one.
    ///   - other: Where standard output goes; nil for the pipe that ``nextLine()`` and ``finish()`` read.
    /// - Throws: An error if the program cannot be started.
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
        // Kills a program that hangs: its output ends, and the test fails. Other signals might be ignored. The time is
        // long enough for a busy machine.
        DispatchQueue.global().asyncAfter(deadline: .now() + 150) { [weak self] in self?.send(SIGKILL) }
    }

    deinit { send(SIGKILL) }

    /// Whether the program is still running.
    public var isRunning: Bool { process.isRunning }

    /// Sends a signal to the program, unless it has ended.
    ///
    /// - Parameter signal: The signal.
    public func send(_ signal: Int32) {
        if process.isRunning { kill(process.processIdentifier, signal) }
    }

    /// The process identifier of the program.
    public var identifier: Int32 { process.processIdentifier }

    /// What the program has written to its standard error so far.
    public var errors: String {
        (try? String(contentsOf: folder.url.appending(component: "errors"), encoding: .utf8)) ?? ""
    }

    /// Waits for the next line of the program's standard output; returns nil at the end.
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

    /// Waits for the program to end; returns its exit status, the rest of its standard output, and its standard error.
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
