import ArgumentParser
import FluxInspector
import Foundation
import Hummingbird
import HummingbirdCore
import JetStreamLog
import Logging
import Metrics
import NIOCore
import ServiceLifecycle
import Terminal

@main
struct LiveBoard: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "live-board",
        abstract: "A board of lists and cards that several people change at the same time, in their browsers.",
        discussion: """
            Prints its address once it listens. Everything that was acknowledged to a client is on disk, and is there \
            again after any end of the program. SIGINT and SIGTERM close it in order: it takes no more commands, ends \
            the streams of those who watch, and saves. Logs go to standard error, GET /metrics has figures for \
            Prometheus, and GET /health answers while it runs, with the status "ok"; or "read-only" while the disk takes \
            nothing.

            With --log the boards are not on disk here, but on a log in NATS JetStream, and any number of servers have the \
            same: what one acknowledges shows at all of them. While the log does not answer, boards are shown and cannot be \
            changed: a command waits for --patience, streams tell it by an event "access", and GET /health has the status \
            "read-only" instead of "ok"; it has "failed", and 503, where a board cannot be shown as it is. Who is here is \
            told of each server by itself.

            The token of --inspect and the addresses of --log, with a password in them, may stand in LIVE_BOARD_INSPECT and \
            LIVE_BOARD_LOG of the environment instead: arguments are read by everybody on the machine.

            The exit status is 0; 1 with a line on standard error; or 64 for options that are none.
            """)

    @Option(help: "The address to listen at.") var host = "127.0.0.1"
    @Option(help: "The port to listen at; 0: any that is free.") var port = 8_080
    @Option(
        help: "The folder of the boards, one database each; made if it is not there. One program uses it at a time.")
    var data = "live-board-data"
    @Option(
        help: ArgumentHelp(
            "The NATS servers that have the boards, instead of --data: nats://HOST:PORT[,nats://HOST:PORT…].",
            valueName: "addresses"))
    var log: String?
    @Option(help: "The name of the log there, and of its stream; who gives the same has the same boards.")
    var stream = "live-board"
    @Option(help: "How many of the NATS servers have everything: 1, 3 or 5.") var replicas = 3
    @Option(help: "How long a command waits for the log, in seconds; then its client is told so.") var patience = 10
    @Option(help: "How many connections there are at once; who comes then waits until one ends.")
    var connections = 10_000
    @Option(help: "How long a client may take for what waits for it to read, in seconds; then it is cut off.")
    var slow = 60
    @Option(help: "How long closing may take, in seconds.") var deadline = 10
    @Option(help: "How long a board that nobody watches stays open, in seconds.") var idle = 60
    @Option(help: "How many boards are open at once, as long as nobody is in more.") var openBoards = 1_000
    @Option(help: "How many boards there may be.") var boards = 1_000
    @Option(help: "How many cards there may be on a board.") var cards = 1_000
    @Option(help: "How many bytes there may be on a board, about.") var boardBytes = 1_000_000
    @Option(help: "How many commands are under way at once, on all boards together.") var commands = 256
    @Option(help: "How many more may wait for that; who comes then is told to try again.") var waiting = 4_096
    @Option(
        help: ArgumentHelp(
            "Shows at /inspect what happens inside, to whoever knows the token.",
            discussion: "Open it with ?token= and the token.", valueName: "token"))
    var inspect: String?
    @Option(help: "What is logged: trace, debug, info, notice, warning, error or critical.")
    var logLevel = Logger.Level.notice

    mutating func validate() throws {
        readEnvironment()
        for (name, value, least) in [
            ("port", port, 0), ("deadline", deadline, 1), ("idle", idle, 0), ("open-boards", openBoards, 0),
            ("boards", boards, 1), ("cards", cards, 0), ("board-bytes", boardBytes, 1), ("commands", commands, 1),
            ("waiting", waiting, 0), ("patience", patience, 1), ("slow", slow, 1),
            ("connections", connections, 1),
        ] where value < least {
            throw ValidationError("--\(name) must be at least \(least).")
        }
        if data.isEmpty { throw ValidationError("--data needs a folder.") }
        if inspect == "" { throw ValidationError("--inspect needs a token that is not empty.") }
        if ![1, 3, 5].contains(replicas) { throw ValidationError("--replicas must be 1, 3 or 5.") }
        if !servers.allSatisfy({ $0.hasPrefix("nats://") || $0.hasPrefix("tls://") }) {
            throw ValidationError(
                "--log needs addresses such as nats://127.0.0.1:4222, and has \"\(JetStreamLog.shown(servers))\".")
        }
        if port > 65_535 { throw ValidationError("--port must be at most 65535.") }
    }

    /// The addresses of the log.
    private var servers: [String] {
        log?.split(separator: ",", omittingEmptySubsequences: false).map(String.init) ?? []
    }

    /// Reads secrets from the environment, because other users of the machine can see the arguments of all programs.
    private mutating func readEnvironment() {
        let environment = ProcessInfo.processInfo.environment
        // An empty variable counts as unset.
        let (addresses, token) = (environment["LIVE_BOARD_LOG"] ?? "", environment["LIVE_BOARD_INSPECT"] ?? "")
        log = log ?? (addresses.isEmpty ? nil : addresses)
        inspect = inspect ?? (token.isEmpty ? nil : token)
    }

    func run() async throws {
        do {
            try await serve()
        } catch {
            try? Output.errors.write("live-board: \(error)\n")
            throw ExitCode(1)
        }
    }

    /// The numbers of connections, and of boards with two files each, that fit the system's limit of open files.
    ///
    /// Without a free file descriptor, a connection can neither be accepted nor ignored: accepting it would be retried
    /// without end. If no file at all can be opened, Dispatch on Linux, which reads its threads' state from files,
    /// stops the program.
    private func fitted(to files: Int) -> (connections: Int, boards: Int) {
        // Each core has a thread for reading and writing, which uses three files.
        let rest = max(4, files - 64 - 3 * ProcessInfo.processInfo.processorCount)
        if log != nil { return (min(connections, rest), openBoards) }
        // Each connection may use a different board, regardless of the limit on boards that are not in use.
        let connections = min(connections, max(rest - 2 * min(boards, rest), rest / 3))
        return (connections, min(openBoards, (rest - connections) / 2))
    }

    private func serve() async throws {
        // A client that disconnects while something is sent to it must not end the program.
        signal(SIGPIPE, SIG_IGN)
        let files = raiseFileLimit()
        let level = logLevel
        LoggingSystem.bootstrap { label in
            var handler = StreamLogHandler.standardError(label: label)
            handler.logLevel = level
            return handler
        }
        let logger = Logger(label: "live-board")
        let (connections, openBoards) = fitted(to: files)
        if connections < self.connections {
            logger.warning(
                "There may be fewer connections than asked for: the system allows too few open files",
                metadata: ["files": "\(files)", "connections": "\(connections)"])
        }
        let metrics = Prometheus()
        MetricsSystem.bootstrap(metrics)

        let inspection = inspect.map { Inspection(inspector: FluxInspector(), token: $0) }
        let place =
            if log == nil {
                try Place(folder: data)
            } else {
                try await Place(
                    servers: servers, stream: stream, replicas: replicas, patience: .seconds(patience), logger: logger)
            }
        let settings = Boards.Settings(
            idle: .seconds(idle), open: openBoards, boards: self.boards,
            limits: BoardLimits(cards: cards, bytes: boardBytes), commands: commands, waiting: waiting,
            inspector: inspection?.inspector)
        let boards: Boards
        do {
            boards = try await Boards(settings, at: place, logger: logger)
        } catch let error as Unsaved {
            throw Failure("\(error): the disk may be full, or not writable, and a start needs some room")
        }
        let server = Application(
            router: Routes(boards: boards, metrics: metrics, inspection: inspection).makeRouter(),
            // The idle timeout also closes a connection on which no request head arrives.
            server: .http1(.init(idleTimeout: .seconds(4)), slow: .seconds(Int64(slow))),
            configuration: ApplicationConfiguration(
                address: .hostname(host, port: port), serverName: "live-board",
                availableConnectionsDelegate: .maximum(connections, logger: logger)),
            onServerRunning: { [host] channel in
                let port = channel.localAddress?.port ?? 0
                let name = host.contains(":") ? "[\(host)]" : host
                do { try Output.standard.write("http://\(name):\(port)\n") } catch { logger.error("\(error)") }
            },
            logger: logger)
        // Services are shut down in reverse order: first the streams, then the server, which waits for them.
        var group = ServiceGroupConfiguration(
            services: [Last(), server, Streams(boards: boards)], gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger)
        // Half of the time is for clients that are slow to leave, the rest for the boards.
        group.maximumGracefulShutdownDuration = .seconds(deadline) / 2
        do {
            try await ServiceGroup(configuration: group).run()
        } catch is CancellationError {
            logger.notice("Some clients were cut off")
        } catch let error as IOError {
            throw Failure("\(host):\(port): \(error)")
        }
        try await boards.close(within: .seconds(deadline) / 2)
    }
}

extension HTTPServerBuilder {
    /// An HTTP/1 server that answers `Expect: 100-continue`, and disconnects clients that read too slowly.
    static func http1(_ configuration: HTTP1Channel.Configuration, slow: TimeAmount) -> HTTPServerBuilder {
        HTTPServerBuilder { respond in
            let http = HTTP1Channel(
                responder: { (request, writer: consuming ResponseWriter, channel) in
                    if request.headers[.expect]?.lowercased() == "100-continue" {
                        try await writer.writeInformationalHead(HTTPResponse(status: .continue))
                    }
                    try await respond(request, writer, channel)
                }, configuration: configuration)
            return WatchedChannel(http: http, limit: slow)
        }
    }
}

/// Ends normally after all other services; fails if their time was up, which no other service reports.
private struct Last: Service {
    func run() async throws { try await gracefulShutdown() }
}

/// Keeps the watchers' streams alive, and ends them when the server shuts down.
private struct Streams: Service {
    let boards: Boards

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: .seconds(15))
                boards.beat()
            }
        }
        boards.endWatching()
    }
}

extension Logger.Level: @retroactive ExpressibleByArgument {}
