import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// Has clients of HTTP/1.0 answered as they can read it.
///
/// None is told to go on, as RFC 9110 has it in 10.1.1: it would take that for the answer. What has no length is not sent in chunks, as
/// RFC 9112 has it in 6.1, and ends with the connection.
private final class OldClients: ChannelDuplexHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    private var isOld = false
    private var endsWithConnection = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data) else { return context.fireChannelRead(data) }
        isOld = head.version == .http1_0
        if isOld { head.headers.remove(name: "Expect") }
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        switch unwrapOutboundIn(data) {
        case .head(var head) where isOld:
            head.version = .http1_0
            endsWithConnection = !head.headers.contains(name: "Content-Length")
            if endsWithConnection { head.headers.replaceOrAdd(name: "Connection", value: "close") }
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .end where endsWithConnection:
            // Once it is written: a close drops what one who reads slowly has not taken.
            let (written, channel) = (promise ?? context.eventLoop.makePromise(), context.channel)
            written.futureResult.whenComplete { _ in channel.close(promise: nil) }
            context.writeAndFlush(data, promise: written)
        default: context.write(data, promise: promise)
        }
    }
}

/// HTTP, with what looks after slow readers and old clients beneath it.
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
            return value
        }
    }

    func handle(value: HTTP1Channel.Value, logger: Logger) async { await http.handle(value: value, logger: logger) }
}
