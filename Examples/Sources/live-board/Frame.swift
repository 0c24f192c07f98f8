import Foundation
import NIOCore

/// Server-sent events as the bytes of a stream.
enum Frame {
    /// How long a client waits before it comes back, in milliseconds.
    static let retry = ByteBuffer(string: "retry: 1000\n\n")
    /// A comment: it keeps what lies between from taking the stream for dead.
    static let heartbeat = ByteBuffer(string: ": still here\n\n")

    static func state(_ state: BoardState) -> ByteBuffer {
        event("state", id: KnownRevision(state.revision, state.order), encoded(Snapshot(state)))
    }

    static func change(_ change: BoardState.NumberedChange) -> ByteBuffer {
        event("change", id: KnownRevision(change.revision, change.order), encoded(change))
    }

    /// Whether the board can be changed at the moment.
    static func access(isWritable: Bool) -> ByteBuffer { event("access", encoded(["writable": isWritable])) }

    /// Who looks on: how many, and the names of some.
    static func here(_ count: Int, names: [String]) -> ByteBuffer {
        event("here", encoded(Here(count: count, names: names)))
    }

    /// One buffer of several: it is written in one piece.
    static func joined(_ frames: some Collection<ByteBuffer>) -> ByteBuffer {
        if frames.count == 1, let only = frames.first { return only }
        var joined = ByteBuffer()
        joined.reserveCapacity(frames.reduce(0) { $0 + $1.readableBytes })
        for frame in frames { joined.writeImmutableBuffer(frame) }
        return joined
    }

    private struct Here: Encodable {
        var count: Int
        var names: [String]
    }

    /// JSON has no line breaks but escaped ones, so the data is one line.
    private static func event(_ name: String, id: KnownRevision? = nil, _ data: Data) -> ByteBuffer {
        var frame = ByteBuffer()
        frame.reserveCapacity(data.count + 64)
        frame.writeString("event: \(name)\n")
        if let id { frame.writeString("id: \(id)\n") }
        frame.writeString("data: ")
        frame.writeBytes(data)
        frame.writeString("\n\n")
        return frame
    }
}

/// What is sent as JSON here has only strings, numbers and lists of them, which always can be.
func encoded(_ value: some Encodable) -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    do { return try encoder.encode(value) } catch { fatalError("\(type(of: value)) cannot be JSON: \(error)") }
}
