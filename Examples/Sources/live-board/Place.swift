import FluxCore
import FluxPersistence
import FluxReplication
import Foundation
import JetStreamLog
import Logging
import SQLiteLog
import Synchronization
import Terminal

/// Where all boards are saved: in a folder of this server alone, or on a log that several servers share.
enum Place: Sendable {
    case folder(String, FolderLock, Disk)
    /// `patience` is how long a command waits for the log.
    case log(JetStreamLog, patience: Duration)

    /// Opens a folder, creating it if needed; throws if another program uses it.
    init(folder: String) throws {
        do {
            try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        } catch let error as CocoaError {
            // The error's description has every detail that Foundation knows; the system's message is enough.
            let code = (error.underlying as? POSIXError)?.code
            if code == .EEXIST { throw Failure("\(folder): it is not a folder") }
            let reason = code.map { String(cString: strerror($0.rawValue)) }
            throw Failure("\(folder): the folder cannot be created: \(reason ?? error.localizedDescription)")
        }
        self = .folder(folder, try FolderLock(folder), Disk())
    }

    /// Connects to the servers of a log; waits up to `patienceAtStart` if none of them answers.
    init(
        servers: [String], stream: String, replicas: Int, patience: Duration, logger: Logger
    ) async throws {
        let deadline = ContinuousClock.now + Self.patienceAtStart
        while true {
            do throws(FluxSharedLogError) {
                self = .log(
                    try await JetStreamLog(
                        servers: servers, stream: stream, replicas: replicas, timeout: Self.silence),
                    patience: patience)
                return
            } catch .unavailable(let reason) where .now < deadline {
                logger.notice("Waiting for the log", metadata: ["reason": "\(reason)"])
            } catch .unavailable(let reason), .refused(let reason) {
                throw Failure("the log at \(JetStreamLog.shown(servers)): \(reason)")
            }
            try await Task.sleep(for: .milliseconds(500))
        }
    }

    /// The time without an answer after which the log counts as unavailable, and is asked again.
    private static let silence = Duration.seconds(2)
    /// How long a starting server waits for its log, which may start later.
    static let patienceAtStart = Duration.seconds(60)

    var isShared: Bool { if case .log = self { true } else { false } }

    private static func path(of name: String, in folder: String) -> String { "\(folder)/\(name).sqlite" }

    private static func isFolder(_ path: String) -> Bool {
        var isFolder: ObjCBool = false
        return FileManager.default.fileExists(atPath: path, isDirectory: &isFolder) && isFolder.boolValue
    }

    /// Opens the state saved under a name, or starts with an initial state.
    ///
    /// Opening a state on a log may take `patience`; nil: as long as a command may wait.
    func open<State: FluxState & Codable>(
        _ name: String, initialState: State, within patience: Duration? = nil, logger: Logger
    ) async throws -> Storage<State> where State.Action: Codable {
        switch self {
        case .folder(let folder, _, let disk):
            let path = Self.path(of: name, in: folder)
            do {
                // On a slow disk, the database may still be closing after its last use.
                let log = try await SQLiteLog<State>.opened(path: path, coding: .json(), patience: 60)
                let watched = WatchedLog(log: log, path: path, disk: disk)
                // No dispatcher, because the actions are meant for this store alone.
                let store = try await FluxStore.restored(
                    from: watched, initialState: initialState, dispatcher: nil, compactEvery: 1_000
                ) { failure in
                    logger.error(
                        "Changes cannot be saved", metadata: ["path": "\(path)", "error": "\(failure)"])
                }
                disk.note(nil, at: path)
                return .disk(store, DiskFile(path: path, disk: disk) { [weak watched] in watched?.close() })
            } catch let failure as SQLiteLog<State>.Failure
                where (failure.isOfDisk || failure.reason is SQLiteLog<State>.InUse) && !Self.isFolder(path)
            {
                let isInUse = failure.reason is SQLiteLog<State>.InUse
                let error: any Error = isInUse ? Failure("\(path): another program has it open; end that one") : failure
                disk.noteUnopened(error)
                logger.error("A database cannot be opened", metadata: ["error": "\(error)"])
                throw Unsaved(.unopened, error, isInUse: isInUse)
            } catch let failure as SQLiteLog<State>.Failure {
                let lost = Self.isFolder(path) ? "\(path): it is a folder, not a database" : "\(failure)"
                disk.noteLost(lost, at: path)
                throw Failure(lost)
            }
        case .log(let logs, let usual):
            let replica = try await FluxReplica.joined(
                log: logs.log(for: name), initialState: initialState, coding: .json, checkEvery: 100,
                snapshotEvery: 1_000, within: patience ?? usual)
            return .log(replica, patience: usual)
        }
    }
}

