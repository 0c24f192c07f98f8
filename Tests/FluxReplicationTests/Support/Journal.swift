import FluxCore
import FluxReplication

/// The actions of clients, in the order in which they were applied; each client counts from 1.
struct Journal: FluxState, Equatable {
    struct Action: FluxAction, Hashable {
        var client: UInt8
        var number: UInt8
    }

    var lines: [Action] = []
    /// Whether it behaves as on a node with a different `handle`.
    var isWrong = false

    mutating func handle(action: Action) -> Journal? {
        lines.append(isWrong ? Action(client: 255, number: 255) : action)
        return self
    }
}

extension Journal.Action: ExpressibleByArrayLiteral, CustomStringConvertible {
    init(arrayLiteral elements: UInt8...) { self.init(client: elements[0], number: elements[1]) }

    var description: String { "\(client)/\(number)" }
}

extension FluxReplicaCoding<Journal> {
    struct Odd: Error {}

    /// A coding of a version: client 200 needs version 2, client 201 never encodes, and states encode only if they may.
    static func journal(version: Int = 1, statesEncode: @escaping @Sendable () -> Bool = { true }) -> FluxReplicaCoding
    {
        FluxReplicaCoding(version: version) { action in
            action.client == 200 ? 2 : 1
        } encode: { action in
            if action.client == 201 { throw Odd() }
            return [action.client, action.number]
        } decode: { bytes, _ in
            if bytes.count != 2 { throw Odd() }
            return Journal.Action(client: bytes[0], number: bytes[1])
        } encodeState: { state in
            if !statesEncode() { throw Odd() }
            return state.lines.flatMap { [$0.client, $0.number] }
        } decodeState: { bytes, _ in
            Journal(
                lines: stride(from: 0, to: bytes.count, by: 2).map {
                    Journal.Action(client: bytes[$0], number: bytes[$0 + 1])
                })
        }
    }
}
