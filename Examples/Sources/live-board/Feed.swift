import Metrics
import NIOCore
import Synchronization

/// Sends the events of one board to its watchers; each event is encoded once, regardless of how many watch.
///
/// The newest frames are kept while a watcher still has to fetch them; for the watcher itself, only the number of its
/// next frame is known. Watchers that are up to date wait for the next frame, and all receive the same bytes. A watcher
/// so slow that its next frame is no longer kept receives the state instead. Nothing is copied per watcher. Data on its
/// way to a slow reader stays in memory, shared by all watchers at the same revision, but not forever: see
/// ``SlowReaders``.
final class Feed: Sendable {
    /// Frames for a watcher, and the number of the frame that comes after them.
    struct Batch: Sendable {
        var frames: [ByteBuffer]
        var next: Int
    }

    private typealias Waiting = CheckedContinuation<Batch?, Never>

    private enum Taken {
        case now(Batch?)
        case later
    }

    private struct Person {
        var name: String?
        /// A client may reconnect before its old connection is known to be gone.
        var connections = 0
    }

    private struct Watcher {
        /// Nil if the watcher has not identified itself.
        let client: String?
    }

    /// Everything that the lock guards.
    private struct Book {
        /// The newest saved state; an unsaved one is not shown.
        var shown: BoardState
        /// The frame and the snapshot of that state, each encoded on first use.
        var stateFrame, snapshot: ByteBuffer?
        /// The last announcement of whether the board can be changed; nil if it always could.
        var access: (isWritable: Bool, frame: ByteBuffer)?
        var frames: [ByteBuffer] = []
        /// The number of the frame after the newest.
        var next = 0
        var bytes = 0
        var watchers: [Int: Watcher] = [:]
        var waiting: [Int: Waiting] = [:]
        var lastWatcher = 0
        var people: [String: Person] = [:]
        var isHereDue = false
        var isEnded = false

        mutating func append(_ frame: ByteBuffer) {
            next += 1
            // Waiting watchers receive the frame at once. If all are waiting, none needs it, or an older frame, later.
            if waiting.count == watchers.count {
                (frames, bytes) = ([], 0)
                return
            }
            frames.append(frame)
            bytes += frame.readableBytes
            while frames.count > 256 || bytes > 1 << 20 && frames.count > 1 {
                bytes -= frames.removeFirst().readableBytes
            }
        }

        /// Only up to 50 names are sorted, because this is computed for each new watcher.
        var here: ByteBuffer {
            Frame.here(people.count, names: people.values.lazy.compactMap(\.name).prefix(50).sorted())
        }

        /// The frames that a watcher receives in addition to the board.
        var about: [ByteBuffer] { (access.map { [$0.frame] } ?? []) + [here] }

        /// Returns the frames from a number on, or keeps the continuation if there are none yet.
        mutating func take(for watcher: Int, after frame: Int, _ waiting: Waiting) -> Taken {
            if isEnded || watchers[watcher] == nil { return .now(nil) }
            if frame == next {
                self.waiting[watcher] = waiting
                return .later
            }
            let missed = next - frame
            // An empty batch stands for the state, which is encoded without holding the lock.
            return .now(Batch(frames: missed > frames.count ? [] : Array(frames.suffix(missed)), next: next))
        }

        mutating func takeWaiting() -> [Int: Waiting] {
            let taken = waiting
            waiting.removeAll(keepingCapacity: true)
            return taken
        }
    }

    private let book: Mutex<Book>
    private let watching = Meter(label: "live_board.watchers")
    private let skipped = Counter(label: "live_board.skips")

    init(_ state: BoardState) { book = Mutex(Book(shown: state)) }

    /// The number of watchers that are up to date, and of frames kept for the others.
    var balance: (waiting: Int, kept: Int) { book.withLock { ($0.waiting.count, $0.frames.count) } }

    // MARK: - Sending

    /// Sends the changes that lead to a saved state, or the whole state if it does not follow from the one last shown.
    ///
    /// Called by one task only, which keeps the changes in order.
    func show(_ state: BoardState, anew: Bool = false) {
        let old = book.withLock { $0.shown.revision }
        if state.revision == old && !anew { return }
        let changes = anew ? nil : state.changes(after: old)
        let frames = changes?.map(Frame.change) ?? [Frame.state(state)]
        send(Frame.joined(frames)) { book in
            book.shown = state
            (book.stateFrame, book.snapshot) = (nil, nil)
        }
    }

    /// Announces whether the board can currently be changed, unless watchers already know.
    func show(isWritable: Bool) {
        if book.withLock({ $0.access?.isWritable ?? true }) == isWritable { return }
        let frame = Frame.access(isWritable: isWritable)
        send(frame) { $0.access = (isWritable, frame) }
    }

    func beat() { send(Frame.heartbeat) }

    /// Ends all streams; watchers can no longer join.
    func end() {
        let waiting = book.withLock { book in
            book.isEnded = true
            return book.takeWaiting()
        }
        for watcher in waiting.values { watcher.resume(returning: nil) }
    }

