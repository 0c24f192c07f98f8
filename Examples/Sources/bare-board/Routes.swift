import Foundation
import HTTPTypes
import Hummingbird
import NIOCore

/// The context of a request, with its connection, because a stream must know when that ends.
struct BoardContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    let channel: any Channel

    init(source: ApplicationRequestContextSource) {
        coreContext = .init(source: source)
        channel = source.channel
    }
}

/// Returns a router that answers as live-board does, except for its page.
func makeRouter(_ boards: SharedBoards, _ metrics: Prometheus) -> Router<BoardContext> {
    let router = Router(context: BoardContext.self)
    router.add(middleware: MetricsMiddleware())
    router.add(middleware: ProblemMiddleware())
    router.add(middleware: BodyMiddleware())
    router.get("/metrics") { _, _ in metrics.response }
    router.get("/health") { _, _ in json(["status": "ok"]) }
    router.get("/boards") { _, _ in
        json(["boards": try await boards.titles().map { ["id": $0.id, "title": $0.title] }])
    }
    router.post("/boards") { request, _ in
        struct New: Decodable { var title: String }
        let id = try await boards.add(title: try await decode(New.self, request).title)
        return json(["id": id], status: .created)
    }
    router.get("/boards/:board") { _, context in json(await (try await board(context, boards)).snapshot) }
    router.post("/boards/:board/commands") { request, context in
        let board = try await board(context, boards)
        let command = try await decode(BoardCommand.self, request)
        guard let client = request.uri.queryParameters.get("client") else {
            throw Problem.invalid("The query parameter client is missing.")
        }
        return json(try await board.perform(command, by: client))
    }
    router.get("/boards/:board/events") { request, context in
        stream(try await board(context, boards), request, context.channel)
    }
    return router
}

/// Returns a stream of a board's changes, from the state that the client knows.
private func stream(_ board: SharedBoard, _ request: Request, _ channel: any Channel) -> Response {
    let query = request.uri.queryParameters
    let last = (request.headers[.lastEventID] ?? query.get("last")).flatMap { Int($0) }
    let body = ResponseBody { writer in
        guard let watching = await board.join(client: query.get("client"), name: query.get("name"), last: last) else {
            return try await writer.finish(nil)
        }
        // Otherwise a client that has gone is noticed only at the next write.
        channel.closeFuture.whenComplete { _ in watching.end() }
        do {
            try await channel.pipeline.addHandler(CloseWithInput())
            try await writer.write(watching.first)
            for await piece in watching.pieces {
                switch piece {
                case .frames(let bytes): try await writer.write(bytes)
                case .missed: try await writer.write(await board.caughtUp(watching.id))
                }
            }
            await board.leave(watching.id)
        } catch {
            await board.leave(watching.id)
            throw error
        }
        try await writer.finish(nil)
    }
    return Response(
        status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-store"], body: body)
}

private func board(_ context: BoardContext, _ boards: SharedBoards) async throws -> SharedBoard {
    guard let board = try await boards.board(context.parameters.require("board")) else {
        throw Problem.unknownBoard
    }
    return board
}

private func decode<Value: Decodable>(_ type: Value.Type, _ request: Request) async throws -> Value {
    let bytes = try await request.body.collect(upTo: .max)  // Collected already, see BodyMiddleware.
    return try JSONDecoder().decode(type, from: Data(bytes.readableBytesView))
}

private func json(_ value: some Encodable, status: HTTPResponse.Status = .ok) -> Response {
    Response(
        status: status, headers: [.contentType: "application/json", .cacheControl: "no-store"],
        body: .init(byteBuffer: ByteBuffer(bytes: encoded(value))))
}

/// Closes a connection whose client has closed its side, because the stream has no reader any more.
///
/// It misses a client that did so before this handler was added; live-board's handler is there from the beginning.
private final class CloseWithInput: ChannelInboundHandler, Sendable {
    typealias InboundIn = Any

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }
}

extension HTTPField.Name {
    fileprivate static let lastEventID = HTTPField.Name("Last-Event-ID")!
}
