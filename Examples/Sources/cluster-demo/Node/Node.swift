import ArgumentParser
import FluxCore
import FluxReplication
import FluxRouting
import Foundation
import Hummingbird
import JetStreamLog
import Logging
import ServiceLifecycle

/// One node: replicas of the keys that clients request, over HTTP.
struct Node: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "node", abstract: "One node, as the demo starts it.", shouldDisplay: false)

    @Option(help: "The port to listen on.") var port: Int
    @Option(help: "The addresses of the NATS servers, separated by commas.") var log: String
    @Option(help: "The stream.") var stream: String
    @Option(help: "The number of entries after which a snapshot is saved.") var snapshotEvery = 400

    func run() async throws {
        let servers = log.split(separator: ",").map(String.init)
        let logs = try await patiently { () throws(FluxSharedLogError) in
            try await JetStreamLog(servers: servers, stream: stream, timeout: .seconds(2))
        }
        let ledgers = Ledgers(idle: .seconds(3_600), limit: 1_000) { key in
            try await FluxReplica<Ledger>.joined(
                log: logs.log(for: key), initialState: Ledger(), coding: Ledger.coding, checkEvery: 100,
                snapshotEvery: snapshotEvery)
        } close: { replica in
            await replica.close()
        }
        let application = Application(
            router: Self.router(ledgers),
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: port)),
            logger: Logger(label: "node"))
        var configuration = ServiceGroupConfiguration(
            services: [application], gracefulShutdownSignals: [.sigterm, .sigint], logger: Logger(label: "node"))
        configuration.maximumGracefulShutdownDuration = .seconds(3)
        try await ServiceGroup(configuration: configuration).run()
        _ = await ledgers.shutdown(within: .seconds(2))
    }

    /// Creates the routes, whose answers are plain text: numbers separated by spaces.
    private static func router(_ ledgers: Ledgers) -> Router<BasicRequestContext> {
        let router = Router()
        router.get("health") { _, _ in HTTPResponse.Status.ok }
        router.post("keys/:key/:item") { _, context in
            let key = try context.parameters.require("key")
            let item = try context.parameters.require("item", as: UInt64.self)
            return await answer {
                try await ledgers.with(key) { replica in
                    let position = try await replica.dispatch(action: Ledger.Action(item: item), within: .seconds(10))
                    guard let index = replica.store.state.items.lastIndex(of: item) else {
                        return (.internalServerError, "the action was applied, but is missing")
                    }
                    return (.ok, "\(index) \(position)")
                }
            }
        }
        router.get("keys/:key") { request, context in
            let key = try context.parameters.require("key")
            let client = request.uri.queryParameters["client"].flatMap { UInt32(String($0)) } ?? 0
            let isFresh = request.uri.queryParameters["fresh"] != nil
            return await answer {
                try await ledgers.with(key) { replica in
                    if isFresh { try await replica.upToDate(within: .seconds(10)) }
                    let state = replica.store.state
                    return (.ok, "\(state.digest.count) \(state.digest.sum) \(state.last[client] ?? 0)")
                }
            }
        }
        router.get("keys/:key/all") { _, context in
            let key = try context.parameters.require("key")
            return await answer {
                try await ledgers.with(key) { replica in
                    try await replica.upToDate(within: .seconds(10))
                    return (.ok, replica.store.state.items.map(String.init).joined(separator: " "))
                }
            }
        }
        return router
    }

    /// Answers a request; the status tells the client whether a failed action may still be applied.
    private static func answer(_ body: () async throws -> (HTTPResponse.Status, String)) async -> Response {
        let (status, text): (HTTPResponse.Status, String)
        do {
            (status, text) = try await body()
        } catch FluxReplicaError.unconfirmed(let reason) {
            (status, text) = (.gatewayTimeout, reason)
        } catch {
            (status, text) = (.serviceUnavailable, "\(error)")
        }
        return Response(status: status, body: ResponseBody(byteBuffer: ByteBuffer(string: text)))
    }
}

/// The replicas of a node, each opened on demand.
typealias Ledgers = FluxFamily<String, FluxReplica<Ledger>>

/// Repeats a call for up to a minute while the log is unavailable, as during an election.
func patiently<Value>(_ body: () async throws(FluxSharedLogError) -> Value) async throws(FluxSharedLogError) -> Value {
    let deadline = ContinuousClock.now + .seconds(60)
    while true {
        do {
            return try await body()
        } catch .unavailable where ContinuousClock.now < deadline && !Task.isCancelled {
            try? await Task.sleep(for: .milliseconds(200))
        }
    }
}
