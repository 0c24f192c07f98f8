import FluxCore
import FluxPersistence
import Foundation
import GRDB
import SQLiteLog
import Synchronization
import Workbench

extension Workload {
    static let durableOne = durable(callers: 1)
    static let durableSome = durable(callers: 16)
    static let durableMany = durable(callers: 256)

    /// Returns a workload of durable dispatches by a number of simultaneous callers, in nanoseconds each.
    private static func durable(callers: Int) -> Workload {
        Workload(
            name: "w9x\(callers)",
            title: "durable dispatches, \(callers) callers at once, SQLite in WAL mode, synchronous = FULL",
            cells: [
                Cell(Name.transactions) { effort in
                    try effort.measureDurable(callers) { path in
                        let database = try openByHand(path)
                        let store = LockedStore()
                        return Durable(total: { store.state.count }) {
                            store.dispatch(.add(1))
                            try await database.write { try $0.insertByHand(number: nil) }
                        }
                    }
                },
                Cell(Name.batches) { effort in
                    try effort.measureDurable(callers) { path in
                        let log = BatchedByHand(try openByHand(path))
                        return Durable(total: { log.total }) { try await log.dispatch() }
                    }
                },
                Cell(Name.flux) { effort in
                    try effort.measureDurable(callers) { path in
                        let log = try SQLiteLog<Sample>(path: path, coding: .plain)
                        let store = FluxStore(initialState: Sample(), dispatcher: nil, log: log)
                        return Durable(total: { store.state.count }) { try await store.dispatch(durably: .add(1)) }
                    }
                },
            ],
            floor: Name.batches,
            bounds: [.ratio(atMost: 1.1)]
        )
    }

    static let restart = Workload(
        name: "w12",
        title: "a restart with 1,000,000 actions since the snapshot, per action",
        cells: [
            Cell(Name.byHand) { effort in
                try effort.measureRestart { path, actions in
                    try await openByHand(path).write { database in
                        for number in 1...actions { try database.insertByHand(number: number) }
                    }
                } restart: { path in
                    let database = try openByHand(path)
                    let store = LockedStore()
                    try await database.read { database in
                        let rows = try Row.fetchCursor(database, sql: "SELECT bytes FROM actions ORDER BY number")
                        while let row = try rows.next() { store.dispatch(.add(number(in: row[0]))) }
                    }
                    return store.state.count
                }
            },
            Cell(Name.flux) { effort in
                try effort.measureRestart { path, actions in
                    let entries = (1...actions).map { FluxLogEntry(number: UInt64($0), action: Sample.Action.add(1)) }
                    try await SQLiteLog<Sample>(path: path, coding: .plain).append(entries)
                } restart: { path in
                    let log = try SQLiteLog<Sample>(path: path, coding: .plain)
                    return try await FluxStore.restored(from: log, initialState: Sample(), dispatcher: nil).state.count
                }
            },
        ],
        floor: Name.byHand,
        bounds: [.ratio(atMost: 1.5)]
    )
}

extension Name {
    fileprivate static let transactions = "GRDB, a transaction each"
    fileprivate static let batches = "GRDB, one per batch"
    fileprivate static let byHand = "GRDB by hand"
}

extension SQLiteLog<Sample>.Coding {
    /// Encodes a number as eight bytes, so that the database is measured and not a coder.
    fileprivate static let plain = Self(
        encodeState: { data(of: $0.count) },
        encodeAction: { action in
            switch action {
            case .add(let amount): data(of: amount)
            }
        },
        decodeState: { _, data in
            var state = Sample()
            state.count = number(in: data)
            return state
        },
        decodeAction: { _, data in .add(number(in: data)) })
}

private func data(of number: Int) -> Data { withUnsafeBytes(of: number) { Data($0) } }
private func number(in data: Data) -> Int { data.withUnsafeBytes { $0.loadUnaligned(as: Int.self) } }

// MARK: - By hand

