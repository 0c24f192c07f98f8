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
        commandName: "todo-server", abstract: "A server for lists of things to do.",
        discussion: """
            It reads three variables of the environment: HOST, the address that it listens on (127.0.0.1 if not set); PORT \
            (8080); and FOLDER, where the lists are (lists), which is made if it is not there. It prints its address, and \
            SIGTERM or SIGINT ends it in order. The exit status is 0; 1 with a line of the log that says why; or 64 for \
            arguments, of which it takes none.
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
            throw Failure(description: "PORT has to be a number up to 65535")
        }
        let folder = settings["FOLDER"] ?? "lists"
        try? FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        guard !folder.isEmpty, FileManager.default.isWritableFile(atPath: folder + "/.") else {
            throw Failure(description: "FOLDER has to be a folder that can be written to, and \"\(folder)\" is none")
        }

        let lists = Lists(folder: folder, logger: logger)
        let server = Application(
            router: makeRouter(lists), server: .http1WithContinue(.init(idleTimeout: .seconds(60))),
            configuration: ApplicationConfiguration(address: .hostname(host, port: port)),
            onServerRunning: { channel in
                let name = host.contains(":") ? "[\(host)]" : host  // An address of IPv6.
                print("http://\(name):\(channel.localAddress?.port ?? port)")
                fflush(nil)  // A pipe would get it much later.
            }, logger: logger)
        var configuration = ServiceGroupConfiguration(
            services: [server], gracefulShutdownSignals: [.sigterm, .sigint], logger: logger)
        configuration.maximumGracefulShutdownDuration = .seconds(10)
        let group = ServiceGroup(configuration: configuration)
        let served = await Task { try await group.run() }.result

        // No request is under way any more: the lists are saved and put away.
        let report = await lists.shutdown(within: .seconds(10))
        let unsaved = Set(report.failed.keys).union(report.late).map(\.description).sorted()
        if !unsaved.isEmpty {
            throw Failure(description: "not all lists are saved: \(unsaved.joined(separator: ", "))")
        }
        do {
            try served.get()
        } catch {
            throw Failure(description: "\(host):\(port): \(error)")
        }
    }
}

/// Why the server ends, as the last line of the log.
struct Failure: Error, CustomStringConvertible {
    let description: String
}

extension HTTPServerBuilder {
    /// A server that lets clients go on who, before they send a body, wait to be told that they may.
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
