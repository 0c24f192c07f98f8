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

/// What may stand in a path as the name of a board, and so in the name of a file.
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

/// All boards of a place, each of which is opened when somebody asks for it and put away when nobody needs it.
final class Boards: Sendable {
    struct Settings: Sendable {
        var idle = Duration.seconds(60)
        var open = 1_000
        var boards = 1_000
        var limits = BoardLimits()
        var commands = 256
        var waiting = 4_096
        /// Shown all stores as they are opened.
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

    /// Reads which boards there are, and makes the first where there is none.
    init(_ settings: Settings, at place: Place, logger: Logger) async throws {
        (self.settings, self.place, self.logger) = (settings, place, logger)
        let catalogue = try await place.open(
            "catalogue", initialState: Catalogue(), within: Place.patienceAtStart, logger: logger)
        self.catalogue = catalogue
        telling = Self.tell(catalogue, logger)
        settings.inspector?.inspect(catalogue.store, name: "catalogue")

        // The places of all boards: what waits for the disk is bounded, however many boards there are.
        let house = FluxLimit(settings.commands, waiting: settings.waiting)
        desks = FluxFamily(idle: settings.idle, limit: settings.open) { id in
            var logger = logger
            logger[metadataKey: "board"] = "\(id.rawValue)"
            guard let title = try await Self.title(of: id, in: catalogue) else { throw Problem.unknownBoard }
            let storage = try await place.board(id, named: title, logger: logger)
            let desk = Desk(storage, limits: settings.limits, house: house, logger: logger) {
                title, revision, isAnother in
                // Seldom: the catalogue follows the boards, which know their titles themselves. Where another was told before, that
                // may be on its way to the log, and is not in the catalogue yet.
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

    /// Tells how a shared log is doing, once for all boards.
    private static func tell(_ catalogue: Storage<Catalogue>, _ logger: Logger) -> FluxSubscription? {
        guard case .log(let replica, _) = catalogue else { return nil }
        return replica.status.subscribe(to: \.condition.isWritable) { [weak replica] isWritable in
            guard let condition = replica?.status.state.condition, condition != .closed else { return }
            if isWritable { return logger.notice("The log answers") }
            logger.error("Boards cannot be changed", metadata: ["log": "\(condition)"])
        }
    }

    /// From now on there are no more commands, and all streams end.
    func endWatching() {
        isClosing.withLock { $0 = true }
        for desk in desks.state.values { desk.feed.end() }
    }

    /// Saves all boards; throws where something is not saved.
    func close(within duration: Duration) async throws {
        let deadline = ContinuousClock.now + duration
        let report = await desks.shutdown(within: duration)
        catalogue.leaveLog()
        let isListed = await catalogue.store.flush(within: max(.zero, deadline - .now))
        // A request that was cut off may have the boards for a while yet.
        if isListed { catalogue.closeFile() }
        await place.disk?.closed(within: max(.zero, deadline - .now))
        if let (id, error) = report.failed.first { throw Failure("board \(id.rawValue) was not saved: \(error)") }
        if let id = report.late.first { throw Failure("board \(id.rawValue) was not saved in time") }
        if !isListed { throw Failure("the catalogue was not saved in time") }
    }

    // MARK: - Using boards

    /// The boards that there are, by their titles.
    var list: [(id: String, title: String)] {
        catalogue.store.state.titles.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map { ($0.key, $0.value) }
    }

    func contains(_ id: BoardID) async throws -> Bool { try await Self.title(of: id, in: catalogue) != nil }

    /// The title of a board, which another server may just have made; nil: there is none.
    private static func title(of id: BoardID, in catalogue: Storage<Catalogue>) async throws -> String? {
        if catalogue.store.state.titles[id.rawValue] == nil { try await catalogue.catchUp() }
        return catalogue.store.state.titles[id.rawValue]
    }

    /// Makes a board, and returns once that is kept.
    func add(title: String) async throws -> BoardID {
        if isClosing.withLock({ $0 }) { throw Problem.closing }
        let id = BoardID.random()
        let full = Refusal.full("There are \(settings.boards) boards at most.")
        if catalogue.store.state.titles.count >= settings.boards { throw full }
        // One that cannot be saved waits for that in memory, and so would each after it.
        if let failure = place.disk?.waiting { throw Unsaved(.refused, failure) }
        // First the board, and then that there is one: so a board that is listed and has no file was lost.
        try await place.found(id, Board(title: title, lists: []), logger: logger)
        // Many may come at once, and the catalogue refuses those that are too many.
        defer { if catalogue.store.state.titles[id.rawValue] == nil { place.discard(id) } }
        try await catalogue.dispatch(.add(id, title, limit: settings.boards))
        if catalogue.store.state.titles[id.rawValue] == nil { throw full }
        return id
    }

    /// Carries out a command, and returns once it is kept.
    func perform(_ command: BoardCommand, on id: BoardID, by client: String) async throws -> Receipt {
        if isClosing.withLock({ $0 }) { throw Problem.closing }
        return try await desks.with(id) { try await $0.perform(command, by: client) }
    }

    /// A board as it is kept, encoded.
    func snapshot(of id: BoardID) async throws -> ByteBuffer {
        try await desks.with(id) { desk in desk.feed.snapshot(of: try await desk.storage.kept()) }
    }

    /// Keeps a board open for as long as somebody watches.
    func lease(_ id: BoardID) async throws -> FluxLease<Desk> {
        let lease = try await desks.lease(id)
        // It may have been opened after all streams were told to end.
        if isClosing.withLock({ $0 }) { lease.member.feed.end() }
        return lease
    }

    /// Lets all streams show that they are alive.
    func beat() { for desk in desks.state.values { desk.feed.beat() } }

    /// How this server is doing: the worst of what is known, without a look at the disk or the log.
    var health: Health {
        let conditions = [catalogue.condition] + desks.state.values.map(\.storage.condition)
        let known =
            conditions.compactMap { $0 }.map(Health.init)
            + [Health(failureOfDisk: place.disk?.failure), Health(lost: place.disk?.lost)]
        return known.max { $0.status < $1.status } ?? Health()
    }
}

/// What is told of a server to who looks after it.
struct Health: Encodable {
    enum Status: String, Encodable, Comparable {
        case ok
        /// The log does not answer, or the disk takes nothing: boards cannot be changed.
        case readOnly = "read-only"
        /// A board is not shown, or will not change any more.
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

/// Which boards there are.
struct Catalogue: FluxState, Codable {
    enum Action: FluxAction, Codable {
        case add(BoardID, String, limit: Int)
        /// Servers that share a log give the revision at which they have read the title: they may come in any order.
        case name(BoardID, String, revision: Int? = nil)
    }

    private(set) var titles: [String: String] = [:]
    /// The revisions at which titles were read, of those that were given one.
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

/// What is told to the user, as one line.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

extension Problem {
    /// There was a board, and its database is gone or has nothing in it.
    static func lost(_ board: BoardID) -> Problem {
        Problem(
            kind: "lost", status: .internalServerError, title: "What there was of this board is not there any more",
            detail:
                "The board is \(board.rawValue). The log of the server names the file that would have to be put back.")
    }

    /// The database of a board was taken away while it was open: the next write has found that.
    static let gone = Problem(
        kind: "lost", status: .internalServerError, title: "What was stored is not there any more",
        detail: "Its file was deleted, moved or replaced while the server had it open; the log of the server names it. "
            + "What was sent may come yet, if that very file is put back.")

    /// The database of a board cannot be read, and not for want of a disk that works.
    static func damaged(_ board: BoardID) -> Problem {
        Problem(
            kind: "damaged", status: .internalServerError, title: "This board cannot be read",
            detail: "The board is \(board.rawValue). The log of the server names the file, and says why.")
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
        case .unconfirmed: .unconfirmed("The log has not answered in time. What was sent may come yet.")
        case .notApplied, .unavailable: .unavailable("It is asked again and again.")
        case .diverged: .unavailable("This server has found its copy to be wrong, and is mending it.")
        case .stopped: .unavailable("This server is too old for what others have written.")
        case .closed, .cancelled: .closing
        }
    }
}
