import FluxCore
import Testing

@testable import FluxReplication
@testable import FluxTesting

/// Five nodes on a log, in one thread: a seed decides which node acts next, and what goes wrong.
///
/// Nodes crash and return, stall, and hold wrong states. Requests and answers are lost, delayed, duplicated and
/// reordered. The engine forgets keys almost at once. Snapshots are saved or lost, and the log is trimmed.
struct Simulation {
    struct Wrong: Error, CustomStringConvertible { let description: String }

    /// One of a node's clients, which performs one operation at a time.
    private struct Client {
        var name: UInt8
        var sent: UInt8 = 0
        var wait: Wait?
    }

    private struct Wait {
        var id: UInt64
        /// The action that it dispatches; nil for a read.
        var action: Journal.Action?
        /// The position of the last action that was acknowledged to any client before this wait began.
        var acknowledged: UInt64
    }

    private struct Node {
        var machine: FluxReplicaMachine?
        var state = Journal()
        var clients: [Client]
        var mayTakeOver = true
    }

    private enum Message {
        /// A request to the log.
        case append(node: Int, FluxReplicaEnvelope, isAgain: Bool)
        case end(node: Int, writer: UInt64, id: UInt64)
        /// The log's answer.
        case answer(node: Int, writer: UInt64, id: UInt64, Result<UInt64, FluxSharedLogError>)
    }

    private struct Snapshot {
        var ledger: FluxReplicaLedger
        var state: Journal
    }

    private var random: FluxTestRandom
    private var log = FluxTestLogModel<FluxReplicaEnvelope>(window: 3)
    private var snapshot: Snapshot?
    private var nodes: [Node]
    private var messages: [Message] = []
    /// The entries that were sent, by their keys.
    private var entries: [String: FluxReplicaEnvelope] = [:]
    private var writers: UInt64 = 0
    /// The writers that closed nodes have handed over: all nodes are in one process, except those that crash.
    private var closed: [UInt64: UInt64] = [:]
    private let goesWrong: Bool

    /// The actions that were sent, each with the writer that sent it.
    private(set) var sent: [Journal.Action: UInt64] = [:]
    private(set) var acknowledged: Set<Journal.Action> = []
    private(set) var refused: Set<Journal.Action> = []
    private var lastAcknowledged: UInt64 = 0
    /// How often each kind of event has happened, so that a test can check that all of them do.
    private(set) var counts: [String: Int] = [:]

    init(seed: UInt64) {
        random = FluxTestRandom(seed: seed)
        goesWrong = seed.isMultiple(of: 4)
        nodes = (0..<5).map { node in Node(clients: [Client(name: UInt8(node * 2)), Client(name: UInt8(node * 2 + 1))])
        }
        for node in nodes.indices { join(node) }
    }

    // MARK: - A run

    mutating func run(steps: Int) throws {
        for _ in 0..<steps { try step() }
        try settle()
        try check()
    }

    private mutating func step() throws {
        let node = random.next(below: nodes.count)
        switch random.next(below: 100) {
        case ..<25: begin(node, random.next(below: 2))
        case ..<60: try deliver(isFaulty: true)
        case ..<92: try read(node, atMost: 1 + random.next(below: 4))
        case ..<95: try expire(node)
        case ..<97 where nodes[node].machine == nil: join(node)
        case ..<96: crash(node)
        case ..<97: close(node)
        case ..<98 where goesWrong:
            // A bit has flipped.
            nodes[node].state.lines.append([254, 254])
            note("flipped")
        default: break
        }
    }

    private mutating func note(_ what: String, _ count: Int = 1) { counts[what, default: 0] += count }

    // MARK: - Clients

    private mutating func begin(_ node: Int, _ client: Int) {
        guard nodes[node].machine != nil, nodes[node].clients[client].wait == nil else { return }
        if random.happens(30) {
            guard case .success(let (id, _)) = nodes[node].machine!.read() else { return note("refused") }
            nodes[node].clients[client].wait = Wait(id: id, action: nil, acknowledged: lastAcknowledged)
            messages.append(.end(node: node, writer: nodes[node].machine!.writer, id: id))
        } else {
            takeOver(node)
            guard case .success(var (envelope, _)) = nodes[node].machine!.dispatch() else { return note("refused") }
            nodes[node].clients[client].sent += 1
            let action = Journal.Action(
                client: nodes[node].clients[client].name, number: nodes[node].clients[client].sent)
            sent[action] = envelope.writer
            envelope.action = FluxReplicaContent(version: 1, bytes: [action.client, action.number])
            entries[envelope.key] = envelope
            nodes[node].clients[client].wait = Wait(
                id: envelope.number, action: action, acknowledged: lastAcknowledged)
            messages.append(.append(node: node, envelope, isAgain: false))
        }
    }

