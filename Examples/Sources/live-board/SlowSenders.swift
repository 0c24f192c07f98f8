import NIOCore
import NIOHTTP1

/// Answers a request that takes too long to arrive, before the server closes the connection for that.
///
/// The server closes a connection on which no part of a request has arrived for some time, however many bytes have: a
/// head that is sent byte by byte is no part until its end. The handler sits next to the decoder of the requests.
final class SlowSenders: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// Whether a request has begun to arrive, and has not arrived completely.
    private var isArriving = false
    /// Whether the last bytes that arrived completed a part of a request.
    private var hasPart = false
    /// The requests whose heads have arrived, and whose responses have not been written completely.
    private var unanswered = 0
    private var isAnswering = false
    /// Whether the connection ends after what was written so far, or because the server ends.
    private var isEnding = false
    /// Whether the answer is that the request took too long: nothing may follow it.
    private var hasRefused = false
    private var version = HTTPVersion.http1_1

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if hasRefused { return }
        hasPart = true
        switch unwrapInboundIn(data) {
        case .head(let head):
            unanswered += 1
            version = head.version
            isArriving = true
        case .body: break
        case .end: isArriving = false
        }
        context.fireChannelRead(data)
    }

    func channelReadComplete(context: ChannelHandlerContext) {
        // Between two requests, bytes without a part are the beginning of a head.
        if !hasPart { isArriving = true }
        hasPart = false
        context.fireChannelReadComplete()
    }

    func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
        if event is ChannelShouldQuiesceEvent { isEnding = true }
        // The end of what the client sends is no beginning of a request.
        if case ChannelEvent.inputClosed = event { isArriving = false }
        context.fireUserInboundEventTriggered(event)
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        if hasRefused {
            promise?.fail(ChannelError.ioOnClosedChannel)
            return
        }
        switch unwrapOutboundIn(data) {
        case .head(let head) where head.status.code >= 200:
            isAnswering = true
            if head.headers["Connection"].contains("close") { isEnding = true }
        case .head, .body: break
        case .end: (isAnswering, unanswered) = (false, max(0, unanswered - 1))
        }
        context.write(data, promise: promise)
    }

    func close(context: ChannelHandlerContext, mode: CloseMode, promise: EventLoopPromise<Void>?) {
        // A response to an earlier request must come first, and one that has begun must not be mixed with another.
        let isOwed = isArriving && !isAnswering && !isEnding && unanswered <= 1
        if mode != .input { isEnding = true }
        guard mode == .all, isOwed, context.channel.isActive else { return context.close(mode: mode, promise: promise) }
        hasRefused = true
        let bytes = encoded(Problem.tooSlow)
        let headers: HTTPHeaders = [
            "Content-Type": "application/problem+json", "Content-Length": "\(bytes.count)", "Cache-Control": "no-store",
            "Connection": "close",
        ]
        let head = HTTPResponseHead(version: version, status: .requestTimeout, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(.byteBuffer(ByteBuffer(bytes: bytes)))), promise: nil)
        let written = context.eventLoop.makePromise(of: Void.self)
        written.futureResult.assumeIsolated().whenComplete { _ in context.close(mode: mode, promise: promise) }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: written)
    }
}
