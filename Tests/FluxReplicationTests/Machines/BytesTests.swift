import FluxCore
import FluxTesting
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
            envelope.bytes.dropLast(8)
                == [2, 3, 2, 1, 0, 0, 0, 0, 0, 0] + numbers.flatMap { [$0, 0, 0, 0, 0, 0, 0, 0] } + [0xaa])
        #expect(envelope.key == "76-3")
        var ledger = FluxReplicaLedger()
        (ledger.position, ledger.count) = (9, 8)
        ledger.writers = [
            7: FluxReplicaLedger.Writer(floor: 3, decided: [4, 5], last: 6), 2: FluxReplicaLedger.Writer(),
        ]
        let image = FluxReplicaImage(ledger: ledger, state: FluxReplicaContent(version: 1, bytes: [0xbb]))
        let parts: [UInt8] = [1, 9, 8, 2] + [2, 0, 0, 0] + [7, 3, 6, 2, 4, 5]
        #expect(image.bytes.dropLast(8) == [2] + parts.flatMap { [$0, 0, 0, 0, 0, 0, 0, 0] } + [0xbb])
        for bytes in [envelope.bytes, image.bytes] {
            #expect(
                bytes.suffix(8) == FluxReplicaBytes.bytes(of: [FluxReplicaBytes.checksum(bytes.dropLast(8))]))
        }
        #expect(FluxReplicaBytes.checksum(Array("foobar".utf8)) == 0x8594_4171_f739_67e8)
    }

    // Part of the format: nodes with another version of this library compare it with theirs.
    @Test("The checksum that a node sends is that of its snapshot's bytes, without the one at their end")
    func checksum() async throws {
        let log = FluxTestLog()
        let replica = try await join(log, checkEvery: 2, snapshotEvery: 2)
        for number in UInt8(1)...3 { try await replica.dispatch(action: [1, number]) }
        // Waits for the save.
        await replica.close()
        let bytes = try #require(try await log.snapshot()).state
        let sent = try log.entries.compactMap { try FluxReplicaEnvelope($0.entry).check }
        #expect(sent == [FluxReplicaCheck(count: 2, version: 1, sum: FluxReplicaBytes.checksum(bytes.dropLast(8)))])
    }

    @Test("A snapshot with more entries than positions is rejected as damaged", arguments: [1_001, UInt64.max])
    func damaged(count: UInt64) {
        var image = Self.image
        image.ledger.count = count
        #expect(throws: FluxReplicaUnreadable(description: "it has \(count) entries up to 1000")) {
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
        var bytes = Array(Self.image.bytes.dropFirst().dropLast(8))
        bytes[7] = 0x80
        bytes = FluxReplicaBytes.sealed(bytes)
        #expect(throws: FluxReplicaUnreadable(description: "\(UInt64(1) << 63 + 2) is not a version")) {
            try FluxReplicaImage(bytes)
        }
    }

    @Test("An entry with a valid checksum that ends too early is rejected", arguments: [envelopes[0], envelopes[2]])
    func short(_ envelope: FluxReplicaEnvelope) {
        // Neither has bytes of the user at its end, so each is incomplete without its last byte.
        let bytes = envelope.bytes.dropFirst().dropLast(8)
        for count in 0..<bytes.count {
            #expect(throws: FluxReplicaUnreadable(description: "it ends after \(count + 1) bytes")) {
                try FluxReplicaEnvelope(FluxReplicaBytes.sealed(Array(bytes.prefix(count))))
            }
        }
    }

    @Test("Bytes that are cut off at any length, differ in any bit or have another format are rejected")
    func damaged() {
        func isRead(_ bytes: [UInt8], asImage: Bool) -> Bool {
            if asImage { return (try? FluxReplicaImage(bytes)) != nil }
            return (try? FluxReplicaEnvelope(bytes)) != nil
        }
        for (bytes, isImage) in Self.envelopes.map({ ($0.bytes, false) }) + [(Self.image.bytes, true)] {
            #expect(isRead(bytes, asImage: isImage))
            for index in bytes.indices {
                #expect(!isRead(Array(bytes.prefix(index)), asImage: isImage), "\(index) bytes")
                for bit in 0..<8 {
                    var flipped = bytes
                    flipped[index] ^= 1 << bit
                    #expect(!isRead(flipped, asImage: isImage), "bit \(bit) of byte \(index)")
                }
            }
        }
        var newer = Self.envelopes[0].bytes
        newer[0] = 3
        #expect(throws: FluxReplicaUnreadable(description: "its format is 3, and 2 is known")) {
            try FluxReplicaEnvelope(newer)
        }
    }
}
