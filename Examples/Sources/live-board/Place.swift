import FluxCore
import FluxPersistence
import FluxReplication
import Foundation
import JetStreamLog
import Logging
import SQLiteLog
import Synchronization
import Terminal

/// Where all boards are: in a folder of this server alone, or on a log that several servers share.
enum Place: Sendable {
    case folder(String, FolderLock)
    /// The duration is how long a command waits for the log.
    case log(JetStreamLog, patience: Duration)

    /// Opens a folder, which is made if it is not there; throws where another program uses it.
    init(folder: String) throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        self = .folder(folder, try FolderLock(folder))
    }

    /// Connects to the servers of a log; waits for a while where none of them answers.
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
                throw Failure("the log at \(servers.joined(separator: ", ")): \(reason)")
            }
            try await Task.sleep(for: .milliseconds(500))
        }
    }

    /// After how long without an answer the log counts as away, and is asked again.
    private static let silence = Duration.seconds(2)
    /// How long a server that is started waits for its log: it may have been started first.
    static let patienceAtStart = Duration.seconds(60)

    var isShared: Bool { if case .log = self { true } else { false } }

    /// Opens what is kept under a name, or begins with a state; a log may take as long as a command waits, if not told otherwise.
    func open<State: FluxState & Codable>(
        _ name: String, initialState: State, within patience: Duration? = nil, logger: Logger
    ) async throws -> Storage<State> where State.Action: Codable {
        switch self {
        case .folder(let folder, _):
            let disk = Disk()
            let path = "\(folder)/\(name).sqlite"
            // On no dispatcher: what is dispatched is for this store alone.
            let store = try await FluxStore.restored(
                from: SQLiteLog<State>(path: path, coding: .json()), initialState: initialState, dispatcher: nil,
                compactEvery: 1_000
            ) { failure in
                disk.isFailing = true
                logger.error("What was changed cannot be saved", metadata: ["path": "\(path)", "error": "\(failure)"])
            }
            return .disk(store, disk)
        case .log(let logs, let usual):
            let replica = try await FluxReplica.joined(
                log: logs.log(for: name), initialState: initialState, coding: .json, checkEvery: 100,
                snapshotEvery: 1_000, within: patience ?? usual)
            return .log(replica, patience: usual)
        }
    }
}

extension FluxReplicaCoding where State: Codable, State.Action: Codable {
    /// With sorted keys: equal states are equal bytes on every server.
    fileprivate static var json: Self {
        Self(
            encode: { Array(encoded($0)) },
            decode: { bytes, _ in try JSONDecoder().decode(State.Action.self, from: Data(bytes)) },
            encodeState: { Array(encoded($0)) },
            decodeState: { bytes, _ in try JSONDecoder().decode(State.self, from: Data(bytes)) })
    }
}

// MARK: - One store

/// A store, and how what is dispatched to it outlives the program.
enum Storage<State: FluxState>: Sendable {
    /// In a database here.
    case disk(FluxStore<State>, Disk)
    /// On a log, from which every server applies the same in the same order.
    case log(FluxReplica<State>, patience: Duration)

    var store: FluxStore<State> {
        switch self {
        case .disk(let store, _): store
        case .log(let replica, _): replica.store
        }
    }

    /// How a shared log is doing; nil: there is none.
    var condition: FluxReplicaStatus.Condition? {
        switch self {
        case .disk: nil
        case .log(let replica, _): replica.status.state.condition
        }
    }

    /// Applies an action, and returns once it is kept.
    func dispatch(_ action: State.Action) async throws {
        switch self {
        case .disk(let store, _):
            store.dispatch(action: action)
            _ = try await kept()
        case .log(let replica, let patience):
            try await replica.dispatch(action: action, within: patience)
        }
    }

    /// Applies an action as soon as that can be; it is none that anybody waits for.
    func dispatchSoon(_ action: State.Action) {
        switch self {
        case .disk(let store, _): store.dispatch(action: action)
        case .log(let replica, let patience):
            Task { try? await replica.dispatch(action: action, within: patience) }
        }
    }

    /// The state as it is now, once it is kept.
    func kept() async throws -> State {
        switch self {
        case .disk(let store, _):
            let state = store.state
            if let error = await store.handle.failure() { throw Unsaved(description: "\(error)") }
            return state
        case .log(let replica, _):
            // What is known to be wrong is shown to nobody.
            if case .diverged(let divergence) = replica.status.state.condition {
                throw FluxReplicaError.diverged(divergence)
            }
            return replica.store.state
        }
    }

    /// Waits for all that other servers have acknowledged by now; where there are no others, for nothing.
    func catchUp() async throws {
        if case .log(let replica, let patience) = self { try await replica.upToDate(within: patience) }
    }

    /// Lets out who waits for the log, which may go on without them.
    func leaveLog() {
        guard case .log(let replica, _) = self else { return }
        // Not waited for: what is acknowledged is in the log, and the servers of that may be far from answering.
        Task { await replica.close() }
    }
}

/// What is known of the disk: whether the last write has failed, which is tried again.
final class Disk: Sendable {
    private let failing = Mutex(false)

    var isFailing: Bool {
        get { failing.withLock { $0 } }
        set { failing.withLock { $0 = newValue } }
    }
}

/// A change was not saved, or it is not known whether it was.
struct Unsaved: Error, CustomStringConvertible {
    var description = "nothing can be saved"
}

/// Keeps a second program out of a folder; the system lets go of it when the first ends, in whatever way.
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
