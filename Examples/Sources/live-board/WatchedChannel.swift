import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// Answers HTTP/1.0 clients as they expect, and adds a problem document to the answer to an unreadable request.
///
/// An HTTP/1.0 client receives no `100 Continue` (RFC 9110, 10.1.1), which it would take for the response. A response
/// without a length is not sent in chunks (RFC 9112, 6.1) but ends with the connection. Any response to a client that
/// did not ask to keep the connection also ends it (9.3).
private final class OldClients: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// The versions of the unanswered requests: a client may send the next request before the response.
    private var unanswered: [HTTPVersion] = []
    private var endsWithConnection = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data) else { return context.fireChannelRead(data) }
        unanswered.append(head.version)
        if head.version == .http1_0 {
            head.headers.remove(name: "Expect")
            if !head.isKeepAlive { head.headers.replaceOrAdd(name: "Connection", value: "close") }
        }
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(var head) where head.status == .badRequest && !head.headers.contains(name: "Content-Type"):
            // The server's own answer to a head that is not HTTP or is too large; no other part of this program sees
            // it.
            let bytes = encoded(Problem.malformed("Its head is not valid HTTP, or is too large."))
            head.headers.replaceOrAdd(name: "Content-Type", value: "application/problem+json")
            head.headers.replaceOrAdd(name: "Content-Length", value: "\(bytes.count)")
            context.write(wrapOutboundOut(.head(head)), promise: promise)
            context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes)))), promise: nil)
        case .head(var head) where unanswered.first == .http1_0:
            head.version = .http1_0
            endsWithConnection = !head.headers.contains(name: "Content-Length")
            if endsWithConnection { head.headers.replaceOrAdd(name: "Connection", value: "close") }
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .end where endsWithConnection:
            // Closes only after the write: a close discards what a slow client has not read yet.
            let (written, channel) = (promise ?? context.eventLoop.makePromise(), context.channel)
            written.futureResult.whenComplete { _ in channel.close(promise: nil) }
            context.writeAndFlush(data, promise: written)
        case .end:
            if !unanswered.isEmpty { unanswered.removeFirst() }
            context.write(data, promise: promise)
        default: context.write(data, promise: promise)
        }
    }
}

/// Closes a connection with a running stream once the client has closed its side.
///
/// The handler is there from the beginning, because a client may close its side right after its request, and the event
/// for that comes only once.
final class CloseWithInput: ChannelInboundHandler {
    typealias InboundIn = Any

    private var (isInputClosed, isStreaming) = (false, false)

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { isInputClosed = true }
        if isInputClosed && isStreaming { context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    /// Marks the connection as streaming.
    static func begin(on channel: any Channel) async throws {
        try await channel.eventLoop.submit {
            let handler = try channel.pipeline.syncOperations.handler(type: CloseWithInput.self)
            handler.isStreaming = true
            if handler.isInputClosed { channel.close(promise: nil) }
        }.get()
    }
}

/// HTTP/1, with handlers beneath it for slow readers and senders, old clients and clients that have gone.
struct WatchedChannel: ServerChildChannel {
    let http: HTTP1Channel
    let limit: TimeAmount

    func setup(channel: any Channel, logger: Logger) -> EventLoopFuture<HTTP1Channel.Value> {
        channel.eventLoop.makeCompletedFuture {
            try channel.pipeline.syncOperations.addHandler(SlowReaders(limit: limit))
        }.flatMap {
            http.setup(channel: channel, logger: logger)
        }.flatMapThrowing { value in
            let pipeline = channel.pipeline.syncOperations
            let decoder = try pipeline.handler(type: ByteToMessageHandler<HTTPRequestDecoder>.self)
            try pipeline.addHandler(OldClients(), position: .after(decoder))
            try pipeline.addHandler(CloseWithInput(), position: .after(decoder))
            try pipeline.addHandler(SlowSenders(), position: .after(decoder))
            return value
        }
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async { await http.handle(value: value, logger: logger) }
}
