import LocalServers
import NIOCore
import NIOPosix
import Synchronization

/// The way from one process to another, which can be cut: then nothing passes either way, and no end is notified.
final class Link: Sendable {
    private struct State {
        var isCut = false
        var channels: [ObjectIdentifier: any Channel] = [:]
    }

    /// The port at which the one process connects; the link forwards to the other.
    let port: Int
    private let state = Mutex(State())
    private let server = Mutex<(any Channel)?>(nil)

    /// Creates a link to a port of the loopback.
    init(to target: Int) async throws {
        port = try freePort()
        let group = MultiThreadedEventLoopGroup.singleton
        let listening = try await ServerBootstrap(group: group)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            // Nothing is read before the other end is connected.
            .childChannelOption(.autoRead, value: false)
            .childChannelInitializer { [self] near in
                ClientBootstrap(group: near.eventLoop).channelOption(.autoRead, value: false)
                    .connect(host: "127.0.0.1", port: target)
                    .flatMap { far in self.join(near, far) }
                    .flatMapError { _ in near.close() }
            }
            .bind(host: "127.0.0.1", port: port).get()
        server.withLock { $0 = listening }
    }

    /// Cuts or restores the link.
    ///
    /// When it is restored, what was sent meanwhile arrives, as if the network had lost it and the sender had sent it
    /// once more.
    func cut(_ isCut: Bool) {
        let channels = state.withLock { state in
            state.isCut = isCut
            return Array(state.channels.values)
        }
        for channel in channels { channel.setOption(.autoRead, value: !isCut).whenFailure { _ in } }
    }

    /// Closes the link, and all connections through it.
    func close() {
        let channels = state.withLock { Array($0.channels.values) } + [server.withLock { $0.take() }].compactMap { $0 }
        for channel in channels { channel.close(promise: nil) }
    }

    private func join(_ near: any Channel, _ far: any Channel) -> EventLoopFuture<Void> {
        for (channel, other) in [(near, far), (far, near)] {
            channel.closeFuture.whenComplete { _ in
                self.state.withLock { $0.channels[ObjectIdentifier(channel)] = nil }
                other.close(promise: nil)
            }
        }
        return near.pipeline.addHandler(Forwarder(to: far))
            .flatMap { far.pipeline.addHandler(Forwarder(to: near)) }
            .flatMap {
                let isCut = self.state.withLock { state in
                    for channel in [near, far] { state.channels[ObjectIdentifier(channel)] = channel }
                    return state.isCut
                }
                return near.setOption(.autoRead, value: !isCut).and(far.setOption(.autoRead, value: !isCut)).map { _ in
                }
            }
    }
}

/// Forwards everything to another channel.
private final class Forwarder: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    private let other: any Channel

    init(to other: any Channel) { self.other = other }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        other.writeAndFlush(unwrapInboundIn(data), promise: nil)
    }
}
