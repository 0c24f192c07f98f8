import FluxObservation
import FluxRouting
import Foundation
import Hummingbird
import ServiceLifecycle

/// Creates the routes of the server.
func makeRouter(_ lists: Lists) -> Router<TodoContext> {
    let router = Router(context: TodoContext.self, options: .autoGenerateHeadEndpoints)
    router.add(middleware: LogRequestsMiddleware(.info))
    router.get("health") { _, _ in HTTPResponse.Status.ok }
    router.get("lists/:list") { _, context in
        try await lists.with(context.name("list")) { $0.store.state }
    }
    router.put("lists/:list/:todo") { request, context in
        let id = try context.name("todo").description
        let todo = try await request.decode(as: Todo.self, context: context)
        return try await lists.with(context.name("list")) { list in
            // If two clients put the same todo at once, both may receive 201.
            let isNew = list.store.state.todos[id] == nil
            try await list.take(.put(id: id, todo))
            return isNew ? HTTPResponse.Status.created : .noContent
        }
    }
    router.delete("lists/:list/:todo") { _, context in
        let id = try context.name("todo").description
        try await lists.with(context.name("list")) { try await $0.take(.remove(id: id)) }
        return HTTPResponse.Status.noContent
    }
    router.get("events/:list") { request, context in
        // With an unread body, the stream would not notice that the client disconnects.
        var request = request
        _ = try await request.collectBody(upTo: context.maxUploadSize)
        return events(of: try await lists.lease(context.name("list")), for: request)
    }
    return router
}

/// The context of a request, with the limit of its body in bytes.
struct TodoContext: RequestContext {
    var coreContext: CoreRequestContextStorage
    var maxUploadSize: Int { 16_384 }

    init(source: Source) { coreContext = CoreRequestContextStorage(source: source) }

    func name(_ parameter: String) throws -> Name { try parameters.require(parameter, as: Name.self) }
}

extension TodoList: ResponseEncodable {}

extension Refusal: HTTPResponseError {
    var status: HTTPResponse.Status {
        switch self {
        case .title, .full: .unprocessableContent
        case .notSaved: .serviceUnavailable
        case .lost, .unreadable: .internalServerError
        }
    }

    func response(from request: Request, context: some RequestContext) throws -> Response {
        try HTTPError(status, message: rawValue).response(from: request, context: context)
    }
}

/// Streams the list, now and after each change, until the client disconnects or the server shuts down.
func events(of lease: FluxLease<OpenList>, for request: Request) -> Response {
    let body = ResponseBody { writer in
        try await request.body.consumeWithCancellationOnInboundClose { _ in
            let store = lease.member.store
            let (looks, look) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
            try await withThrowingTaskGroup(of: Void.self) { group in
                defer { group.cancelAll() }
                group.addTask { for await _ in store.states { look.yield() } }
                group.addTask {
                    while true {
                        try await Task.sleep(for: .seconds(15))
                        look.yield()
                    }
                }
                var shown: TodoList?
                for try await _ in looks.cancelOnGracefulShutdown() {
                    let list = store.state
                    // An empty comment shows whether the client is still connected.
                    var text = ":\n\n"
                    if list.todos != shown?.todos {
                        text = "data: \(String(decoding: try JSONEncoder().encode(list), as: UTF8.self))\n\n"
                    }
                    try await writer.write(ByteBuffer(string: text))
                    shown = list
                }
            }
        }
        try await writer.finish(nil)
    }
    return Response(status: .ok, headers: [.contentType: "text/event-stream", .cacheControl: "no-cache"], body: body)
}
