import NIOCore

/// Closes a connection whose client takes next to nothing of what it was sent: that stays in memory until it does.
///
/// Looked at twenty times in the time given, as long as something waits to be sent: less than 16 kB in between is next to nothing.
final class SlowReaders: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = Any
    typealias OutboundOut = Any

    private static let looks = 20

    private let pause: TimeAmount
    private var look: Scheduled<Void>?
    private var writes = (begun: 0, done: 0)
    private var last = (done: 0, waiting: 0)
    /// How many looks in a row have found next to nothing taken.
    private var idle = 0

    init(limit: TimeAmount) { pause = .nanoseconds(max(1, limit.nanoseconds / Int64(Self.looks))) }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let promise = promise ?? context.eventLoop.makePromise()
        writes.begun += 1
        promise.futureResult.assumeIsolated().whenComplete { _ in self.writes.done += 1 }
        context.write(data, promise: promise)
        if look == nil { lookLater(context) }
    }

    func handlerRemoved(context: ChannelHandlerContext) { look?.cancel() }

    private func lookLater(_ context: ChannelHandlerContext) {
        (last.done, last.waiting) = (writes.done, waiting(context))
        look = context.eventLoop.assumeIsolated().scheduleTask(in: pause) { self.lookAgain(context) }
    }

    private func lookAgain(_ context: ChannelHandlerContext) {
        look = nil
        let waiting = waiting(context)
        // All is taken: the next write looks again.
        if waiting == 0 || writes.begun == writes.done { return idle = 0 }
        let isIdle = writes.done == last.done && last.waiting - waiting < 1 << 14
        idle = isIdle ? idle + 1 : 0
        if idle >= Self.looks { return context.close(promise: nil) }
        lookLater(context)
    }

    private func waiting(_ context: ChannelHandlerContext) -> Int {
        (try? context.channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }
}
