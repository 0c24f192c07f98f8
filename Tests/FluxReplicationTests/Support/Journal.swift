import FluxCore
import FluxReplication

/// What clients have written, in the order in which it was applied: each of them counts from 1.
struct Journal: FluxState, Equatable {
    struct Action: FluxAction, Hashable {
        var client: UInt8
        var number: UInt8
    }

    var lines: [Action] = []
    /// What a node with another `handle` would have.
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

    /// A coding of a version; client 200 is known from version 2 on, 201 does not encode, nor do states while they may not.
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
