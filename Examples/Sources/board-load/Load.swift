import Foundation
import NIOCore
import NIOPosix
import ProgramTesting

/// A program under load, from its start to its end.
struct Load {
    struct Settings: Sendable {
        var clients, silent, boards, rate, seconds: Int
    }

    struct Outcome {
        var sent = Crew.Sent()
        var findings = Findings()
        var memoryPerClient = 0.0
        /// What it holds at the end, without files such as the program, and the most that it had in all.
        var heldMemory = 0
        var mostMemory = 0
        /// The processor time of the program while commands were sent, in seconds.
        var processor = 0.0
    }

    let program: URL
    let settings: Settings

    func run() async throws -> Outcome {
        let folder = try TemporaryFolder()
        let data = folder.url.appending(component: "data").path
        let command = try Command(program: program, ["--port", "0", "--data", data])
        let threads = MultiThreadedEventLoopGroup(numberOfThreads: 2)
        do {
            let outcome = try await run(command, threads.next(), threads.next())
            try await threads.shutdownGracefully()
            return outcome
        } catch {
            try? await threads.shutdownGracefully()
            command.send(SIGKILL)
            throw Failure("\(program.lastPathComponent): \(error) \(command.errors.suffix(500))")
        }
    }

    private func run(_ command: Command, _ watching: any EventLoop, _ calling: any EventLoop) async throws -> Outcome {
        guard let port = await command.nextLine()?.split(separator: ":").last.flatMap({ Int($0) }) else {
            throw Failure("it printed no address to connect to")
        }
        let server = try SocketAddress(ipAddress: "127.0.0.1", port: port)
        let commands = Commands(settings.rate * settings.seconds)
        let crew = Crew(commands: commands, server: server, on: calling)
        let targets = try await makeBoards(crew)

        var outcome = Outcome()
        let crowd = Crowd(targets.map(\.path), commands: commands, on: watching)
        let before = Figures(of: command.identifier)
        try await crowd.connect(settings.clients, silent: settings.silent, to: server)
        try await crowd.isThere()
        let connected = Figures(of: command.identifier)
        outcome.memoryPerClient = Double(connected.memory - before.memory) / Double(settings.clients)

        outcome.sent = try await crew.send(settings.rate * settings.seconds, rate: settings.rate, to: targets)
        let states = try await targets.map(\.path).asyncMap { path in
            try JSONDecoder().decode(State.self, from: try await crew.ask(.GET, path))
        }
        try await crowd.isUpToDate(states.map(\.revision))
        let after = Figures(of: command.identifier)
        (outcome.heldMemory, outcome.mostMemory) = (after.ownMemory, after.mostMemory)
        outcome.processor = after.processor - connected.processor
        outcome.findings = try await crowd.findings(states.map(\.board))

        try await crowd.close()
        try await crew.close()
        command.send(SIGTERM)
        let end = await command.finish()
        if end.status != 0 { throw Failure("it has ended with status \(end.status)") }
        return outcome
    }

    private struct State: Decodable {
        var revision: Int
        var board: Board
    }

    private struct Made: Decodable { var id: String }

    /// Creates the boards, each with two lists of three cards.
    private func makeBoards(_ crew: Crew) async throws -> [Target] {
        try await (0..<settings.boards).asyncMap { number in
            func make(_ path: String, _ body: String) async throws -> String {
                try JSONDecoder().decode(Made.self, from: try await crew.ask(.POST, path, body)).id
            }
            var target = Target(path: "/boards/\(try await make("/boards", #"{"title":"Board"}"#))")
            let commands = "\(target.path)/commands?client=the-maker"
            for _ in 0..<2 {
                let list = try await make(commands, #"{"type":"addList","title":"List"}"#)
                target.lists.append(list)
                for _ in 0..<3 {
                    let body = #"{"type":"addCard","list":"\#(list)","title":"A card with some words on it"}"#
                    target.cards.append(try await make(commands, body))
                }
            }
            return target
        }
    }
}

extension Sequence where Element: Sendable, Self: Sendable {
    /// Transforms all elements concurrently, and keeps their order.
    func asyncMap<Value: Sendable>(_ transform: @escaping @Sendable (Element) async throws -> Value) async throws
        -> [Value]
    {
        try await withThrowingTaskGroup(of: (Int, Value).self) { group in
            for (number, element) in enumerated() { group.addTask { (number, try await transform(element)) } }
            var values: [(Int, Value)] = []
            for try await value in group { values.append(value) }
            return values.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }
}

/// Why the load could not be measured, as one line.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
