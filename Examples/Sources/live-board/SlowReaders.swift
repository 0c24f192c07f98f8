import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// Closes a connection whose client is too slow to take what it was sent: that stays in memory until it does.
///
/// While something waits, all that was written by then has to be taken within the time given; how little at a time is all the
/// same. It stands where what is written is bytes, next to the socket.
final class SlowReaders: ChannelOutboundHandler {
    typealias OutboundIn = IOData
    typealias OutboundOut = IOData

    private let limit: TimeAmount
    private var written = 0
    private var look: Scheduled<Void>?

    init(limit: TimeAmount) { self.limit = limit }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        written += unwrapOutboundIn(data).readableBytes
        context.write(data, promise: promise)
    }

    func flush(context: ChannelHandlerContext) {
        context.flush()
        if look == nil && waiting(context) > 0 { lookLater(context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { look?.cancel() }

    private func lookLater(_ context: ChannelHandlerContext) {
        let due = written
        look = context.eventLoop.assumeIsolated().scheduleTask(in: limit) {
            self.look = nil
            let waiting = self.waiting(context)
            if self.written - waiting < due { return context.close(promise: nil) }
            if waiting > 0 { self.lookLater(context) }
        }
    }

    private func waiting(_ context: ChannelHandlerContext) -> Int {
        (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }
}

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