    /// Gives the answers that are ready to the clients of a node.
    private mutating func answer(_ node: Int, _ effects: FluxReplicaEffects) throws {
        if effects.opens.isEmpty { return }
        for client in nodes[node].clients.indices {
            guard let wait = nodes[node].clients[client].wait else { continue }
            guard let answer = nodes[node].machine!.answer(of: wait.id) else { continue }
            _ = nodes[node].machine!.finish(wait.id)
            nodes[node].clients[client].wait = nil
            switch (wait.action, answer) {
            case (let action?, .success(let position)):
                acknowledged.insert(action)
                lastAcknowledged = max(lastAcknowledged, position)
                note("acknowledged")
                if !nodes[node].state.lines.contains(action) {
                    throw Wrong(description: "\(action) is acknowledged and not to be read on that node")
                }
            case (nil, .success(let position)):
                note("read")
                if position < wait.acknowledged {
                    throw Wrong(
                        description: "a read at \(position) misses what was acknowledged at \(wait.acknowledged)")
                }
            case (let action?, .failure(.notApplied)):
                refused.insert(action)
                note("not applied")
            case (_, .failure(.diverged)): note("read while diverging")
            case (_, .failure): note("unconfirmed")
            }
        }
    }

    private mutating func expire(_ node: Int) throws {
        guard let wait = nodes[node].clients[random.next(below: 2)].wait else { return }
        var effects = FluxReplicaEffects()
        nodes[node].machine!.expired(wait.id, .seconds(1), &effects)
        try answer(node, effects)
    }

    // MARK: - The network and the log

    private mutating func deliver(isFaulty: Bool) throws {
        if messages.isEmpty { return }
        // Any message, so that messages overtake each other.
        let message = messages.remove(at: random.next(below: messages.count))
        switch message {
        case .append(let node, let envelope, let isAgain):
            let isLost = isFaulty && random.happens(15)
            if isFaulty && random.happens(10) { messages.append(.append(node: node, envelope, isAgain: true)) }
            let answer: Result<UInt64, FluxSharedLogError>
            if isLost {
                answer = .failure(.unavailable("lost"))
            } else {
                let position = log.append(envelope, key: envelope.key)
                answer = isFaulty && random.happens(15) ? .failure(.unavailable("not answered")) : .success(position)
            }
            if !isAgain {
                messages.append(.answer(node: node, writer: envelope.writer, id: envelope.number, answer))
            }
        case .end(let node, let writer, let id):
            let isLost = isFaulty && random.happens(20)
            messages.append(
                .answer(
                    node: node, writer: writer, id: id,
                    isLost ? .failure(.unavailable("lost")) : .success(log.end)))
        case .answer(let node, let writer, let id, let answer):
            guard nodes[node].machine?.writer == writer else { return }
            var effects = FluxReplicaEffects()
            if nodes[node].machine!.answered(id, answer, &effects) {
                note("asked again")
                let key = FluxReplicaEnvelope(writer: writer, number: id, floor: 0, base: 0).key
                messages.append(
                    entries[key].map { .append(node: node, $0, isAgain: false) }
                        ?? .end(node: node, writer: writer, id: id))
            }
            try self.answer(node, effects)
        }
    }

    // MARK: - Nodes

    private mutating func join(_ node: Int) {
        writers += 1
        nodes[node].machine = FluxReplicaMachine(writer: writers, version: 1, checkEvery: 5, snapshotEvery: 8)
        nodes[node].state = Journal()
        nodes[node].mayTakeOver = true
        note("joined")
    }

    /// Before its first dispatch, a node takes over from one that was closed.
    private mutating func takeOver(_ node: Int) {
        guard nodes[node].mayTakeOver, nodes[node].clients.allSatisfy({ $0.wait == nil }) else { return }
        nodes[node].mayTakeOver = false
        let writer = nodes[node].machine!.writer
        nodes[node].machine!.takeOver(from: &closed)
        if nodes[node].machine!.writer != writer { note("taken over") }
    }

    private mutating func close(_ node: Int) {
        var effects = FluxReplicaEffects()
        nodes[node].machine!.closed(&effects)
        nodes[node].machine!.handOver(to: &closed)
        crash(node)
    }

    private mutating func crash(_ node: Int) {
        nodes[node].machine = nil
        for client in nodes[node].clients.indices { nodes[node].clients[client].wait = nil }
        note("crashed")
    }

