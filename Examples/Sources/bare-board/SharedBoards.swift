import Foundation

/// The boards of a folder, each opened on the first request for it, and open from then on.
actor SharedBoards {
    private let folder: String
    private var boards: [String: Task<SharedBoard, any Error>] = [:]
    private var isEnded = false

    init(folder: String) async throws {
        self.folder = folder
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        _ = try await open("welcome", founding: .welcome)
    }

    /// Returns a board, or nil if there is none of that name.
    func board(_ id: String) async throws -> SharedBoard? {
        if let board = boards[id] { return try await board.value }
        let isAllowed = id.wholeMatch(of: /[a-z0-9-]{1,40}/) != nil
        guard isAllowed, FileManager.default.fileExists(atPath: path(id)) else { return nil }
        return try await open(id, founding: Board(title: id, lists: []))
    }

    /// Creates a board, and returns its name once it is on disk.
    func add(title: String) async throws -> String {
        let id = String((0..<10).map { _ in "abcdefghijkmnpqrstuvwxyz23456789".randomElement()! })
        _ = try await open(id, founding: Board(title: title, lists: []))
        return id
    }

    func titles() async throws -> [(id: String, title: String)] {
        var titles: [(id: String, title: String)] = []
        for name in try FileManager.default.contentsOfDirectory(atPath: folder) where name.hasSuffix(".sqlite") {
            let id = String(name.dropFirst("board-".count).dropLast(".sqlite".count))
            if let board = try await board(id) { titles.append((id, await board.title)) }
        }
        return titles.sorted { ($0.title, $0.id) < ($1.title, $1.id) }
    }

    func beat() async { for board in await opened() { await board.beat() } }

    func endWatching() async {
        isEnded = true
        for board in await opened() { await board.endWatching() }
    }

    private func opened() async -> [SharedBoard] {
        var opened: [SharedBoard] = []
        for board in boards.values { if let board = try? await board.value { opened.append(board) } }
        return opened
    }

    /// Opens a board once, even if several requests need it at the same time.
    private func open(_ id: String, founding: Board) async throws -> SharedBoard {
        let opening = Task { [isEnded, path = path(id)] in
            let board = try await SharedBoard(path: path, founding: founding)
            if isEnded { await board.endWatching() }
            return board
        }
        boards[id] = opening
        do {
            return try await opening.value
        } catch {
            boards[id] = nil
            throw error
        }
    }

    private func path(_ id: String) -> String { "\(folder)/board-\(id).sqlite" }
}
