import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// Has no client of HTTP/1.0 told to go on, as RFC 9110 has it in 10.1.1: it would take that for the answer.
private final class OldClients: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard case .head(var head) = unwrapInboundIn(data), head.version == .http1_0 else {
            return context.fireChannelRead(data)
        }
        head.headers.remove(name: "Expect")
        context.fireChannelRead(wrapInboundOut(.head(head)))
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
