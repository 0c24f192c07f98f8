import FluxInspector
import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// The context of a request, with the channel, because a stream has to know when the connection closes.
struct BoardContext: RequestContext, RemoteAddressRequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel
    var remoteAddress: SocketAddress? { channel.remoteAddress }

    init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        channel = source.channel
    }
}

/// The inspector, and the token that it requires.
struct Inspection: Sendable {
    let inspector: FluxInspector
    let token: String
}

/// All routes of the server.
struct Routes: Sendable {
    typealias Handler = @Sendable (Request, BoardContext) async throws -> Response

    let boards: Boards
    let metrics: Prometheus
    let inspection: Inspection?

    func makeRouter() -> Router<BoardContext> {
        let router = Router(context: BoardContext.self)
        router.add(middleware: MetricsMiddleware())
        router.add(middleware: ProblemMiddleware())
        router.add(middleware: BodyMiddleware())

        on(router, "/", [.get: { _, _ in .redirect(to: "/b/\(BoardID.welcome.rawValue)") }])
        let index = Page(PackageResources.index_html, "text/html; charset=utf-8")
        on(router, "/b/:board", [.get: { try await index.response(to: $0, status: isBoard($1) ? .ok : .notFound) }])
        for (path, page) in [
            ("/style.css", Page(PackageResources.style_css, "text/css; charset=utf-8")),
            ("/board.js", Page(PackageResources.board_js, "text/javascript; charset=utf-8")),
            ("/icon.svg", Page(PackageResources.icon_svg, "image/svg+xml")),
        ] {
            on(router, RouterPath(path), [.get: { request, _ in page.response(to: request, status: .ok) }])
        }
        on(router, "/boards", [.get: listBoards, .post: addBoard])
        on(router, "/boards/:board", [.get: showBoard])
        on(router, "/boards/:board/commands", [.post: perform])
        on(router, "/boards/:board/events", [.get: watch])
        on(router, "/health", [.get: showHealth])
        on(router, "/metrics", [.get: { _, _ in metrics.response }])
        if let inspection { inspection.inspector.mount(on: router, token: inspection.token) }
        return router
    }

    /// All methods that the server's parser knows; it refuses a request with any other.
    private static let methods = [
        "ACL", "BIND", "CHECKOUT", "CONNECT", "COPY", "DELETE", "GET", "HEAD", "LINK", "LOCK", "M-SEARCH", "MERGE",
        "MKACTIVITY", "MKCALENDAR", "MKCOL", "MOVE", "NOTIFY", "OPTIONS", "PATCH", "POST", "PROPFIND", "PROPPATCH",
        "PURGE", "PUT", "QUERY", "REBIND", "REPORT", "SEARCH", "SOURCE", "SUBSCRIBE", "TRACE", "UNBIND", "UNLINK",
        "UNLOCK", "UNSUBSCRIBE",
    ].compactMap { HTTPRequest.Method($0) }

    /// Adds the handlers of a path; any other method is answered with the list of allowed methods.
    private func on(_ router: Router<BoardContext>, _ path: RouterPath, _ given: [HTTPRequest.Method: Handler]) {
        var handlers = given
        if let get = given[.get] { handlers[.head] = { try await get($0, $1).createHeadResponse() } }
        let allow = handlers.keys.map(\.rawValue).sorted().joined(separator: ", ")
        for method in Self.methods {
            router.on(path, method: method, use: handlers[method] ?? { _, _ in throw Problem.method(allow: allow) })
        }
    }

    /// Answers 200 even if the server cannot write: ending it would not help.
    private func showHealth(_ request: Request, _ context: BoardContext) -> Response {
        let health = boards.health
        return .json(health, status: health.status == .failed ? .serviceUnavailable : .ok)
    }

    // MARK: - Boards

    private func listBoards(_ request: Request, _ context: BoardContext) -> Response {
        .json(["boards": boards.list.map { ["id": $0.id, "title": $0.title] }])
    }

    private func addBoard(_ request: Request, _ context: BoardContext) async throws -> Response {
        struct New: Decodable { var title: String }
        let title = try BoardCommand.checked(try await decode(New.self, request).title)
        let id = try await boards.add(title: title).rawValue
        return .json(["id": id], status: .created, headers: [.location: "/boards/\(id)"])
    }

    private func showBoard(_ request: Request, _ context: BoardContext) async throws -> Response {
        .json(try await boards.snapshot(of: board(context)))
    }

    // MARK: - Commands

    private func perform(_ request: Request, _ context: BoardContext) async throws -> Response {
        let id = try board(context)
        let command = try await decode(BoardCommand.self, request)
        guard let client = try client(request) else { throw Problem.invalid("The query parameter client is missing.") }
        return .json(try await boards.perform(command, on: id, by: client))
    }

    // MARK: - Events

    /// Streams the events of a board, starting from the state that the client knows.
    private func watch(_ request: Request, _ context: BoardContext) async throws -> Response {
        let query = request.uri.queryParameters
        let client = try client(request)
        let name = query.get("name")?.trimmingCharacters(in: .whitespacesAndNewlines)
        // The name is sent to all watchers, and a character may have any number of bytes.
        if let name, name.count > 40 || name.utf8.count > 160 {
            throw Problem.invalid("A name can have at most 40 characters and 160 bytes.")
        }
        let given = (request.headers[.lastEventID] ?? query.get("last")).flatMap { KnownRevision($0) }
        let id = try board(context)
        // In its own task, because memory used to open a board would stay with this one for as long as it streams.
        let opening = Task {
            let lease = try await boards.lease(id)
            return (lease, await lease.member.known(given))
        }
        // An unstructured task is not cancelled automatically when the server ends.
        let (lease, last) = try await withTaskCancellationHandler {
            try await opening.value
        } onCancel: {
            opening.cancel()
        }
        let channel = context.channel

        let body = ResponseBody { writer in
            defer { lease.release() }
            let feed = lease.member.feed
            let joined = feed.join(client: client, name: name?.isEmpty == true ? nil : name, last: last)
            guard let (watcher, first) = joined else { return try await writer.finish(nil) }
            defer { feed.leave(watcher) }
            // Without this, a client's departure would go unnoticed until something is sent.
            channel.closeFuture.whenComplete { _ in feed.leave(watcher) }
            try await CloseWithInput.begin(on: channel)

            var batch: Feed.Batch? = first
            while let sent = batch {
                for frame in sent.frames { try await writer.write(frame) }
                batch = await feed.next(for: watcher, after: sent.next)
            }
            try await writer.finish(nil)
        }
        let headers: HTTPFields = [
            .contentType: "text/event-stream", .cacheControl: "no-store", .accelBuffering: "no",
        ]
        return Response(status: .ok, headers: headers, body: body)
    }