extension FluxReplicaCoding where State: Codable, State.Action: Codable {
    /// With sorted keys, equal states have equal bytes on every server.
    fileprivate static var json: Self {
        Self(
            // All servers have to decide alike. Since version 2 a command has a limit of bytes; since 3 it says what an
            // undo takes back.
            version: 3,
            encode: { Array(encoded($0)) },
            decode: { bytes, _ in try JSONDecoder().decode(State.Action.self, from: Data(bytes)) },
            encodeState: { Array(encoded($0)) },
            decodeState: { bytes, _ in try JSONDecoder().decode(State.self, from: Data(bytes)) })
    }
}

// MARK: - One store

/// A store, and where its actions are saved.
enum Storage<State: FluxState>: Sendable {
    /// In a database of this server.
    case disk(FluxStore<State>, DiskFile)
    /// On a log, from which every server applies the same actions in the same order.
    case log(FluxReplica<State>, patience: Duration)

    var store: FluxStore<State> {
        switch self {
        case .disk(let store, _): store
        case .log(let replica, _): replica.store
        }
    }

    /// The condition of the shared log; nil: there is none.
    var condition: FluxReplicaStatus.Condition? {
        switch self {
        case .disk: nil
        case .log(let replica, _): replica.status.state.condition
        }
    }

    /// Applies an action, and returns once it is saved.
    func dispatch(_ action: State.Action) async throws {
        switch self {
        case .disk(let store, let file):
            try file.requireSaving()
            store.dispatch(action: action)
            if let error = await store.handle.failure() { throw file.problem(.pending, error) }
        case .log(let replica, let patience):
            try await replica.dispatch(action: action, within: patience)
        }
    }

    /// Applies an action as soon as possible, without waiting for the result.
    func dispatchSoon(_ action: State.Action) {
        switch self {
        case .disk(let store, _): store.dispatch(action: action)
        case .log(let replica, let patience):
            Task { try? await replica.dispatch(action: action, within: patience) }
        }
    }

    /// Returns the current state once it is saved.
    func kept() async throws -> State {
        switch self {
        case .disk(let store, let file):
            let state = store.state
            if let error = await store.handle.failure() { throw file.problem(.hidden, error) }
            return state
        case .log(let replica, _):
            // A state that is known to be wrong is not shown.
            if case .diverged(let divergence) = replica.status.state.condition {
                throw FluxReplicaError.diverged(divergence)
            }
            return replica.store.state
        }
    }

    /// Waits for everything that other servers have acknowledged so far; returns at once if the log is not shared.
    func catchUp() async throws {
        if case .log(let replica, let patience) = self { try await replica.upToDate(within: patience) }
    }

    /// Closes the database even if the store is still referenced; later actions are not saved.
    func closeFile() {
        if case .disk(_, let file) = self { file.close() }
    }

    /// Ends the calls that wait for the log, which itself may continue.
    func leaveLog() {
        guard case .log(let replica, _) = self else { return }
        // Not awaited: everything acknowledged is in the log, and its servers may not answer for a long time.
        Task { await replica.close() }
    }
}

// MARK: - Boards

extension Place {
    /// The known state of the disk; nil: the boards are on a log.
    var disk: Disk? { if case .folder(_, _, let disk) = self { disk } else { nil } }

    /// Saves a new board in a folder before it can be opened; on a log, ``board(_:named:logger:)`` does so.
    func found(_ id: BoardID, _ board: Board, logger: Logger) async throws {
        guard case .folder(let folder, _, _) = self else { return }
        let path = Self.path(of: Self.name(of: id), in: folder)
        let isNew = !FileManager.default.fileExists(atPath: path)
        do {
            let storage = try await open(Self.name(of: id), initialState: BoardState(), logger: logger)
            if storage.store.state.revision == 0 { try await storage.dispatch(.found(board)) }
        } catch let error as Unsaved {
            // A database that could not be created is an empty file. Any other may still be saved, but is not listed.
            if isNew && error.outcome == .unopened { try? FileManager.default.removeItem(atPath: path) }
            throw Unsaved(.refused, error)
        }
    }

