import FluxCore
import FluxEffects
import FluxInspector
import FluxObservation
import FluxPersistence
import FluxReplication
import FluxRouting
import Logging
import NIOCore
import Synchronization

/// The id of a board, which may be part of a URL path and so of a file name.
struct BoardID: RawRepresentable, Hashable, Codable, Sendable {
    let rawValue: String

    init?(rawValue: String) {
        let allowed = rawValue.utf8.allSatisfy { byte in
            byte == UInt8(ascii: "-") || (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        }
        guard allowed, (1...40).contains(rawValue.utf8.count) else { return nil }
        self.rawValue = rawValue
    }

    static let welcome = BoardID(rawValue: "welcome")!

    static func random() -> BoardID {
        BoardID(rawValue: String((0..<10).map { _ in "abcdefghijkmnpqrstuvwxyz23456789".randomElement()! }))!
    }
}

/// All boards of a place, each opened on demand and closed when it is no longer used.
final class Boards: Sendable {
    struct Settings: Sendable {
        var idle = Duration.seconds(60)
        var open = 1_000
        var boards = 1_000
        var limits = BoardLimits()
        var commands = 256
        var waiting = 4_096
        /// Inspects each store when it is opened.
        var inspector: FluxInspector?
    }

    private let desks: FluxFamily<BoardID, Desk>
    private let catalogue: Storage<Catalogue>
    private let settings: Settings
    private let place: Place
    private let logger: Logger
    private let telling: FluxSubscription?
    private let isClosing = Mutex(false)

    // MARK: - Opening and closing

    /// Reads the catalogue, and creates the first board if there is none.
    init(_ settings: Settings, at place: Place, logger: Logger) async throws {
        (self.settings, self.place, self.logger) = (settings, place, logger)
        let catalogue = try await place.open(
            "catalogue", initialState: Catalogue(), within: Place.patienceAtStart, logger: logger)
        self.catalogue = catalogue
        telling = Self.tell(catalogue, logger)
        settings.inspector?.inspect(catalogue.store, name: "catalogue")

        // One limit for all boards: it bounds the commands that wait for the disk, regardless of the number of boards.
        let house = FluxLimit(settings.commands, waiting: settings.waiting)
        desks = FluxFamily(idle: settings.idle, limit: settings.open) { id in
            var logger = logger
            logger[metadataKey: "board"] = "\(id.rawValue)"
            guard let title = try await Self.title(of: id, in: catalogue) else { throw Problem.unknownBoard }
            let storage = try await place.board(id, named: title, logger: logger)
            let desk = Desk(storage, limits: settings.limits, house: house, logger: logger) {
                title, revision, isAnother in
                // Rarely needed: the catalogue follows the boards, which know their own titles. If the desk has
                // reported another title before, that one may still be on its way to the log and not yet in the
                // catalogue.
                if isAnother || catalogue.store.state.titles[id.rawValue] != title {
                    catalogue.dispatchSoon(.name(id, title, revision: place.isShared ? revision : nil))
                }
            }
            settings.inspector?.inspect(desk.storage.store, name: "board \(id.rawValue)")
            return desk
        } close: { desk in
            try await desk.close()
        }
        if catalogue.store.state.titles.isEmpty {
            try place.requireNoBoards()
            try await place.found(.welcome, .welcome, logger: logger)
            try await catalogue.dispatch(.add(.welcome, Board.welcome.title, limit: 1))
        }
    }

    /// Logs whether boards on a shared log can be changed, once for all boards.
    private static func tell(_ catalogue: Storage<Catalogue>, _ logger: Logger) -> FluxSubscription? {
        guard case .log(let replica, _) = catalogue else { return nil }
        return replica.status.subscribe(to: \.condition.isWritable) { [weak replica] isWritable in
            guard let condition = replica?.status.state.condition, condition != .closed else { return }
            if isWritable { return logger.notice("The log answers") }
            logger.error("Boards cannot be changed", metadata: ["log": "\(condition)"])
        }
    }

    /// Refuses commands from now on, and ends all streams.
    func endWatching() {
        isClosing.withLock { $0 = true }
        for desk in desks.state.values { desk.feed.end() }
    }

    /// Saves all boards; throws if anything is not saved.
    func close(within duration: Duration) async throws {
        let deadline = ContinuousClock.now + duration
        let report = await desks.shutdown(within: duration)
        catalogue.leaveLog()
        let isListed = await catalogue.store.flush(within: max(.zero, deadline - .now))
        // A request that was cut off may keep the boards in memory for a while, so the file is closed explicitly.
        if isListed { catalogue.closeFile() }
        await place.disk?.closed(within: max(.zero, deadline - .now))
        if let (id, error) = report.failed.first { throw Failure("board \(id.rawValue) was not saved: \(error)") }
        if let id = report.late.first {
            throw Failure("board \(id.rawValue) was not saved in time, or was still being opened")
        }
        if !isListed { throw Failure("the catalogue was not saved in time") }
    }

    // MARK: - Using boards

    /// All boards, sorted by title.
    var list: [(id: String, title: String)] {
        catalogue.store.state.titles.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map { ($0.key, $0.value) }
    }

    func contains(_ id: BoardID) async throws -> Bool { try await Self.title(of: id, in: catalogue) != nil }

    /// The title of a board, which another server may have just created; nil: there is no such board.
    private static func title(of id: BoardID, in catalogue: Storage<Catalogue>) async throws -> String? {
        if catalogue.store.state.titles[id.rawValue] == nil { try await catalogue.catchUp() }
        return catalogue.store.state.titles[id.rawValue]
    }

