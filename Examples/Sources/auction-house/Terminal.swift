import ArgumentParser
import Dispatch
import Foundation

/// Where lines go, each at once and in one piece.
struct Output: Sendable {
    static let standard = Output(descriptor: STDOUT_FILENO, name: "standard output")

    private let descriptor: Int32
    private let name: String

    private init(descriptor: Int32, name: String) { (self.descriptor, self.name) = (descriptor, name) }

    init(appendingTo path: String) throws {
        self.init(descriptor: open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0o600), name: path)
        if descriptor < 0 { throw Failure(system: path) }
    }

    func write(_ text: String) throws {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Foundation.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0 && errno != EINTR { throw Failure(system: name) }
            rest = rest.dropFirst(max(0, count))
        }
    }
}

/// What is told to the user, as one line.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }

    /// What the system says of a file.
    init(system name: String) { self.init("\(name): \(String(cString: strerror(errno)))") }
}

/// Runs something; what it throws is one line on standard error, and exit status 1.
func reporting(_ body: () async throws -> Void) async throws {
    // A pipe that nobody reads ends the program quietly, as a kill would.
    signal(SIGPIPE, SIG_DFL)
    do {
        try await body()
    } catch {
        FileHandle.standardError.write(Data("auction-house: \(error)\n".utf8))
        throw ExitCode(1)
    }
}

/// Runs something at the first SIGINT or SIGTERM; the second ends the program, should the first not do.
struct Interrupt {
    private let sources: [any DispatchSourceSignal]

    init(_ action: @escaping @Sendable () -> Void) {
        sources = [SIGINT, SIGTERM].map { number in
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler {
                signal(number, SIG_DFL)
                action()
            }
            source.resume()
            return source
        }
    }

    func stop() {
        for source in sources { source.cancel() }
    }
}
