import NIOCore

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
