import NIOCore

/// One board: its state, the part of it that is on disk, and its watchers.
///
/// Commands are applied one after another. Commands that arrive while the disk is busy are written together, and only
/// then shown and acknowledged, so that no client sees what may be lost.
actor SharedBoard {
    /// A piece of a client's stream, which holds a limited number of them.
    enum Piece: Sendable {
        case frames(ByteBuffer)
        /// There was no room for more: from here on the client receives no changes until it asks for the state.
        case missed
    }

    struct Watching: Sendable {
        var id: Int
        var first: ByteBuffer
        var pieces: AsyncStream<Piece>
        var end: @Sendable () -> Void
    }

    private struct Watcher {
        var pieces: AsyncStream<Piece>.Continuation
        var client, name: String?
        var isBehind = false
    }

    private let database: BoardDatabase
    private var state: BoardState
    private var saved: BoardState
    private var savedFrame: ByteBuffer?

    private var unsaved: [BoardAction] = []
    private var waiting: [CheckedContinuation<Void, any Error>] = []
    private var isWriting = false

    private var watchers: [Int: Watcher] = [:]
    private var lastWatcher = 0
    private var isHereDue = false
    private var isEnded = false

    /// Opens a board, and founds it if it has no database yet.
    init(path: String, founding: Board) async throws {
        database = try BoardDatabase(path: path)
        var state = try await database.load()
        if state.revision == 0 {
            let action = BoardAction.found(founding)
            _ = state.apply(action)
            try await database.append([action], state)
        }
        (self.state, saved) = (state, state)
    }

    var title: String { saved.board.title }
    var snapshot: Snapshot { Snapshot(saved) }

    // MARK: - Commands

    /// Executes a command, and returns once it is on disk.
    func perform(_ command: BoardCommand, by client: String) async throws -> Receipt {
        let action = try state.action(for: command, by: client, limits: BoardLimits())
        if let action, state.apply(action) { unsaved.append(action) }
        let receipt = Receipt(revision: state.revision, id: action?.added)
        // Even if nothing had to change: what the client has seen may not be on disk yet.
        try await save()
        return receipt
    }

    private func save() async throws {
        if unsaved.isEmpty && !isWriting { return }
        try await withCheckedThrowingContinuation { continuation in
            waiting.append(continuation)
            if isWriting { return }
            isWriting = true
            Task { await write() }
        }
    }

    /// Writes until no command waits, each time everything that has arrived meanwhile.
    private func write() async {
        while !waiting.isEmpty {
            let (actions, told, new) = (unsaved, waiting, state)
            (unsaved, waiting) = ([], [])
            do {
                try await database.append(actions, new)
                show(new)
                for continuation in told { continuation.resume() }
            } catch {
                // The next command tries them again.
                unsaved = actions + unsaved
                for continuation in told { continuation.resume(throwing: error) }
            }
        }
        isWriting = false
    }

    // MARK: - Watching

    /// Adds a watcher; returns nil if the streams have ended.
    func join(client: String?, name: String?, last: Int?) -> Watching? {
        if isEnded { return nil }
        let (pieces, continuation) = AsyncStream.makeStream(of: Piece.self, bufferingPolicy: .bufferingOldest(64))
        lastWatcher += 1
        watchers[lastWatcher] = Watcher(pieces: continuation, client: client, name: name)
        if client != nil { tellWhoIsHere() }
        let missed = last.flatMap { saved.changes(after: $0) }?.map(Frame.change)
        let first = Frame.joined([Frame.retry] + (missed ?? [savedStateFrame()]) + [hereFrame()])
        return Watching(id: lastWatcher, first: first, pieces: pieces, end: { continuation.finish() })
    }

    /// Returns the state, for a client that has missed changes; after it the client receives changes again.
    func caughtUp(_ id: Int) -> ByteBuffer {
        watchers[id]?.isBehind = false
        return Frame.joined([savedStateFrame(), hereFrame()])
    }

    func leave(_ id: Int) {
        guard let watcher = watchers.removeValue(forKey: id) else { return }
        watcher.pieces.finish()
        if watcher.client != nil { tellWhoIsHere() }
    }

    /// Ends all streams, and refuses later watchers.
    func endWatching() {
        isEnded = true
        for watcher in watchers.values { watcher.pieces.finish() }
    }

    func beat() { send(Frame.heartbeat) }

    private func show(_ new: BoardState) {
        let old = saved.revision
        saved = new
        savedFrame = nil
        if new.revision == old { return }
        send(Frame.joined(new.changes(after: old)?.map(Frame.change) ?? [savedStateFrame()]))
    }

    private func send(_ frames: ByteBuffer) {
        for (id, watcher) in watchers where !watcher.isBehind {
            // The last place is for the message that changes were missed.
            if case .enqueued(remaining: ...1) = watcher.pieces.yield(.frames(frames)) {
                watcher.pieces.yield(.missed)
                watchers[id]?.isBehind = true
            }
        }
    }

    /// Returns the frame of the saved state, encoded once for all clients that need it.
    private func savedStateFrame() -> ByteBuffer {
        let frame = savedFrame ?? Frame.state(saved)
        savedFrame = frame
        return frame
    }

    private func hereFrame() -> ByteBuffer {
        var people: [String: String?] = [:]
        for watcher in watchers.values { if let client = watcher.client { people[client] = .some(watcher.name) } }
        return Frame.here(people.count, names: people.values.compactMap(\.self).sorted())
    }

    /// Sends the list of people here to all clients, at most five times a second.
    private func tellWhoIsHere() {
        if isHereDue { return }
        isHereDue = true
        Task {
            try? await Task.sleep(for: .milliseconds(200))
            isHereDue = false
            send(hereFrame())
        }
    }
}
