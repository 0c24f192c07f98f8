import FluxCore
import Foundation
import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import ServiceLifecycle

/// The context of requests for a router that has none of its own; it knows the address of the peer.
///
/// Thread safety: a value.
public struct FluxInspectorContext: RequestContext, RemoteAddressRequestContext {
    /// The data that Hummingbird keeps with a request.
    public var coreContext: CoreRequestContextStorage
    /// The address of the peer that sent the request.
    public let remoteAddress: SocketAddress?

    /// Creates the context of one request.
    ///
    /// - Parameter source: What Hummingbird knows about the request.
    public init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        remoteAddress = source.channel.remoteAddress
    }
}

extension FluxInspector {
    /// Adds the pages to a router.
    ///
    /// Without a token the pages are for this machine alone. Both the peer and the requested host must be loopback, so
    /// a page of another site cannot reach them through a host name that resolves to this machine. A request is refused
    /// if a proxy marks it as forwarded. A local proxy that does not, such as nginx in its default configuration, looks
    /// like this machine: behind one, give a token. With a token every request needs it: as
    /// `Authorization: Bearer TOKEN`, or as `?token=TOKEN` of the first page, which sets a cookie for the requests that
    /// follow.
    ///
    /// | `GET`, `HEAD`         | response                                                                             |
    /// |-----------------------|--------------------------------------------------------------------------------------|
    /// | *path*                | the page; its script and style are next to it                                        |
    /// | *path*`/stores`       | the open stores: id, name, type of the state, dispatcher, revision                   |
    /// | *path*`/stores/ID`    | the current state of a store, as text                                                |
    /// | *path*`/stream`       | server-sent events: `stores` as they open and close, `rows` with what happened       |
    /// | *path*`/rows/N`       | all arguments of a row, and the change that it made                                  |
    /// | *path*`/rows/N/state` | the state that it led to, as text                                                    |
    ///
    /// Anything that is no longer kept is answered with 404, and a request with a body with 413.
    ///
    /// - Parameters:
    ///   - router: The router, or a group of it. Its context has to know the address of the peer, as
    ///     ``FluxInspectorContext`` does.
    ///   - path: The path of the pages.
    ///   - token: The token that each request needs; nil: the pages are for this machine alone, and for anyone let
    ///     through by a proxy on it.
    public func mount<Context: RemoteAddressRequestContext>(
        on router: some RouterMethods<Context>, at path: RouterPath = "/inspect", token: String? = nil
    ) {
        let guardian = Guardian<Context>(token: token)
        let group = router.group(path).add(middleware: guardian)
        func get(
            _ path: RouterPath, _ answer: @escaping @Sendable (Request, Context) async throws -> Response
        ) {
            group.get(path, use: answer)
            group.head(path) { try await answer($0, $1).createHeadResponse() }
        }
        get("") { request, _ in guardian.admitting(request, to: Self.page(asked: request.uri.path)) }
        get("inspector.css") { _, _ in Self.file(PackageResources.inspector_css, "text/css; charset=utf-8") }
        get("inspector.js") { _, _ in Self.file(PackageResources.inspector_js, "text/javascript; charset=utf-8") }
        get("inspector.svg") { _, _ in Self.file(PackageResources.inspector_svg, "image/svg+xml") }
        get("stores") { _, _ in try Self.json(self.openStores) }
        get("stores/:id") { request, context in
            let store = try self.recorder.stores.all[context.parameters.require("id", as: Int.self)]
            guard let store else { throw HTTPError(.notFound, message: "This store is no longer open.") }
            return Self.answer(to: request, Self.plain) { try await self.rendering.state(store.info.state) }
        }
        get("rows/:number") { request, context in
            let row = try self.row(context)
            return Self.answer(to: request, "application/json") {
                try String(decoding: JSONEncoder().encode(await self.rendering.detail(of: row)), as: UTF8.self)
            }
        }
        get("rows/:number/state") { request, context in
            guard case .applied(let applied) = try self.row(context).content, let states = applied.states else {
                throw HTTPError(.notFound, message: "No state was announced with this row.")
            }
            return Self.answer(to: request, Self.plain) { try await self.rendering.state(states.after) }
        }
        get("stream") { request, _ in self.stream(to: request) }
    }

    /// Serves the pages on a port of this machine until the task is cancelled, for a program that is not a server.
    ///
    /// - Parameters:
    ///   - port: The port on 127.0.0.1; 0 for any free one.
    ///   - running: Called with the port once the server listens.
    /// - Throws: An error if the server cannot listen.
    public func serve(port: Int, running: @escaping @Sendable (_ port: Int) async -> Void) async throws {
        let router = Router(context: FluxInspectorContext.self)
        mount(on: router)
        var logger = Logger(label: "FluxInspector")
        logger.logLevel = .critical
        let application = Application(
            router: router, configuration: .init(address: .hostname("127.0.0.1", port: port)),
            onServerRunning: { channel in await running(channel.localAddress?.port ?? port) }, logger: logger)
        try await application.run()
    }

