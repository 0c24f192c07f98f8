import FluxCore
import FluxEffects
import FluxInspector
import FluxPersistence
import FluxRouting
import Foundation
import Logging
import SQLiteLog
import Synchronization
import Terminal

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

/// All boards of a folder, each of which is opened when somebody asks for it and put away when nobody needs it.
final class Boards: Sendable {
    struct Settings: Sendable {
        var folder: String
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
    private let catalogue: FluxStore<Catalogue>
    private let settings: Settings
    private let lock: FolderLock
    private let isClosing = Mutex(false)

    // MARK: - Opening and closing

    /// Opens the folder, and makes the first board where there is none; throws where another program uses it.
    init(_ settings: Settings, logger: Logger) async throws {
        try FileManager.default.createDirectory(atPath: settings.folder, withIntermediateDirectories: true)
        lock = try FolderLock(settings.folder)
        self.settings = settings
        let catalogue = try await FluxStore.restored(
            from: SQLiteLog<Catalogue>(path: "\(settings.folder)/catalogue.sqlite", coding: .json()),
            initialState: Catalogue(), dispatcher: nil, compactEvery: 1_000
        ) { logger.error("The catalogue cannot be saved", metadata: ["error": "\($0)"]) }
        self.catalogue = catalogue
        settings.inspector?.inspect(catalogue, name: "catalogue")

        // The places of all boards: what waits for the disk is bounded, however many boards there are.
        let house = FluxLimit(settings.commands, waiting: settings.waiting)
        desks = FluxFamily(idle: settings.idle, limit: settings.open) { id, error in
            logger.error("A board cannot be put away", metadata: ["board": "\(id.rawValue)", "error": "\(error)"])
        } make: { id in
            guard let title = catalogue.state.titles[id.rawValue] else { throw Problem.unknownBoard }
            let desk = try await Desk(
                path: "\(settings.folder)/board-\(id.rawValue).sqlite",
                founding: id == .welcome ? .welcome : Board(title: title, lists: []), limits: settings.limits,
                house: house, logger: logger
            ) { title in
                // Seldom: the catalogue follows the boards, which know their titles themselves.
                if catalogue.state.titles[id.rawValue] != title { catalogue.dispatch(action: .name(id, title)) }
            }
            settings.inspector?.inspect(desk.store, name: "board \(id.rawValue)")
            return desk
        } close: { desk in
            try await desk.close()
        }
        if catalogue.state.titles.isEmpty {
            catalogue.dispatch(action: .add(.welcome, Board.welcome.title, limit: 1))
            if let error = await catalogue.handle.failure() { throw error }
        }
    }

    /// From now on there are no more commands, and all streams end.
    func endWatching() {
        isClosing.withLock { $0 = true }
        for desk in desks.state.values { desk.feed.end() }
    }

    /// Saves all boards, and closes the folder; throws where something is not saved.
    func close(within duration: Duration) async throws {
        let deadline = ContinuousClock.now + duration
        let report = await desks.shutdown(within: duration)
        let isListed = await catalogue.flush(within: max(.zero, deadline - .now))
        if let (id, error) = report.failed.first { throw Failure("board \(id.rawValue) was not saved: \(error)") }
        if let id = report.late.first { throw Failure("board \(id.rawValue) was not saved in time") }
        if !isListed { throw Failure("the catalogue was not saved in time") }
    }

    // MARK: - Using boards

    /// The boards that there are, by their titles.
    var list: [(id: String, title: String)] {
        catalogue.state.titles.sorted { ($0.value, $0.key) < ($1.value, $1.key) }.map { ($0.key, $0.value) }
    }

    func contains(_ id: BoardID) -> Bool { catalogue.state.titles[id.rawValue] != nil }

    /// Makes a board, and returns once that is on disk.
    func add(title: String) async throws -> BoardID {
        if isClosing.withLock({ $0 }) { throw Problem.closing }
        let id = BoardID.random()
        guard catalogue.dispatch(action: .add(id, title, limit: settings.boards)) != nil else {
            throw Refusal.full("There are \(settings.boards) boards at most.")
        }
        if await catalogue.handle.failure() != nil { throw Unsaved() }
        return id
    }

    /// Carries out a command, and returns once it is on disk.
    func perform(_ command: BoardCommand, on id: BoardID, by client: String) async throws -> Receipt {
        if isClosing.withLock({ $0 }) { throw Problem.closing }
        return try await desks.with(id) { try await $0.perform(command, by: client) }
    }

    /// A board as it is on disk.
    func state(of id: BoardID) async throws -> BoardState { try await desks.with(id) { try await $0.saved() } }

    /// Keeps a board open for as long as somebody watches.
    func lease(_ id: BoardID) async throws -> FluxLease<Desk> {
        let lease = try await desks.lease(id)
        // It may have been opened after all streams were told to end.
        if isClosing.withLock({ $0 }) { lease.member.feed.end() }
        return lease
    }

    /// Lets all streams show that they are alive.
    func beat() { for desk in desks.state.values { desk.feed.beat() } }
}

/// Which boards there are.
struct Catalogue: FluxState, Codable {
    enum Action: FluxAction, Codable {
        case add(BoardID, String, limit: Int)
        case name(BoardID, String)
    }

    private(set) var titles: [String: String] = [:]

    mutating func handle(action: Action) -> Catalogue? {
        switch action {
        case .add(let id, let title, let limit):
            if titles.count >= limit || titles[id.rawValue] != nil { return nil }
            titles[id.rawValue] = title
        case .name(let id, let title):
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

extension FluxFamilyError: KnownError {
    var problem: Problem { .closing }
}

extension Unsaved: KnownError {
    var problem: Problem { .unsaved }
}
