import ArgumentParser
import FluxRouting
import Foundation
import Hummingbird
import HummingbirdCore
import Logging
import ServiceLifecycle

@main
struct TodoServer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "todo-server", abstract: "A server for to-do lists.",
        discussion: """
            It reads three environment variables: HOST, the address to listen on (127.0.0.1 if not set); PORT \
            (8080); and FOLDER, the folder of the lists (lists), which is created if missing. It prints its address \
            once it listens. SIGTERM or SIGINT shuts it down cleanly. The exit status is 0; 1 after an error, with \
            the reason in the log; or 64 if it is given arguments, because it takes none.
            """)

    func run() async throws {
        let logger = Logger(label: "todo-server")
        do {
            try await serve(logger)
        } catch {
            logger.critical("\(error)")
            throw ExitCode.failure
        }
    }

    private func serve(_ logger: Logger) async throws {
        let settings = ProcessInfo.processInfo.environment
        let host = settings["HOST"] ?? "127.0.0.1"
        guard let port = UInt16(settings["PORT"] ?? "8080").map(Int.init) else {
            throw Failure(description: "PORT must be a number up to 65535")
        }
        let folder = settings["FOLDER"] ?? "lists"
        try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        guard !folder.isEmpty, FileManager.default.isWritableFile(atPath: folder + "/.") else {
            throw Failure(description: "FOLDER must be a writable folder, but \"\(folder)\" is not")
        }

        let lists = Lists(folder: folder, logger: logger)
        let server = Application(
            router: makeRouter(lists), server: .http1WithContinue(.init(idleTimeout: .seconds(60))),
            configuration: ApplicationConfiguration(address: .hostname(host, port: port)),
            onServerRunning: { channel in
                let name = host.contains(":") ? "[\(host)]" : host  // An IPv6 address.
                print("http://\(name):\(channel.localAddress?.port ?? port)")
                fflush(nil)  // Otherwise a pipe would receive it much later.
            }, logger: logger)
        var configuration = ServiceGroupConfiguration(
            services: [server], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        configuration.maximumGracefulShutdownDuration = .seconds(10)
        let group = ServiceGroup(configuration: configuration)
        let served = await Task { try await group.run() }.result

        // No request is in progress any more, so the lists can be saved and closed.
        let report = await lists.shutdown(within: .seconds(10))
        let unsaved = Set(report.failed.keys).union(report.late).map(\.description).sorted()
        if !unsaved.isEmpty {
            throw Failure(description: "some lists are not saved: \(unsaved.joined(separator: ", "))")
        }
        do {
            try served.get()
        } catch {
            throw Failure(description: "\(host):\(port): \(error)")
        }
    }
}

/// Why the server ends: the last line of its log.
struct Failure: Error, CustomStringConvertible {
    let description: String
}

extension HTTPServerBuilder {
    /// An HTTP/1 server that answers `Expect: 100-continue`, so that waiting clients send their bodies.
    static func http1WithContinue(_ configuration: HTTP1Channel.Configuration) -> HTTPServerBuilder {
        HTTPServerBuilder { respond in
            HTTP1Channel(
                responder: { (request, writer: consuming ResponseWriter, channel) in
                    if request.headers[.expect]?.lowercased() == "100-continue" {
                        try await writer.writeInformationalHead(HTTPResponse(status: .continue))
                    }
                    try await respond(request, writer, channel)
                }, configuration: configuration)
        }
    }
}
