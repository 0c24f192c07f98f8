import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// Has clients of HTTP/1.0 answered as they can read it, and those whose request cannot be read told so.
///
/// None of the first is told to go on, as RFC 9110 has it in 10.1.1: it would take that for the answer. What has no length is not sent
/// in chunks, as RFC 9112 has it in 6.1, and ends with the connection; so does each answer to one that has not asked to keep that, by 9.3.
private final class OldClients: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// Of each request that is not answered yet: a client may send the next before that.
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
            // The server's own answer to a head that is no HTTP, or too large: no other part of this program comes to see it.
            let bytes = encoded(Problem.malformed("Its head is no HTTP, or too large."))
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
            // Once it is written: a close drops what one who reads slowly has not taken.
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

/// Closes a connection that something is streamed on once its client has closed its side: there is nobody left to stream to.
///
/// It is there from the beginning, since a client may close that right behind its request, which is told once.
final class CloseWithInput: ChannelInboundHandler {
    typealias InboundIn = Any

    private var (isInputClosed, isStreaming) = (false, false)

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if case ChannelEvent.inputClosed = event { isInputClosed = true }
        if isInputClosed && isStreaming { context.close(promise: nil) }
        context.fireUserInboundEventTriggered(event)
    }

    /// From here on something is streamed.
    static func begin(on channel: any Channel) async throws {
        try await channel.eventLoop.submit {
            let handler = try channel.pipeline.syncOperations.handler(type: CloseWithInput.self)
            handler.isStreaming = true
            if handler.isInputClosed { channel.close(promise: nil) }
        }.get()
    }
}

/// HTTP, with what looks after slow readers, old clients and those who have gone beneath it.
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
            return value
        }
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async { await http.handle(value: value, logger: logger) }
}
