import NIOCore

/// Closes a connection whose client reads too slowly: unread data stays in memory until the client reads it.
///
/// While data is waiting, everything written so far must be read within the time limit. How little the client reads at
/// a time does not matter. The handler sits next to the socket, where the written data is bytes.
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