    /// Reads some entries, or loads a snapshot if one is needed.
    private mutating func read(_ node: Int, atMost limit: Int) throws {
        guard nodes[node].machine != nil else { return }
        if !nodes[node].machine!.isLoaded {
            let start = snapshot ?? Snapshot(ledger: FluxReplicaLedger(window: 12, spread: 6), state: Journal())
            if start.ledger.position < nodes[node].machine!.trimmed {
                throw Wrong(description: "entries are gone that no snapshot has")
            }
            nodes[node].state = start.state
            note("loaded")
            return try follow(node, nodes[node].machine!.loaded(start.ledger)!)
        }
        let position = nodes[node].machine!.position
        if position < log.trimmed {
            var effects = FluxReplicaEffects()
            nodes[node].machine!.readingBegins()
            nodes[node].machine!.readingEnded(FluxSharedLogError.trimmed(through: log.trimmed), &effects)
            note("trimmed")
            return try answer(node, effects)
        }
        for entry in log.entries(after: position).prefix(limit) {
            let step = nodes[node].machine!.receive(entry.position, entry.entry)!
            if step.applies, let action = entry.entry.action {
                _ = nodes[node].state.handle(action: Journal.Action(client: action.bytes[0], number: action.bytes[1]))
            } else if step.diverges == nil {
                note("passed over")
            }
            try follow(node, step)
            if step.diverges != nil { return note("diverged") }
        }
    }

    private mutating func follow(_ node: Int, _ step: FluxReplicaStep) throws {
        try answer(node, step.effects)
        if let objection = step.objection {
            messages.append(.append(node: node, objection, isAgain: true))
            note("objected")
        }
        let ledger = nodes[node].machine!.ledger
        let state = nodes[node].state
        if step.isCheckDue {
            var hasher = Hasher()
            hasher.combine(ledger.position)
            hasher.combine(state.lines)
            var effects = FluxReplicaEffects()
            nodes[node].machine!.checked(UInt64(bitPattern: Int64(hasher.finalize())), &effects)
        }
        // A wrong state that is saved before any node notices becomes the state of all. That case is left out here.
        let isWhole = !state.lines.contains([254, 254])
        if let trim = step.saves, isWhole, !random.happens(20), ledger.position > snapshot?.ledger.position ?? 0 {
            snapshot = Snapshot(ledger: ledger, state: state)
            log.trim(through: trim)
            note("saved")
        }
    }

    // MARK: - The end

    /// Ends all faults: everything is delivered, all nodes are present, and each performs a few more operations.
    private mutating func settle() throws {
        for node in nodes.indices where nodes[node].machine == nil { join(node) }
        for _ in 0..<4 {
            while !messages.isEmpty { try deliver(isFaulty: false) }
            try readAll()
            for node in nodes.indices {
                begin(node, 0)
                while !messages.isEmpty { try deliver(isFaulty: false) }
                try readAll()
            }
        }
    }

    private mutating func readAll() throws {
        var isBehind = true
        while isBehind {
            for node in nodes.indices { try read(node, atMost: .max) }
            isBehind = nodes.contains { !$0.machine!.isLoaded || $0.machine!.position < log.end }
        }
    }

    private func check() throws {
        let lines = nodes[0].state.lines
        for (index, node) in nodes.enumerated() {
            if node.state.lines != lines {
                throw Wrong(description: "node \(index) has \(node.state.lines), node 0 \(lines)")
            }
            if let wait = node.clients.compactMap(\.wait).first {
                throw Wrong(description: "node \(index) still waits: \(wait)")
            }
            if node.machine!.status.condition != .following {
                throw Wrong(description: "node \(index) is \(node.machine!.status)")
            }
            if node.machine!.ledger != nodes[0].machine!.ledger { throw Wrong(description: "the ledgers differ") }
        }
        let applied = Set(lines)
        if applied.count < lines.count { throw Wrong(description: "something is applied twice: \(lines)") }
        if let missing = acknowledged.subtracting(applied).first { throw Wrong(description: "\(missing) is missing") }
        if let odd = applied.intersection(refused).first { throw Wrong(description: "\(odd) was refused and is there") }
        if let odd = lines.first(where: { sent[$0] == nil }) { throw Wrong(description: "\(odd) was never sent") }
        for client in Set(lines.map(\.client)) {
            // An action under way when a node crashes may arrive after those that its client sends through the next.
            let own = lines.filter { $0.client == client }
            let orders =
                [own.filter(acknowledged.contains)]
                + Set(sent.values).map { writer in own.filter { sent[$0] == writer } }
            for order in orders where order.map(\.number) != order.map(\.number).sorted() {
                throw Wrong(description: "the order of a client is \(order)")
            }
        }
    }
}

extension FluxReplicaMachine {
    /// The answer to a waiter; nil while it waits.
    func answer(of id: UInt64) -> Answer? { waits[id]?.answer }
}