    /// Throws if there are boards although the catalogue lists none.
    func requireNoBoards() throws {
        guard case .folder(let folder, _, _) = self else { return }
        // The first board may exist already, if its creation was interrupted.
        let welcome = Self.path(of: Self.name(of: .welcome), in: folder)
        let board = try FileManager.default.contentsOfDirectory(atPath: folder).sorted().first {
            $0.hasPrefix(Self.boardPrefix) && $0.hasSuffix(".sqlite") && "\(folder)/\($0)" != welcome
        }
        guard let board else { return }
        throw Failure(
            "\(folder): \(board) exists, but catalogue.sqlite lists no boards: it was lost or emptied. Restore it, or move "
                + "the boards elsewhere to start over.")
    }

    /// Removes a board that was created in vain and is not listed.
    func discard(_ id: BoardID) {
        guard case .folder(let folder, _, _) = self else { return }
        let path = Self.path(of: Self.name(of: id), in: folder)
        // SQLite does not remove the second file if it still has the first one open.
        for file in [path, path + "-wal"] { try? FileManager.default.removeItem(atPath: file) }
    }

    /// Opens a board that the catalogue lists; throws if the folder does not have it.
    func board(_ id: BoardID, named title: String, logger: Logger) async throws -> Storage<BoardState> {
        guard case .folder(let folder, _, let disk) = self else {
            let storage = try await open(Self.name(of: id), initialState: BoardState(), logger: logger)
            let board = id == .welcome ? Board.welcome : Board(title: title, lists: [])
            if storage.store.state.revision == 0 { try await storage.dispatch(.found(board)) }
            return storage
        }
        let path = Self.path(of: Self.name(of: id), in: folder)
        // Checked first, because opening a database creates it.
        if FileManager.default.fileExists(atPath: path) {
            do {
                let storage = try await open(Self.name(of: id), initialState: BoardState(), logger: logger)
                if storage.store.state.revision > 0 { return storage }
            } catch let failure as Failure {
                logger.error("A board cannot be read", metadata: ["error": "\(failure)"])
                throw Problem.damaged(id)
            }
        }
        let loss = "A board is lost: its file is missing or empty"
        disk.noteLost("\(path): \(loss)", at: path)
        logger.error("\(loss)", metadata: ["path": "\(path)"])
        throw Problem.lost(id)
    }

    private static let boardPrefix = "board-"
    private static func name(of id: BoardID) -> String { boardPrefix + id.rawValue }
}

// MARK: - The disk

/// The known state of the disk under a folder: the writes that failed when last tried, which are retried.
final class Disk: Sendable {
    private struct Failures {
        /// The reasons of failed writes, by the paths of their databases.
        var written: [String: String] = [:]
        /// Why a database could not be opened; it may never be opened again, so any later success clears this.
        var unopened: String?
        /// What is wrong with damaged and missing databases, by their paths, until they can be opened.
        var lost: [String: String] = [:]
    }

    private let failures = Mutex(Failures())
    /// The databases that are being closed, each on its own queue because closing may write.
    let closing = DispatchGroup()

    /// Waits until all these databases are closed, but no longer than a duration.
    func closed(within duration: Duration) async {
        await withCheckedContinuation { continuation in
            DispatchQueue(label: "closed").async { [closing] in
                _ = closing.wait(timeout: .now() + duration / .seconds(1))
                continuation.resume()
            }
        }
    }

    /// Why changes that cannot be saved wait in memory; nil: none do.
    var waiting: String? { failures.withLock { $0.written.values.first } }
    /// Why the last attempt to save or open something failed; nil: none is known to have failed.
    var failure: String? { failures.withLock { $0.written.values.first ?? $0.unopened } }

    /// Why the last write of a database failed; nil: it did not.
    func failure(at path: String) -> String? { failures.withLock { $0.written[path] } }

    /// What is wrong with a damaged or missing database; nil: none is known.
    var lost: String? { failures.withLock { $0.lost.values.first } }

    /// Whether a database is known to be damaged or missing.
    func isLost(_ path: String) -> Bool { failures.withLock { $0.lost[path] != nil } }