    // MARK: - Reading requests

    private func isBoard(_ context: BoardContext) async throws -> Bool { try await boards.contains(board(context)) }

    private func board(_ context: BoardContext) throws -> BoardID {
        guard let id = context.parameters.get("board", as: BoardID.self) else { throw Problem.unknownBoard }
        return id
    }

    private func client(_ request: Request) throws -> String? {
        guard let client = request.uri.queryParameters.get("client") else { return nil }
        let isAllowed = client.utf8.allSatisfy { byte in
            byte == UInt8(ascii: "-") || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
        }
        guard isAllowed, (8...64).contains(client.utf8.count) else {
            throw Problem.invalid("A client must have 8 to 64 letters, digits and hyphens.")
        }
        return client
    }

    private func decode<Value: Decodable>(_ type: Value.Type, _ request: Request) async throws -> Value {
        let media = request.headers[.contentType]?.prefix { $0 != ";" }.trimmingCharacters(in: .whitespaces)
        guard media?.lowercased() == "application/json" else { throw Problem.mediaType }
        let bytes = try await request.body.collect(upTo: .max)  // Already in memory, see BodyMiddleware.
        // A zero byte occurs in no JSON in UTF-8, and the decoder takes other encodings too.
        if bytes.readableBytesView.contains(0) { throw Problem.malformed("The body is not JSON in UTF-8.") }
        let value = try JSONDecoder().decode(type, from: Data(bytes.readableBytesView))
        if hasLastComma(bytes.readableBytesView) {
            throw Problem.malformed("The body is not JSON: it has a comma after a last element.")
        }
        return value
    }

    /// Whether a comma stands before the end of an array or object, which the decoder accepts although JSON forbids it.
    private func hasLastComma(_ json: some Sequence<UInt8>) -> Bool {
        var (last, isInString, isEscaped) = (UInt8(0), false, false)
        for byte in json {
            if isInString {
                isInString = isEscaped || byte != UInt8(ascii: "\"")
                isEscaped = !isEscaped && byte == UInt8(ascii: "\\")
            } else if byte > UInt8(ascii: " ") {
                isInString = byte == UInt8(ascii: "\"")
                if last == UInt8(ascii: ","), byte == UInt8(ascii: "}") || byte == UInt8(ascii: "]") { return true }
                last = byte
            }
        }
        return false
    }
}

/// A file of the page, embedded in the program.
private struct Page: Sendable {
    let bytes: ByteBuffer
    let tag: String
    let headers: HTTPFields

    init(_ content: [UInt8], _ type: String) {
        bytes = ByteBuffer(bytes: content)
        // FNV-1a: it distinguishes versions of a file and protects nothing.
        let hash = content.reduce(0xcbf2_9ce4_8422_2325) { (hash: UInt64, byte) in
            (hash ^ UInt64(byte)) &* 0x100_0000_01b3
        }
        tag = "\"\(String(hash, radix: 16))\""
        headers = [
            .contentType: type, .cacheControl: "no-cache", .eTag: tag,
            .contentSecurityPolicy: "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
            .xContentTypeOptions: "nosniff",
        ]
    }

    func response(to request: Request, status: HTTPResponse.Status) -> Response {
        if status == .ok, isKnown(to: request) { return Response(status: .notModified, headers: headers) }
        return Response(status: status, headers: headers, body: ResponseBody(byteBuffer: bytes))
    }

    /// Whether the client has the file: it may list any number of tags, weak ones included, or `*` (RFC 9110, 13.1.2).
    private func isKnown(to request: Request) -> Bool {
        // Another server's tag may contain a comma but never a quotation mark, so no part of it equals this tag.
        request.headers[values: .ifNoneMatch].flatMap { $0.split(separator: ",") }.contains { part in
            let given = part.trimmingCharacters(in: .whitespaces)
            return given == tag || given == "W/" + tag || given == "*"
        }
    }
}

extension Response {
    fileprivate static func json(
        _ value: some Encodable, status: HTTPResponse.Status = .ok, headers: HTTPFields = [:]
    ) -> Response { .json(ByteBuffer(bytes: encoded(value)), status: status, headers: headers) }

    fileprivate static func json(
        _ bytes: ByteBuffer, status: HTTPResponse.Status = .ok, headers: HTTPFields = [:]
    ) -> Response {
        var headers = headers
        headers[.contentType] = "application/json"
        headers[.cacheControl] = "no-store"
        headers[.xContentTypeOptions] = "nosniff"
        return Response(status: status, headers: headers, body: .init(byteBuffer: bytes))
    }
}

extension HTTPField.Name {
    static let lastEventID = HTTPField.Name("Last-Event-ID")!
    /// Some proxies buffer a response until enough of it has arrived.
    static let accelBuffering = HTTPField.Name("X-Accel-Buffering")!
}
