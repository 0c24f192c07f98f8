import NIOCore
import NIOHTTP1

/// A connection that makes one request after another.
final class Caller: ChannelInboundHandler {
    typealias InboundIn = NIOHTTPClientResponseFull
    typealias OutboundOut = HTTPClientRequestPart

    /// The server's answer.
    struct Answer: Sendable {
        var status: UInt
        var body: ByteBuffer
    }

    private let loop: any EventLoop
    private var asked: EventLoopPromise<Answer>?
    private var context: ChannelHandlerContext?
    private var lastUse = NIODeadline.now()

    /// Whether it is open and made a request in the last two seconds; from then on a server counts its idle time.
    var isFresh: Bool { context?.channel.isActive == true && NIODeadline.now() - lastUse < .seconds(2) }

    func close() { context?.close(promise: nil) }

    init(on loop: any EventLoop) { self.loop = loop }

    func handlerAdded(context: ChannelHandlerContext) { self.context = context }

    func handlerRemoved(context: ChannelHandlerContext) { self.context = nil }

    func ask(_ method: HTTPMethod, _ path: String, _ body: ByteBuffer? = nil) -> EventLoopFuture<Answer> {
        precondition(asked == nil, "one request at a time")
        guard let context, context.channel.isActive else { return loop.makeFailedFuture(ChannelError.eof) }
        let promise = loop.makePromise(of: Answer.self)
        asked = promise
        lastUse = .now()
        var headers: HTTPHeaders = ["Host": "board"]
        if let body {
            headers.add(name: "Content-Type", value: "application/json")
            headers.add(name: "Content-Length", value: "\(body.readableBytes)")
        }
        let head = HTTPRequestHead(version: .http1_1, method: method, uri: path, headers: headers)
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        if let body { context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil) }
        context.writeAndFlush(wrapOutboundOut(.end(nil)), promise: nil)
        return promise.futureResult
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let response = unwrapInboundIn(data)
        let promise = asked
        asked = nil
        promise?.succeed(Answer(status: response.head.status.code, body: response.body ?? ByteBuffer()))
    }

    func channelInactive(context: ChannelHandlerContext) { fail(ChannelError.eof) }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        fail(error)
        context.close(promise: nil)
    }

    private func fail(_ error: any Error) {
        let promise = asked
        asked = nil
        promise?.fail(error)
    }
}
