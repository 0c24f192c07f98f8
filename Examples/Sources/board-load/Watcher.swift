import NIOCore

/// A client that watches a board: a minimal reader of server-sent events, since thousands of them share a processor.
final class Watcher: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private enum Part {
        case head
        /// The length of the next piece of the body.
        case length
        case piece(Int)
        case endOfPiece
    }

    private let ledger: Ledger
    private var part = Part.head
    private var unread = ByteBuffer()
    /// The end of a piece that stopped within a line.
    private var line: [UInt8] = []
    private var event: UInt8 = 0
    private var id = 0
    /// The revision that it has reached; nil: it has received nothing yet.
    private(set) var revision: Int?
    private(set) var isOpen = true

    init(_ ledger: Ledger) { self.ledger = ledger }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(Self.request(ledger.path), promise: nil)
    }

    static func request(_ path: String) -> NIOAny {
        NIOAny(ByteBuffer(string: "GET \(path)/events HTTP/1.1\r\nHost: board\r\n\r\n"))
    }

    func channelInactive(context: ChannelHandlerContext) { isOpen = false }

    func errorCaught(context: ChannelHandlerContext, error: any Error) { context.close(promise: nil) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        let now = NIODeadline.now().uptimeNanoseconds
        var bytes = unwrapInboundIn(data)
        if unread.readableBytes > 0 {
            unread.writeBuffer(&bytes)
        } else {
            unread = bytes
        }
        while step(now) {}
        // Returns the memory to the allocator.
        if unread.readableBytes == 0 { unread = ByteBuffer() }
    }

    /// Reads one part of the answer; returns false if it has not arrived yet.
    private func step(_ now: UInt64) -> Bool {
        switch part {
        case .head:
            guard let end = unread.readableBytesView.firstRange(of: "\r\n\r\n".utf8) else { return false }
            let head = String(decoding: unread.readableBytesView[..<end.lowerBound], as: UTF8.self)
            if !head.hasPrefix("HTTP/1.1 200") { ledger.complain("answered \(head.prefix(32))") }
            unread.moveReaderIndex(to: end.upperBound)
            part = .length
        case .length:
            guard let end = unread.readableBytesView.firstIndex(of: UInt8(ascii: "\n")) else { return false }
            let digits = unread.readableBytesView[..<end].dropLast()
            let length = digits.reduce(0) { $0 << 4 | Int($1 & 15) + ($1 > 64 ? 9 : 0) }
            unread.moveReaderIndex(to: end + 1)
            part = .piece(length)
        case .piece(let length):
            let available = min(length, unread.readableBytes)
            unread.readWithUnsafeReadableBytes { bytes in
                lines(UnsafeRawBufferPointer(rebasing: bytes[..<available]), now)
                return available
            }
            if available < length {
                part = .piece(length - available)
                return false
            }
            part = .endOfPiece
        case .endOfPiece:
            if unread.readableBytes < 2 { return false }
            unread.moveReaderIndex(forwardBy: 2)
            part = .length
        }
        return true
    }

    private func lines(_ bytes: UnsafeRawBufferPointer, _ now: UInt64) {
        var rest = bytes
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")) {
            let whole = UnsafeRawBufferPointer(rebasing: rest[..<end])
            if line.isEmpty {
                field(whole, now)
            } else {
                line.append(contentsOf: whole)
                line.withUnsafeBytes { field($0, now) }
                line = []
            }
            rest = UnsafeRawBufferPointer(rebasing: rest[(end + 1)...])
        }
        line.append(contentsOf: rest)
    }

    private func field(_ line: UnsafeRawBufferPointer, _ now: UInt64) {
        if line.count < 4 { return }
        switch line[0] {
        case UInt8(ascii: "e"): event = line.count > 7 ? line[7] : 0
        case UInt8(ascii: "i"):
            // After a hyphen comes the mark that distinguishes the change from any other.
            id = line[4...].prefix { $0 != UInt8(ascii: "-") }.reduce(0) { $0 * 10 + Int($1 & 15) }
        case UInt8(ascii: "d"): data(UnsafeRawBufferPointer(rebasing: line[6...]), now)
        default: break
        }
    }

    /// Handles a data field; both servers write the name of an event and its id before it.
    private func data(_ bytes: UnsafeRawBufferPointer, _ now: UInt64) {
        switch event {
        case UInt8(ascii: "c"):
            if id != (revision ?? 0) + 1 { ledger.complain("revision \(id) came after \(revision ?? 0)") }
            ledger.saw(change: id, bytes, at: now)
            revision = id
        case UInt8(ascii: "s"):
            ledger.saw(state: id, after: revision, bytes, at: now)
            revision = id
        default: break
        }
    }
}

/// A client that asks for a stream and reads none of it.
final class SilentWatcher: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer

    private let path: String

    init(_ path: String) { self.path = path }

    func channelActive(context: ChannelHandlerContext) {
        context.writeAndFlush(Watcher.request(path), promise: nil)
    }
}
