import FluxCore
import FluxReplication

/// The state of one key: the items that were appended, in order.
struct Ledger: FluxState {
    struct Action: FluxAction {
        let item: UInt64
    }

    private(set) var items: [UInt64] = []
    private(set) var digest = Digest()
    /// The last action of each client.
    private(set) var last: [UInt32: UInt32] = [:]

    mutating func handle(action: Action) -> Ledger? {
        append(action.item)
        return self
    }

    private mutating func append(_ item: UInt64) {
        items.append(item)
        digest.add(item)
        last[UInt32(item >> 32)] = UInt32(truncatingIfNeeded: item)
    }

    static let coding = FluxReplicaCoding<Ledger>(
        encode: { bytes(of: $0.item) },
        decode: { bytes, _ in Action(item: number(bytes[...])) },
        encodeState: { $0.items.flatMap(bytes(of:)) },
        decodeState: { bytes, _ in
            var ledger = Ledger()
            for start in stride(from: 0, to: bytes.count, by: 8) { ledger.append(number(bytes[start..<start + 8])) }
            return ledger
        })

    private static func bytes(of number: UInt64) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }
    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}

/// Stands for a whole list: its count, and a sum that depends on each item and on their order.
struct Digest: Hashable {
    var count = 0
    var sum: UInt64 = 0xCBF2_9CE4_8422_2325

    mutating func add(_ item: UInt64) {
        count += 1
        sum = (sum ^ item) &* 0x0000_0100_0000_01B3
        sum ^= sum >> 29
    }
}
