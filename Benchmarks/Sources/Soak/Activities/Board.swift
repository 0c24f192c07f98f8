import FluxCore

/// Counts marks, and checks whether those of each producer arrive in order.
struct Board: FluxState {
    enum Action: FluxAction {
        case mark(producer: Int, number: Int)
        /// Changes the state without announcing it.
        case quiet
    }

    private(set) var count = 0
    private(set) var quiet = 0
    private(set) var disorder = 0
    /// Distinguishes one order of all marks from any other.
    private(set) var order = 0
    private(set) var last: [Int: Int] = [:]

    mutating func handle(action: Action) -> Board? {
        switch action {
        case .mark(let producer, let number):
            count += 1
            if number != last[producer, default: 0] + 1 { disorder += 1 }
            last[producer] = number
            order = order &* 31 &+ producer &* 1_000_003 &+ number
            return self
        case .quiet:
            quiet += 1
            return nil
        }
    }
}

/// Handles the same actions, and records their order.
struct Journal: FluxState {
    private(set) var count = 0
    private(set) var order = 0

    mutating func handle(action: Board.Action) -> Journal? {
        guard case .mark(let producer, let number) = action else { return nil }
        count += 1
        order = order &* 31 &+ producer &* 1_000_003 &+ number
        return self
    }
}

/// A sum that is stored in a file.
struct Total: FluxState {
    enum Action: FluxAction { case add(Int) }
    struct NoNumber: Error {}

    var sum = 0

    mutating func handle(action: Action) -> Total? {
        if case .add(let amount) = action { sum += amount }
        return self
    }

    static func bytes(_ total: Total) throws -> [UInt8] { Array("\(total.sum)".utf8) }

    static func total(_ bytes: [UInt8]) throws -> Total {
        guard let sum = Int(String(decoding: bytes, as: UTF8.self)) else { throw NoNumber() }
        return Total(sum: sum)
    }
}
