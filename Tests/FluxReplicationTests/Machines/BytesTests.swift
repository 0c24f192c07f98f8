import FluxCore
import Testing

@testable import FluxReplication

/// Bytes in a log decode to what was encoded, and bytes that no replica has written are detected.
@Suite struct BytesTests {
    static let envelopes: [FluxReplicaEnvelope] = {
        let bare = FluxReplicaEnvelope(writer: .max, number: 7, floor: 5, base: 300)
        var (checked, acting, full) = (bare, bare, bare)
        checked.check = FluxReplicaCheck(count: 1_000, version: 3, sum: 0xfeed_beef_0123_4567)
        acting.action = FluxReplicaContent(version: 0, bytes: [])
        full = FluxReplicaEnvelope(writer: 1, number: 9, floor: 2, base: 0, givenUp: [4, 8])
        full.check = checked.check
        full.action = FluxReplicaContent(version: 12, bytes: Array(0...255))
        return [bare, checked, acting, full]
    }()

    static let image: FluxReplicaImage = {
        var ledger = FluxReplicaLedger()
        for (position, envelope) in zip([3, 5, 1_000] as [UInt64], envelopes[1...]) {
            _ = ledger.admit(position, envelope)
        }
        return FluxReplicaImage(ledger: ledger, state: FluxReplicaContent(version: 2, bytes: [1, 2, 3]))
    }()

    @Test("A decoded entry equals the encoded one", arguments: envelopes)
    func envelope(_ envelope: FluxReplicaEnvelope) throws {
        #expect(try FluxReplicaEnvelope(envelope.bytes) == envelope)
    }

    @Test("A decoded snapshot equals the encoded one and encodes to the same bytes")
    func snapshot() throws {
        let back = try FluxReplicaImage(Self.image.bytes)
        #expect(back == Self.image)
        #expect(back.bytes == Self.image.bytes)
    }

    @Test("Entries and snapshots in a log have exactly the bytes of their format")
    func format() {
        var envelope = FluxReplicaEnvelope(writer: 0x0102, number: 3, floor: 2, base: 1, givenUp: [2])
        envelope.check = FluxReplicaCheck(count: 5, version: 6, sum: 7)
        envelope.action = FluxReplicaContent(version: 8, bytes: [0xaa])
        let numbers: [UInt8] = [3, 2, 1, 1, 2, 5, 6, 7, 8]
        #expect(
            envelope.bytes == [1, 3, 2, 1, 0, 0, 0, 0, 0, 0] + numbers.flatMap { [$0, 0, 0, 0, 0, 0, 0, 0] } + [0xaa])
        #expect(envelope.key == "76-3")
        var ledger = FluxReplicaLedger()
        (ledger.position, ledger.count) = (9, 8)
        ledger.writers = [
            7: FluxReplicaLedger.Writer(floor: 3, decided: [4, 5], last: 6), 2: FluxReplicaLedger.Writer(),
        ]
        let image = FluxReplicaImage(ledger: ledger, state: FluxReplicaContent(version: 1, bytes: [0xbb]))
        let parts: [UInt8] = [1, 9, 8, 2] + [2, 0, 0, 0] + [7, 3, 6, 2, 4, 5]
        #expect(image.bytes == [1] + parts.flatMap { [$0, 0, 0, 0, 0, 0, 0, 0] } + [0xbb])
        #expect(FluxReplicaBytes.checksum(Array("foobar".utf8)) == 0x8594_4171_f739_67e8)
    }

    @Test("A snapshot with more entries than positions is rejected as damaged", arguments: [1_001, UInt64.max])
    func damaged(count: UInt64) {
        var image = Self.image
        image.ledger.count = count
        #expect(throws: FluxReplicaMalformed(description: "it has \(count) entries up to 1000")) {
            try FluxReplicaImage(image.bytes)
        }
    }

    @Test("A snapshot with as many entries as positions is accepted")
    func withoutGaps() throws {
        var image = Self.image
        image.ledger.count = image.ledger.position
        #expect(try FluxReplicaImage(image.bytes) == image)
    }

    @Test("A version that no program can have is rejected")
    func noVersion() {
        var bytes = Self.image.bytes
        bytes[8] = 0x80
        #expect(throws: FluxReplicaMalformed(description: "\(UInt64(1) << 63 + 2) is not a version")) {
            try FluxReplicaImage(bytes)
        }
    }

    @Test("Bytes that are cut off at any length or have another format are rejected")
    func damaged() {
        for bytes in [Self.envelopes[1].bytes, Self.image.bytes.dropLast(3)] as [[UInt8]] {
            for count in bytes.indices {
                #expect(throws: FluxReplicaMalformed.self) {
                    if bytes == Self.envelopes[1].bytes {
                        _ = try FluxReplicaEnvelope(Array(bytes.prefix(count)))
                    } else {
                        _ = try FluxReplicaImage(Array(bytes.prefix(count)))
                    }
                }
            }
        }
        var newer = Self.envelopes[0].bytes
        newer[0] = 2
        #expect(throws: FluxReplicaMalformed(description: "its format is 2, and 1 is known")) {
            try FluxReplicaEnvelope(newer)
        }
    }
}