    /// Creates a board and returns once it is saved.
    func add(title: String) async throws -> BoardID {
        if isClosing.withLock({ $0 }) { throw Problem.closing }
        let id = BoardID.random()
        let full = Refusal.full("There can be at most \(settings.boards) boards.")
        if catalogue.store.state.titles.count >= settings.boards { throw full }
        // A board that cannot be saved waits in memory, and so would each one after it.
        if let failure = place.disk?.waiting { throw Unsaved(.refused, failure) }
        // The board is saved before its catalogue entry, so a listed board without a file has been lost.
        try await place.found(id, Board(title: title, lists: []), logger: logger)
        // Many requests may arrive at once; the catalogue refuses those beyond the limit.
        defer { if catalogue.store.state.titles[id.rawValue] == nil { place.discard(id) } }
        try await catalogue.dispatch(.add(id, title, limit: settings.boards))
        if catalogue.store.state.titles[id.rawValue] == nil { throw full }
        return id
    }

    /// Carries out a command and returns once its change is saved.
    func perform(_ command: BoardCommand, on id: BoardID, by client: String) async throws -> Receipt {
        if isClosing.withLock({ $0 }) { throw Problem.closing }
        return try await desks.with(id) { try await $0.perform(command, by: client) }
    }

    /// The saved state of a board, encoded.
    func snapshot(of id: BoardID) async throws -> ByteBuffer {
        try await desks.with(id) { desk in desk.feed.snapshot(of: try await desk.storage.kept()) }
    }

    /// Opens a board and keeps it open until the lease is released.
    func lease(_ id: BoardID) async throws -> FluxLease<Desk> {
        let lease = try await desks.lease(id)
        // The board may have been opened after `endWatching()` ended all streams.
        if isClosing.withLock({ $0 }) { lease.member.feed.end() }
        return lease
    }

    /// Sends a heartbeat on all streams.
    func beat() { for desk in desks.state.values { desk.feed.beat() } }

    /// The worst known condition of this server, without checking the disk or the log.
    var health: Health {
        let conditions = [catalogue.condition] + desks.state.values.map(\.storage.condition)
        let known =
            conditions.compactMap { $0 }.map(Health.init)
            + [Health(failureOfDisk: place.disk?.failure), Health(lost: place.disk?.lost)]
        return known.max { $0.status < $1.status } ?? Health()
    }
}

/// The health of a server, reported to its operators.
struct Health: Encodable {
    enum Status: String, Encodable, Comparable {
        case ok
        /// The log does not answer, or the disk accepts no writes: boards cannot be changed.
        case readOnly = "read-only"
        /// A board is not shown, or can no longer change.
        case failed

        static func < (one: Status, other: Status) -> Bool { one != other && (one == .ok || other == .failed) }
    }

    var status = Status.ok
    var detail: String?

    init() {}

    init(failureOfDisk failure: String?) {
        if let failure { (status, detail) = (.readOnly, failure) }
    }

    init(lost board: String?) {
        if let board { (status, detail) = (.failed, board) }
    }

    init(_ condition: FluxReplicaStatus.Condition) {
        switch condition {
        case .following, .loading, .closed: break
        case .unavailable(let reason): (status, detail) = (.readOnly, reason)
        case .diverged(let divergence): (status, detail) = (.failed, "\(divergence)")
        case .stopped(let stop): (status, detail) = (.failed, "\(stop)")
        }
    }
}

/// The titles of all boards.
struct Catalogue: FluxState, Codable {
    enum Action: FluxAction, Codable {
        case add(BoardID, String, limit: Int)
        /// Servers that share a log add the revision at which they read the title: these actions come in any order.
        case name(BoardID, String, revision: Int? = nil)
    }

    private(set) var titles: [String: String] = [:]
    /// The revisions at which titles were read, where an action gave one.
    private var revisions: [String: Int]?

    mutating func handle(action: Action) -> Catalogue? {
        switch action {
        case .add(let id, let title, let limit):
            if titles.count >= limit || titles[id.rawValue] != nil { return nil }
            titles[id.rawValue] = title
        case .name(let id, let title, let revision):
            if let revision {
                if revision <= revisions?[id.rawValue] ?? 0 { return nil }
                revisions = (revisions ?? [:]).merging([id.rawValue: revision]) { $1 }
            }
            titles[id.rawValue] = title
        }
        return self
    }
}

/// An error message for the user, in one line.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

extension Problem {
    /// The board existed, but its database is missing or empty.
    static func lost(_ board: BoardID) -> Problem {
        Problem(
            kind: "lost", status: .internalServerError, title: "The data of this board is missing",
            detail:
                "The board is \(board.rawValue). The server's log names the file to restore.")
    }

    /// The database of a board was removed or replaced while it was open, and the next write noticed.
    static let gone = Problem(
        kind: "lost", status: .internalServerError, title: "The stored data is missing",
        detail: "Its file was deleted, moved or replaced while the server had it open; the server's log names it. "
            + "The command may still be applied if that same file is restored.")

    /// The database of a board cannot be read, although the disk works.
    static func damaged(_ board: BoardID) -> Problem {
        Problem(
            kind: "damaged", status: .internalServerError, title: "This board cannot be read",
            detail: "The board is \(board.rawValue). The server's log names the file and the reason.")
    }
}

extension FluxFamilyError: KnownError {
    var problem: Problem { .closing }
}

extension Unsaved: KnownError {
    var problem: Problem { .unsaved(outcome.rawValue) }
}

extension FluxReplicaError: KnownError {
    var problem: Problem {
        switch self {
        case .unconfirmed: .unconfirmed("The log has not answered in time. The command may still be applied.")
        case .notApplied, .unavailable: .unavailable("The server keeps trying to reach the log.")
        case .diverged: .unavailable("This server's copy of the board is wrong and is being repaired.")
        case .stopped: .unavailable("This server is too old to read what others have written, or it is damaged.")
        case .closed, .cancelled: .closing
        }
    }
}
