import Foundation
import NIOCore

/// Server-sent events as the bytes of a stream.
enum Frame {
    /// Tells a client how long to wait before it reconnects, in milliseconds.
    static let retry = ByteBuffer(string: "retry: 1000\n\n")
    /// A comment that keeps intermediaries from taking the stream for dead.
    static let heartbeat = ByteBuffer(string: ": still here\n\n")

    static func state(_ state: BoardState) -> ByteBuffer {
        event("state", id: KnownRevision(state.revision, state.order), encoded(Snapshot(state)))
    }

    static func change(_ change: BoardState.NumberedChange) -> ByteBuffer {
        event("change", id: KnownRevision(change.revision, change.order), encoded(change))
    }

    /// Whether the board can currently be changed.
    static func access(isWritable: Bool) -> ByteBuffer { event("access", encoded(["writable": isWritable])) }

    /// Who is here: the number of people, and the names of some.
    static func here(_ count: Int, names: [String]) -> ByteBuffer {
        event("here", encoded(Here(count: count, names: names)))
    }

    /// Joins frames into one buffer, which is written in one piece.
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

    /// All line breaks in JSON are escaped, so the data is one line.
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

/// Encodes a value as JSON, which cannot fail: the types used here hold nothing that JSON cannot represent.
func encoded(_ value: some Encodable) -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    do { return try encoder.encode(value) } catch { fatalError("\(type(of: value)) cannot be JSON: \(error)") }
}
