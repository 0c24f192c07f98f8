import LocalServers
import NIOCore
import NIOPosix
import Synchronization

/// The way from one process to another, which can be cut: then nothing gets through in either direction, and nobody is told.
final class Link: Sendable {
    private struct State {
        var isCut = false
        var channels: [ObjectIdentifier: any Channel] = [:]
    }

    /// Where the one connects; the link goes on to the other.
    let port: Int
    private let state = Mutex(State())
    private let server = Mutex<(any Channel)?>(nil)

    /// Makes a way to a port of the loopback.
    init(to target: Int) async throws {
        port = try freePort()
        let group = MultiThreadedEventLoopGroup.singleton
        let listening = try await ServerBootstrap(group: group)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            // Nothing is read before the other end is there.
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

    /// Cuts it, or mends it: what was sent meanwhile arrives then, as with a network that drops and a sender that repeats.
    func cut(_ isCut: Bool) {
        let channels = state.withLock { state in
            state.isCut = isCut
            return Array(state.channels.values)
        }
        for channel in channels { channel.setOption(.autoRead, value: !isCut).whenFailure { _ in } }
    }

    /// Ends it, and whatever goes through it.
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

/// Hands on what comes to another channel.
private final class Forwarder: ChannelInboundHandler, Sendable {
    typealias InboundIn = ByteBuffer

    private let other: any Channel

    init(to other: any Channel) { self.other = other }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        other.writeAndFlush(unwrapInboundIn(data), promise: nil)
    }
}