    func noteLost(_ failure: String, at path: String) {
        failures.withLock { ($0.lost[path], $0.written[path]) = (failure, nil) }
    }

    func noteUnopened(_ failure: any Error) { failures.withLock { $0.unopened = "\(failure)" } }

    /// Records that a database was opened or written, or why it was not written.
    func note(_ failure: (any Error)?, at path: String) {
        failures.withLock { failures in
            // A lost database is not waiting for a temporary failure to pass.
            failures.written[path] = failures.lost[path] == nil ? failure.map { "\($0)" } : nil
            if failure == nil { (failures.unopened, failures.lost[path]) = (nil, nil) }
        }
    }
}

/// One database on the disk.
struct DiskFile: Sendable {
    let path: String
    let disk: Disk
    let close: @Sendable () -> Void

    /// Throws if the last write failed: changes that cannot be saved would only pile up in memory.
    func requireSaving() throws {
        if let failure = disk.failure(at: path) { throw Unsaved(.refused, failure) }
        if disk.isLost(path) { throw Problem.gone }
    }

    /// The error for a request that depends on something unsaved.
    func problem(_ outcome: Unsaved.Outcome, _ error: any Error) -> any Error {
        disk.isLost(path) ? Problem.gone : Unsaved(outcome, error)
    }
}

/// A log that reports the result of each write to its ``Disk``, and is closed on its own queue.
private final class WatchedLog<Log: FluxLog>: FluxLog {
    private struct Closed: FluxPermanentError {}

    /// Nil after closing.
    private let log: Mutex<Log?>
    private let path: String
    private let disk: Disk

    init(log: Log, path: String, disk: Disk) {
        self.log = Mutex(log)
        (self.path, self.disk) = (path, disk)
    }

    // The last reference is released in a task, whose thread must not wait for the disk.
    deinit { close() }

    func close() {
        guard let log = log.withLock({ exchange(&$0, with: nil) }) else { return }
        DispatchQueue(label: "closing").async(group: disk.closing) { withExtendedLifetime(log) {} }
    }

    func load() async throws -> FluxLogContents<Log.State> { try await opened().load() }

    func append(_ entries: [FluxLogEntry<Log.State.Action>]) async throws {
        try await watched { try await opened().append(entries) }
    }

    func compact(_ snapshot: FluxSnapshot<Log.State>) async throws {
        try await watched { try await opened().compact(snapshot) }
    }

    private func opened() throws -> Log {
        guard let log = log.withLock({ $0 }) else { throw Closed() }
        return log
    }

    private func watched(_ write: () async throws -> Void) async throws {
        do {
            try await write()
            disk.note(nil, at: path)
        } catch {
            // Unlike a full disk, this does not pass by itself, and does not prevent other boards from being created.
            if (error as? SQLiteLog<Log.State>.Failure)?.reason is SQLiteLog<Log.State>.Moved {
                disk.noteLost("\(error)", at: path)
            } else {
                disk.note(error, at: path)
            }
            throw error
        }
    }
}

/// A change was not saved, or it is unknown whether it was.
struct Unsaved: Error, CustomStringConvertible {
    /// The consequence for the caller, as a text for the client.
    enum Outcome: String {
        case refused = "Nothing was changed. Try again later."
        case unopened = "The board cannot be opened, and nothing was changed. Try again later."
        case pending = "Saving is retried, so the command may still be applied."
        case hidden = "Some changes are not saved yet, and unsaved changes are not shown. Try again later."
    }

    let outcome: Outcome
    let description: String
    /// Whether another program has the database open.
    let isInUse: Bool

    init(_ outcome: Outcome, _ reason: Any, isInUse: Bool = false) {
        (self.outcome, description, self.isInUse) = (outcome, "\(reason)", isInUse)
    }
}

/// Keeps a second program out of a folder; the system releases the lock when the first one ends, however it ends.
final class FolderLock: Sendable {
    private let descriptor: Int32

    init(_ folder: String) throws {
        descriptor = open("\(folder)/lock", O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        if descriptor < 0 { throw SystemFailure("\(folder)/lock") }
        if flock(descriptor, LOCK_EX | LOCK_NB) != 0 {
            let isTaken = errno == EWOULDBLOCK
            close(descriptor)
            throw isTaken ? Failure("\(folder): another live-board is using it") : SystemFailure("\(folder)/lock")
        }
    }

    deinit { close(descriptor) }
}
