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
            Prints its address once it listens. Every change that was acknowledged to a client is on disk, and survives \
            any end of the program. SIGINT and SIGTERM shut it down cleanly: it accepts no more commands, ends the \
            streams of its watchers, and saves. Logs go to standard error. GET /metrics returns metrics for Prometheus. \
            GET /health returns the status "ok", "read-only" while the disk accepts no writes, or "failed", with 503, if \
            a board is lost or damaged.

            With --log the boards are not on this server's disk but on a log in NATS JetStream, which any number of \
            servers can share: a change that one of them acknowledges appears on all. While the log does not answer, \
            boards are shown but cannot be changed: a command waits for --patience, streams send an event "access", and \
            GET /health returns the status "read-only". It returns "failed", with 503, if a board cannot be shown, or \
            can no longer change. Each server lists only its own watchers.

            The token of --inspect, and the addresses of --log with any password, can be set in the environment \
            variables LIVE_BOARD_INSPECT and LIVE_BOARD_LOG instead: every user of the machine can read arguments.

            The exit status is 0; 1 after an error, with a line on standard error; or 64 for invalid options.
            """)

    @Option(help: "The address to listen on.") var host = "127.0.0.1"
    @Option(help: "The port to listen on; 0 for any free port.") var port = 8_080
    @Option(
        help: "The folder of the boards, one database each; created if missing. Only one program can use it at a time.")
    var data = "live-board-data"
    @Option(
        help: ArgumentHelp(
            "The NATS servers that store the boards, instead of --data: nats://HOST:PORT[,nats://HOST:PORT…].",
            valueName: "addresses"))
    var log: String?
    @Option(help: "The name of the log and its stream on those servers; programs with the same name share the boards.")
    var stream = "live-board"
    @Option(help: "How many of the NATS servers keep a copy: 1, 3 or 5.") var replicas = 3
    @Option(help: "How long a command waits for the log, in seconds; then the client gets an error.") var patience = 10
    @Option(help: "The maximum number of connections; further clients wait until one ends.")
    var connections = 10_000
    @Option(help: "How long a client may take to read waiting data, in seconds; then it is disconnected.")
    var slow = 60
    @Option(help: "How long the shutdown may take, in seconds.") var deadline = 10
    @Option(help: "How long an unused board stays open, in seconds.") var idle = 60
    @Option(help: "How many boards stay open at once, unless more are in use.") var openBoards = 1_000
    @Option(help: "The maximum number of boards.") var boards = 1_000
    @Option(help: "The maximum number of cards on a board.") var cards = 1_000
    @Option(help: "The approximate maximum size of a board, in bytes.") var boardBytes = 1_000_000
    @Option(help: "How many commands run at once, on all boards together.") var commands = 256
    @Option(help: "How many more commands may wait; beyond that, they are refused.") var waiting = 4_096
    @Option(
        help: ArgumentHelp(
            "Serves the inspector at /inspect to anyone with the token.",
            discussion: "Add ?token= and the token to the address.", valueName: "token"))
    var inspect: String?
    @Option(help: "The lowest level that is logged: trace, debug, info, notice, warning, error or critical.")
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
        if inspect == "" { throw ValidationError("--inspect needs a non-empty token.") }
        if ![1, 3, 5].contains(replicas) { throw ValidationError("--replicas must be 1, 3 or 5.") }
        if !servers.allSatisfy({ $0.hasPrefix("nats://") || $0.hasPrefix("tls://") }) {
            throw ValidationError(
                "--log needs addresses such as nats://127.0.0.1:4222, not \"\(JetStreamLog.shown(servers))\".")
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
                "The server allows fewer connections than requested: the system allows too few open files",
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
            if error.isInUse { throw Failure("\(error)") }
            throw Failure("\(error): the disk may be full or not writable, and a start needs some free space")
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
            logger.notice("Some clients were disconnected")
        } catch let error as IOError {
            let reason = String(cString: strerror(error.errnoCode))
            throw Failure("\(host):\(port): \(error.errnoCode == EADDRINUSE ? "the port is in use" : reason)")
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
