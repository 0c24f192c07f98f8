/// An entry of a shared log: an action, the numbers that make it apply once, and a checksum for nodes to compare.
///
/// All numbers have 8 bytes, in little-endian order.
///
/// | bytes    |                                                                                    |
/// |----------|------------------------------------------------------------------------------------|
/// | 0        | the version of this format, 2                                                      |
/// | 1        | 1 if there is a checksum, plus 2 if there is an action                             |
/// | 2..<34   | the writer, the number, the floor, the base: see `FluxReplicaLedger`               |
/// | 8 and 8 each | the count of numbers that were given up, and these numbers                     |
/// | 24       | if there is a checksum: the count of entries, the version, the checksum            |
/// | the rest | if there is an action: its version, and the user's bytes                           |
/// | last 8   | the checksum of all bytes before                                                   |
nonisolated struct FluxReplicaEnvelope: Equatable {
    var writer: UInt64
    var number: UInt64
    var floor: UInt64
    var base: UInt64
    var givenUp: [UInt64]
    var check: FluxReplicaCheck?
    /// Nil if a node only reports the checksum of its state.
    var action: FluxReplicaContent?

    /// The key by which an engine can recognise the entry.
    var key: String { "\(String(writer, radix: 36))-\(String(number, radix: 36))" }

    var bytes: [UInt8] {
        let parts: UInt8 = (check == nil ? 0 : 1) | (action == nil ? 0 : 2)
        var numbers = [writer, number, floor, base, UInt64(givenUp.count)] + givenUp
        if let check { numbers += [check.count, UInt64(check.version), check.sum] }
        if let action { numbers.append(UInt64(action.version)) }
        return FluxReplicaBytes.sealed([parts] + FluxReplicaBytes.bytes(of: numbers) + (action?.bytes ?? []))
    }

    init(writer: UInt64, number: UInt64, floor: UInt64, base: UInt64, givenUp: [UInt64] = []) {
        (self.writer, self.number, self.floor, self.base) = (writer, number, floor, base)
        self.givenUp = givenUp
    }

    init(_ bytes: [UInt8]) throws(FluxReplicaUnreadable) {
        var reader = try FluxReplicaBytes(sealed: bytes)
        let parts = try reader.byte()
        (writer, number, floor, base) = try (reader.number(), reader.number(), reader.number(), reader.number())
        givenUp = try reader.numbers()
        if parts & 1 != 0 {
            check = try FluxReplicaCheck(count: reader.number(), version: reader.version(), sum: reader.number())
        }
        if parts & 2 != 0 { action = try FluxReplicaContent(version: reader.version(), bytes: reader.rest()) }
    }
}

/// A node's checksum after a number of entries; comparable only with those of nodes that encode the same version.
nonisolated struct FluxReplicaCheck: Equatable {
    var count: UInt64
    var version: Int
    var sum: UInt64
}

/// The bytes that the user's code has encoded, and their version.
nonisolated struct FluxReplicaContent: Equatable {
    var version: Int
    var bytes: [UInt8]
}

/// A snapshot in a shared log: the version of the state, the ledger and the user's bytes, sealed as an entry is.
///
/// It is the same on all nodes that have read the same entries, so the nodes compare its checksum.
nonisolated struct FluxReplicaImage: Equatable {
    var ledger: FluxReplicaLedger
    var state: FluxReplicaContent

    var bytes: [UInt8] {
        var numbers = [UInt64(state.version), ledger.position, ledger.count, UInt64(ledger.writers.count)]
        for (id, writer) in ledger.writers.sorted(by: { $0.key < $1.key }) {
            numbers += [id, writer.floor, writer.last, UInt64(writer.decided.count)] + writer.decided
        }
        return FluxReplicaBytes.sealed(FluxReplicaBytes.bytes(of: numbers) + state.bytes)
    }

    init(ledger: FluxReplicaLedger, state: FluxReplicaContent) {
        (self.ledger, self.state) = (ledger, state)
    }

    init(_ bytes: [UInt8]) throws(FluxReplicaUnreadable) {
        var reader = try FluxReplicaBytes(sealed: bytes)
        let version = try reader.version()
        ledger = FluxReplicaLedger()
        (ledger.position, ledger.count) = try (reader.number(), reader.number())
        // Positions rise by one or more, so a valid count never exceeds the position and cannot overflow.
        if ledger.count > ledger.position {
            throw FluxReplicaUnreadable(description: "it has \(ledger.count) entries up to \(ledger.position)")
        }
        for _ in 0..<(try reader.number()) {
            let id = try reader.number()
            var writer = try FluxReplicaLedger.Writer(floor: reader.number(), last: reader.number())
            writer.decided = try reader.numbers()
            ledger.writers[id] = writer
        }
        state = FluxReplicaContent(version: version, bytes: reader.rest())
    }
}

/// The error for bytes that this program cannot read: damaged, of another format, or with content it cannot decode.
nonisolated struct FluxReplicaUnreadable: Swift.Error, Equatable, CustomStringConvertible {
    /// The version of the content; nil if it is not known.
    var version: Int?
    var description: String
}

/// A reader of encoded bytes, with the functions to encode them.
nonisolated struct FluxReplicaBytes {
    private static let format: UInt8 = 2

    private let bytes: [UInt8]
    private var next = 1

    /// Reads what `sealed` has returned.
    init(sealed all: [UInt8]) throws(FluxReplicaUnreadable) {
        guard let format = all.first else { throw FluxReplicaUnreadable(description: "it is empty") }
        if format != Self.format {
            throw FluxReplicaUnreadable(description: "its format is \(format), and \(Self.format) is known")
        }
        bytes = Array(all.dropLast(8))
        if Self.bytes(of: [Self.checksum(bytes)]) != Array(all.suffix(8)) {
            throw FluxReplicaUnreadable(description: "its checksum is wrong: it is damaged, or a part is missing")
        }
    }

    /// Returns the bytes between the version of the format and a checksum.
    static func sealed(_ bytes: [UInt8]) -> [UInt8] {
        let bytes = [format] + bytes
        return bytes + Self.bytes(of: [checksum(bytes)])
    }

    mutating func byte() throws(FluxReplicaUnreadable) -> UInt8 {
        guard next < bytes.count else { throw FluxReplicaUnreadable(description: "it ends after \(next) bytes") }
        defer { next += 1 }
        return bytes[next]
    }

    mutating func number() throws(FluxReplicaUnreadable) -> UInt64 {
        var number: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 8) { number |= UInt64(try byte()) << shift }
        return number
    }

    /// Reads a count and that many numbers.
    mutating func numbers() throws(FluxReplicaUnreadable) -> [UInt64] {
        var numbers: [UInt64] = []
        for _ in 0..<(try number()) { numbers.append(try number()) }
        return numbers
    }

    mutating func version() throws(FluxReplicaUnreadable) -> Int {
        let number = try number()
        guard let version = Int(exactly: number) else {
            throw FluxReplicaUnreadable(description: "\(number) is not a version")
        }
        return version
    }

    func rest() -> [UInt8] { Array(bytes[next...]) }

    static func bytes(of numbers: [UInt64]) -> [UInt8] {
        numbers.flatMap { number in (0..<8).lazy.map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } }
    }

    /// Returns the 64-bit FNV-1a hash.
    static func checksum(_ bytes: some Swift.Sequence<UInt8>) -> UInt64 {
        var sum: UInt64 = 0xcbf2_9ce4_8422_2325
        for byte in bytes { sum = (sum ^ UInt64(byte)) &* 0x100_0000_01b3 }
        return sum
    }
}