private func openByHand(_ path: String) throws -> DatabaseQueue {
    var configuration = Configuration()
    configuration.prepareDatabase { database in
        try database.execute(
            sql: "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL")
    }
    let database = try DatabaseQueue(path: path, configuration: configuration)
    try database.write { database in
        try database.execute(
            sql: """
                CREATE TABLE IF NOT EXISTS actions
                    (number INTEGER PRIMARY KEY, version INTEGER NOT NULL, bytes BLOB NOT NULL)
                """)
    }
    return database
}

extension Database {
    fileprivate func insertByHand(number: Int?) throws {
        try cachedStatement(sql: "INSERT INTO actions VALUES (?, 1, ?)").execute(arguments: [number, data(of: 1)])
    }
}

/// What one would write for many callers: all waiting callers share the next transaction.
private final class BatchedByHand: Sendable {
    private struct Waiting {
        var callers: [CheckedContinuation<Void, any Error>] = []
        var isWriting = false
        var store = 0
    }

    private let database: DatabaseQueue
    private let waiting = Mutex(Waiting())

    init(_ database: DatabaseQueue) {
        self.database = database
    }

    var total: Int { waiting.withLock { $0.store } }

    func dispatch() async throws {
        try await withCheckedThrowingContinuation { continuation in
            let starts = waiting.withLock { waiting in
                waiting.store += 1
                waiting.callers.append(continuation)
                defer { waiting.isWriting = true }
                return !waiting.isWriting
            }
            if starts { Task { await write() } }
        }
    }

    private func write() async {
        while true {
            let batch = waiting.withLock { waiting in
                if waiting.callers.isEmpty { waiting.isWriting = false }
                defer { waiting.callers = [] }
                return waiting.callers
            }
            if batch.isEmpty { return }
            do {
                try await database.write { database in
                    for _ in batch { try database.insertByHand(number: nil) }
                }
                for caller in batch { caller.resume() }
            } catch {
                for caller in batch { caller.resume(throwing: error) }
            }
        }
    }
}

// MARK: - Measuring

/// A store of actions, and the number of actions that it has applied.
private struct Durable: Sendable {
    let total: @Sendable () -> Int
    let dispatch: @Sendable () async throws -> Void
}

/// A folder on disk that is removed when the object is released.
private final class DiskFolder {
    let url = FileManager.default.temporaryDirectory.appending(component: "flux-\(UUID().uuidString)")

    init() throws { try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true) }
    deinit { try? FileManager.default.removeItem(at: url) }

    var path: String { url.appending(component: "log.sqlite").path }
}

extension Effort {
    /// Times callers, each of which waits for one dispatch before the next.
    fileprivate func measureDurable(_ callers: Int, _ make: (_ path: String) throws -> Durable) throws -> Double {
        let folder = try DiskFolder()
        let durable = try make(folder.path)
        let each = max(1, 64 / callers)
        return try measure(callers * each, total: durable.total) { _ in
            try outcome {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<callers {
                        group.addTask { for _ in 0..<each { try await durable.dispatch() } }
                    }
                    try await group.waitForAll()
                }
            }
        }
    }

    /// Times restarts on one database, which is written first and then closed, because only one log may have it open.
    fileprivate func measureRestart(
        _ write: @escaping @Sendable (_ path: String, _ actions: Int) async throws -> Void,
        restart: @escaping @Sendable (_ path: String) async throws -> Int
    ) throws -> Double {
        let folder = try DiskFolder()
        let path = folder.path
        let actions = seconds == 0 ? 10_000 : 1_000_000
        try outcome { try await write(path, actions) }
        return try measure {
            var total = 0
            let time = try ContinuousClock().measure { total = try outcome { try await restart(path) } }
            try expect("total", total, actions)
            return time / .nanoseconds(actions)
        }
    }
}

/// Waits for asynchronous work on this thread, and returns its value or throws its error.
private func outcome<Value: Sendable>(of work: @escaping @Sendable () async throws -> Value) throws -> Value {
    let result = Left<Value>()
    blocking {
        do {
            let value = try await work()
            result.value.withLock { $0 = .success(value) }
        } catch {
            result.value.withLock { $0 = .failure(error) }
        }
    }
    return try result.value.withLock { $0! }.get()
}

/// The result that a task leaves for the waiting thread.
private final class Left<Value: Sendable>: Sendable {
    let value = Mutex<Result<Value, any Error>?>(nil)
}
