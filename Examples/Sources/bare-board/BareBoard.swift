import ArgumentParser
import Foundation
import Hummingbird
import Metrics
import ServiceLifecycle
import Terminal

/// live-board without FluxCore, to compare the two: an actor for each board, and a stream for each client.
@main
struct BareBoard: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bare-board",
        abstract: "The boards of live-board on plain actors, for comparison.",
        discussion: """
            It has the same commands, the same streams, the same durability and the same HTTP layers. It has no page, \
            does not limit concurrent work, and leaves boards open.
            """)

    @Option(help: "The address to listen on.") var host = "127.0.0.1"
    @Option(help: "The port to listen on; 0 for any free port.") var port = 8_080
    @Option(help: "The folder of the boards; created if missing.") var data = "bare-board-data"

    func run() async throws {
        // A client that disconnects during a write must not end the program.
        signal(SIGPIPE, SIG_IGN)
        raiseFileLimit()

        let metrics = Prometheus()
        MetricsSystem.bootstrap(metrics)
        let boards = try await SharedBoards(folder: data)
        let server = Application(
            router: makeRouter(boards, metrics), server: .http1(configuration: .init(idleTimeout: .seconds(4))),
            configuration: ApplicationConfiguration(address: .hostname(host, port: port)),
            onServerRunning: { [host] channel in
                try? Output.standard.write("http://\(host):\(channel.localAddress?.port ?? 0)\n")
            })
        var group = ServiceGroupConfiguration(
            services: [server, Streams(boards: boards)], gracefulShutdownSignals: [.sigterm, .sigint],
            logger: server.logger)
        group.maximumGracefulShutdownDuration = .seconds(5)
        try await ServiceGroup(configuration: group).run()
    }
}

/// Keeps the streams alive, and ends them when the server shuts down.
private struct Streams: Service {
    let boards: SharedBoards

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                try await Task.sleep(for: .seconds(15))
                await boards.beat()
            }
        }
        await boards.endWatching()
    }
}