    private func send(_ frame: ByteBuffer, _ change: (inout Book) -> Void = { _ in }) {
        let (waiting, next) = book.withLock { book in
            change(&book)
            book.append(frame)
            return (book.takeWaiting(), book.next)
        }
        // A waiting watcher has received everything but this frame, so nothing has to be looked up for it.
        for watcher in waiting.values { watcher.resume(returning: Batch(frames: [frame], next: next)) }
    }

    // MARK: - Watching

    /// Adds a watcher.
    ///
    /// - Parameters:
    ///   - client: The id of the client; nil: it is not counted among those who are here.
    ///   - name: The name that others see.
    ///   - last: The revision that the client has, which the board has reached; nil: it has none.
    /// - Returns: The number of the watcher and its first batch; nil: the streams have ended.
    func join(client: String?, name: String?, last: Int?) -> (watcher: Int, first: Batch)? {
        let joined = book.withLock { book -> (watcher: Int, state: BoardState, about: [ByteBuffer], next: Int)? in
            if book.isEnded { return nil }
            book.lastWatcher += 1
            book.watchers[book.lastWatcher] = Watcher(client: client)
            if let client {
                book.people[client, default: Person()].connections += 1
                book.people[client]?.name = name
            }
            return (book.lastWatcher, book.shown, book.about, book.next)
        }
        guard let joined else { return nil }
        watching.increment()
        if client != nil { tellWhoIsHere() }
        let missed = last.flatMap { changes(of: joined.state, after: $0) }?.map(Frame.change)
        let known = missed ?? [stateFrame(of: joined.state)]
        return (joined.watcher, Batch(frames: [Frame.retry] + known + joined.about, next: joined.next))
    }

    /// The changes after a revision; empty if the shown state has not reached it; nil if some are no longer kept.
    private func changes(of state: BoardState, after last: Int) -> ArraySlice<BoardState.NumberedChange>? {
        last > state.revision ? [] : state.changes(after: last)
    }

    /// Waits for the frames from a number on; nil: the stream has ended, or the watcher has left.
    func next(for watcher: Int, after next: Int) async -> Batch? {
        let batch = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                switch book.withLock({ $0.take(for: watcher, after: next, continuation) }) {
                case .later: break
                case .now(let batch): continuation.resume(returning: batch)
                }
            }
        } onCancel: {
            leave(watcher)
        }
        guard let batch else { return nil }
        return batch.frames.isEmpty ? newest() : batch
    }

    /// Removes a watcher; a second call does nothing.
    func leave(_ watcher: Int) {
        let (left, waiting) = book.withLock { book -> (Watcher?, Waiting?) in
            let left = book.watchers.removeValue(forKey: watcher)
            if let client = left?.client {
                book.people[client]?.connections -= 1
                if book.people[client]?.connections == 0 { book.people[client] = nil }
            }
            return (left, book.waiting.removeValue(forKey: watcher))
        }
        waiting?.resume(returning: nil)
        guard let left else { return }
        watching.decrement()
        if left.client != nil { tellWhoIsHere() }
    }

    /// The state, which a watcher receives in place of the frames it has missed.
    private func newest() -> Batch {
        skipped.increment()
        let (state, about, next) = book.withLock { ($0.shown, $0.about, $0.next) }
        return Batch(frames: [stateFrame(of: state)] + about, next: next)
    }

    private func stateFrame(of state: BoardState) -> ByteBuffer { encodedOnce(state, in: \.stateFrame, Frame.state) }

    /// The state as the body of a response.
    ///
    /// All requests share the bytes; otherwise each slow reader would keep its own copy.
    func snapshot(of state: BoardState) -> ByteBuffer {
        encodedOnce(state, in: \.snapshot) { ByteBuffer(bytes: encoded(Snapshot($0))) }
    }

    /// Encodes a state without holding the lock, and reuses the bytes for as long as that state is shown.
    private func encodedOnce(
        _ state: BoardState, in known: WritableKeyPath<Book, ByteBuffer?>, _ encode: (BoardState) -> ByteBuffer
    ) -> ByteBuffer {
        // A replica may have replaced the state with another one of the same revision.
        let isShown = { (book: borrowing Book) in Snapshot(book.shown) == Snapshot(state) }
        if let known = book.withLock({ isShown($0) ? $0[keyPath: known] : nil }) { return known }
        let bytes = encode(state)
        return book.withLock { book in
            guard isShown(book) else { return bytes }
            // Callers that encoded it at the same time share the bytes of the first, too.
            let shared = book[keyPath: known] ?? bytes
            book[keyPath: known] = shared
            return shared
        }
    }

    // MARK: - Who is here

    /// Announces who is here to all watchers, at most five times a second.
    private func tellWhoIsHere() {
        let isFirst = book.withLock { book in
            defer { book.isHereDue = true }
            return !book.isHereDue
        }
        guard isFirst else { return }
        Task {
            try? await Task.sleep(for: .milliseconds(200))
            send(
                book.withLock { book in
                    book.isHereDue = false
                    return book.here
                })
        }
    }
}
