import Synchronization

/// What the clients did, and the answers they got.
final class History: Sendable {
    struct Operation {
        enum Answer {
            /// Added, at an index of the list and a position of the log.
            case added(Int, UInt64)
            /// Not added, and never will be.
            case refused
            /// May have been added or not.
            case unknown
            /// Seen by a fresh read.
            case seen(Digest)
        }

        let client: UInt32
        let key: String
        /// The item that an append adds; nil: a read.
        let item: UInt64?
        let call: UInt64
        let end: UInt64
        let answer: Answer
    }

    private struct State {
        var operations: [Operation] = []
        var violations: [String] = []
        var localReads = 0
    }

    private let state = Mutex(State())
    private let start = ContinuousClock.now

    /// Nanoseconds since the history began.
    var now: UInt64 {
        let time = (ContinuousClock.now - start).components
        return UInt64(time.seconds) * 1_000_000_000 + UInt64(time.attoseconds / 1_000_000_000)
    }

    var operations: [Operation] { state.withLock { $0.operations } }
    var violations: [String] { state.withLock { $0.violations } }
    var localReads: Int { state.withLock { $0.localReads } }

    func add(_ operation: Operation) { state.withLock { $0.operations.append(operation) } }
    func addLocalRead() { state.withLock { $0.localReads += 1 } }

    /// Records that something does not hold.
    func violated(_ text: String) { state.withLock { $0.violations.append(text) } }

    // MARK: - Looking back

    /// Returns what does not hold, given the list of each key that all nodes agree on.
    func problems(_ lists: [String: [UInt64]]) -> [String] {
        let all = operations
        var problems = violations
        for (key, list) in lists.sorted(by: { $0.key < $1.key }) {
            let operations = all.filter { $0.key == key }
            let present = Set(list)
            if present.count != list.count {
                problems.append("\(key): \(list.count - present.count) actions appear twice")
            }
            var sent: Set<UInt64> = []
            var added: [UInt32: [UInt64]] = [:]
            for operation in operations {
                guard let item = operation.item else { continue }
                switch operation.answer {
                case .added(let index, _):
                    sent.insert(item)
                    added[operation.client, default: []].append(item)
                    if !list.indices.contains(index) || list[index] != item {
                        problems.append("\(key): \(item) was acknowledged at \(index), but is not there")
                    }
                case .refused:
                    if present.contains(item) { problems.append("\(key): \(item) is there, although it was refused") }
                case .unknown, .seen: sent.insert(item)
                }
            }
            for item in list where !sent.contains(item) {
                problems.append("\(key): \(item) is there, although no client sent it")
            }
            let places = Dictionary(list.enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
            for (client, items) in added {
                let order = items.compactMap { places[$0] }
                if order != order.sorted() {
                    problems.append("\(key): the actions of client \(client) are not in its order")
                }
            }
            // An append with an unknown result can have happened only if its item is there at the end.
            let linear = operations.compactMap { operation -> Linearizability.Operation? in
                let kind: Linearizability.Operation.Kind
                var end = operation.end
                switch (operation.answer, operation.item) {
                case (.added(let index, _), let item?): kind = .append(item, index: index)
                case (.unknown, let item?) where present.contains(item):
                    kind = .append(item, index: nil)
                    end = .max
                case (.seen(let digest), _): kind = .read(digest)
                default: return nil
                }
                return Linearizability.Operation(kind: kind, call: operation.call, end: end)
            }
            if !Linearizability.holds(linear) {
                problems.append("\(key): the history of \(linear.count) operations is not linearizable")
            }
        }
        return problems
    }
}
