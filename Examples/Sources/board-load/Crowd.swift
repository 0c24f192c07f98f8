import Foundation
import NIOCore
import NIOPosix

/// All clients that watch, on one loop.
///
/// Unchecked: its mutable state is used on its loop only.
final class Crowd: @unchecked Sendable {
    private let loop: any EventLoop
    private let ledgers: [Ledger]
    private var watchers: [(watcher: Watcher, ledger: Ledger)] = []
    private var channels: [any Channel] = []

    init(_ paths: [String], commands: Commands, on loop: any EventLoop) {
        self.loop = loop
        ledgers = paths.map { Ledger(path: $0, commands: commands) }
    }

    /// Connects a number of clients, shared out over the boards; the first few read nothing.
    func connect(_ count: Int, silent: Int, to server: SocketAddress) async throws {
        for wave in stride(from: 0, to: count, by: 100) {
            let connections = (wave..<min(wave + 100, count)).map { number in
                connect(number, isSilent: number < silent, to: server)
            }
            let channels = try await EventLoopFuture.whenAllSucceed(connections, on: loop).get()
            try await loop.submit { self.channels += channels }.get()
        }
    }

    private func connect(_ number: Int, isSilent: Bool, to server: SocketAddress) -> EventLoopFuture<any Channel> {
        var bootstrap = ClientBootstrap(group: loop)
        if isSilent {
            bootstrap = bootstrap.channelOption(.autoRead, value: false)
                .channelOption(.socketOption(.so_rcvbuf), value: 4_096)
        }
        bootstrap = bootstrap.channelInitializer { channel in
            channel.eventLoop.makeCompletedFuture {
                let ledger = self.ledgers[number % self.ledgers.count]
                if isSilent {
                    try channel.pipeline.syncOperations.addHandler(SilentWatcher(ledger.path))
                } else {
                    let watcher = Watcher(ledger)
                    self.watchers.append((watcher, ledger))
                    try channel.pipeline.syncOperations.addHandler(watcher)
                }
            }
        }
        return bootstrap.connect(to: server)
    }

    /// Waits until every client that reads has received something.
    func isThere() async throws {
        try await wait("some clients received no state") { $0.watchers.allSatisfy { $0.watcher.revision != nil } }
    }

    /// Waits until every client that reads has reached the last revision of its board.
    func isUpToDate(_ revisions: [Int]) async throws {
        try await loop.submit {
            for (ledger, revision) in zip(self.ledgers, revisions) { ledger.last = revision }
        }.get()
        try await wait("some clients did not receive all changes") { crowd in
            crowd.watchers.allSatisfy { !$0.watcher.isOpen || $0.watcher.revision == $0.ledger.last }
        }
    }

    private func wait(_ message: String, until isDone: @escaping @Sendable (Crowd) -> Bool) async throws {
        for _ in 0..<600 {
            if try await loop.submit({ isDone(self) }).get() { return }
            try await Task.sleep(for: .milliseconds(50))
        }
        throw Failure("\(message) within 30 seconds")
    }

    /// Compares what the watchers have seen with the boards.
    func findings(_ boards: [Board]) async throws -> Findings {
        try await loop.submit {
            var findings = Findings()
            for (watcher, ledger) in self.watchers {
                if !watcher.isOpen { ledger.complain("a client was disconnected") }
                if watcher.revision != ledger.last {
                    ledger.complain("a client ended on revision \(watcher.revision ?? 0), not \(ledger.last ?? 0)")
                }
            }
            let decoding = Decoding()
            for (ledger, board) in zip(self.ledgers, boards) {
                if ledger.replay(decoding) != board { ledger.complain("the changes lead to a different board") }
                findings.delays.add(ledger.delays)
                findings.skipped += ledger.skipped
                findings.complaints += ledger.complaints
            }
            return findings
        }.get()
    }

    func close() async throws {
        for channel in try await loop.submit({ self.channels }).get() { channel.close(promise: nil) }
    }
}

/// What all watchers together have seen.
struct Findings: Sendable {
    var delays = Delays()
    /// How many changes a client received only as part of a state.
    var skipped = 0
    /// What went wrong.
    var complaints: [String] = []
}

/// Decodes boards and changes from JSON.
struct Decoding {
    private struct State: Decodable { var board: Board }
    private struct Numbered: Decodable { var change: BoardChange }

    private let decoder = JSONDecoder()

    func board(_ bytes: [UInt8]?) -> Board? {
        bytes.flatMap { try? decoder.decode(State.self, from: Data($0)) }?.board
    }

    func change(_ bytes: [UInt8]) -> BoardChange? {
        (try? decoder.decode(Numbered.self, from: Data(bytes)))?.change
    }
}