    // MARK: - Responses

    /// An open store as the page shows it.
    private struct ShownStore: Encodable {
        var id: Int
        var name: String
        var type: String
        var dispatcher: String?
        var revision: UInt64
    }

    private var openStores: [ShownStore] {
        recorder.stores.all.sorted { $0.key < $1.key }.map { id, store in
            ShownStore(
                id: id, name: store.name ?? store.info.description, type: "\(store.info.stateType)",
                dispatcher: store.dispatcher, revision: store.revision)
        }
    }

    private func row(_ context: some RequestContext) throws -> Row {
        if let row = recorder.row(try context.parameters.require("number", as: UInt64.self)) { return row }
        throw HTTPError(.notFound, message: "This row is no longer kept.")
    }

    /// The page; it names its files relative to the last component of its own address.
    private static func page(asked path: String) -> Response {
        let folder = path.hasSuffix("/") ? "" : path.split(separator: "/").last.map { "\($0)/" } ?? ""
        let page = String(decoding: PackageResources.inspector_html, as: UTF8.self)
        return file(Array(page.replacing("MOUNT/", with: folder).utf8), "text/html; charset=utf-8")
    }

    private static func json(_ value: some Encodable) throws -> Response {
        file(Array(try JSONEncoder().encode(value)), "application/json")
    }

    private static var plain: String { "text/plain; charset=utf-8" }

    /// A response that may take a while; it is not created if the client has gone meanwhile.
    private static func answer(
        to request: Request, _ type: String, _ text: @escaping @Sendable () async throws -> String
    ) -> Response {
        // Noticing that the client goes means reading beyond the request, so the connection cannot serve another one.
        Response(
            status: .ok, headers: [.contentType: type, .connection: "close"],
            body: ResponseBody { writer in
                // Safe: only one task uses it, and that task is awaited.
                nonisolated(unsafe) var writer = writer
                try await request.body.consumeWithCancellationOnInboundClose { _ in
                    try await writer.write(ByteBuffer(string: text()))
                    try await writer.finish(nil)
                }
            })
    }

    private static func file(_ bytes: [UInt8], _ type: String) -> Response {
        Response(status: .ok, headers: [.contentType: type], body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes)))
    }

    // MARK: - The stream

    /// Rows of one run of the program, which follow those already sent.
    private struct Rows: Encodable {
        var run: String
        var missed: UInt64
        var rows: [Line]
    }

    /// Streams what happens for as long as the client reads.
    private func stream(to request: Request) -> Response {
        // The id includes the run, because after a restart of the program its rows are counted from 1 again.
        let last = HTTPField.Name("Last-Event-ID").flatMap { request.headers[$0] }?.split(separator: "-")
        let known = last.flatMap { $0.first == recorder.run[...] ? $0.last.flatMap { UInt64($0) } : nil }
        let body = ResponseBody { [self] writer in
            // Safe: only one task uses it, and that task is awaited.
            nonisolated(unsafe) let writer = writer
            try await request.body.consumeWithCancellationOnInboundClose { _ in
                // A server that shuts down waits for its responses, and this one never ends by itself.
                try await cancelWhenGracefulShutdown { try await self.tell(behind: known, to: writer) }
            }
        }
        return Response(status: .ok, headers: [.contentType: "text/event-stream"], body: body)
    }

    /// Sends new rows and stores ten times a second, or without a pause while there may be more rows.
    ///
    /// Polling sends rows in batches, and a dispatch has no one to wake.
    private func tell(behind number: UInt64?, to writer: any ResponseBodyWriter) async throws {
        var writer = writer
        var (number, stamp, silence) = (number, -1, 0)
        let most: UInt64 = 200
        try await writer.write(ByteBuffer(string: "retry: 1000\n\n"))
        while !Task.isCancelled {
            var text = ""
            let stores = recorder.stores.stamp
            if stores != stamp { text += try event("stores", openStores) }
            let (rows, missed, last) = recorder.rows(after: number, atMost: most)
            if !rows.isEmpty || missed > 0 {
                let batch = Rows(run: recorder.run, missed: missed, rows: try await rendering.lines(of: rows))
                text += "id: \(recorder.run)-\(last)\n" + (try event("rows", batch))
            }
            (number, stamp, silence) = (last, stores, text.isEmpty ? silence + 1 : 0)
            // An empty comment line finds out whether the client is still there.
            if silence == 150 { (text, silence) = (":\n\n", 0) }
            if !text.isEmpty { try await writer.write(ByteBuffer(string: text)) }
            if rows.count < most { try await Task.sleep(for: .milliseconds(100)) }
        }
    }

    private func event(_ name: String, _ value: some Encodable) throws -> String {
        "event: \(name)\ndata: \(String(decoding: try JSONEncoder().encode(value), as: UTF8.self))\n\n"
    }
}
