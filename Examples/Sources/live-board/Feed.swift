import Metrics
import NIOCore
import Synchronization

/// What the watchers of one board are sent: encoded once, however many they are.
///
/// The newest frames are kept in a row while somebody has still to come for them, and of a watcher no more than the number of
/// the frame that it has come to. Those who have come to the end wait for the next, and are all handed the same bytes. One who
/// is so slow that its next frame is gone gets the state instead. Nothing of it is copied for a watcher: what is on its way to
/// one who reads slowly is kept in memory, the same for all who are at the same revision; and not for good, see ``SlowReaders``.
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
        /// One who comes back may do so before the old connection is known to be gone.
        var connections = 0
    }

    private struct Watcher {
        /// Nil where it has not said who it is.
        let client: String?
    }

    /// What the lock guards.
    private struct Book {
        /// The newest state that is kept: what is not is shown to nobody.
        var shown: BoardState
        /// Its frame, and it by itself, once somebody has asked for them.
        var stateFrame, snapshot: ByteBuffer?
        /// What was told last of whether the board can be changed; nothing was where it always could.
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
            // Those who wait are handed it at once. Where all do, nobody comes back for it, nor for those before it.
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

        /// Not sorted as a whole: it is made anew for each who comes.
        var here: ByteBuffer {
            Frame.here(people.count, names: people.values.lazy.compactMap(\.name).prefix(50).sorted())
        }

        /// What somebody is told besides the board.
        var about: [ByteBuffer] { (access.map { [$0.frame] } ?? []) + [here] }

        /// What comes after a frame, or else keeps who waits for it.
        mutating func take(for watcher: Int, after frame: Int, _ waiting: Waiting) -> Taken {
            if isEnded || watchers[watcher] == nil { return .now(nil) }
            if frame == next {
                self.waiting[watcher] = waiting
                return .later
            }
            let missed = next - frame
            // None stand for the state, which is encoded without the lock.
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

    /// How many watchers have come to the end, and how many frames are kept for the others.
    var balance: (waiting: Int, kept: Int) { book.withLock { ($0.waiting.count, $0.frames.count) } }

    // MARK: - What is sent

    /// Sends the changes that a state has brought, or all of one that does not follow from what was shown; it is kept.
    ///
    /// Called by one task, so that the changes come in their order.
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

    /// Tells whether the board can be changed at the moment, where that is not what was known.
    func show(isWritable: Bool) {
        if book.withLock({ $0.access?.isWritable ?? true }) == isWritable { return }
        let frame = Frame.access(isWritable: isWritable)
        send(frame) { $0.access = (isWritable, frame) }
    }

    func beat() { send(Frame.heartbeat) }

    /// Ends all streams, and those who come later find none.
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
        // Who waits has seen all but this, so there is nothing to look up for each.
        for watcher in waiting.values { watcher.resume(returning: Batch(frames: [frame], next: next)) }
    }

    // MARK: - Watching

    /// Lets somebody watch from now on; nil: the streams have ended.
    ///
    /// - Parameters:
    ///   - client: Who it is; nil: nobody is told of it.
    ///   - name: What others are to call it.
    ///   - last: The revision that it knows the board at, which the board has come to; nil: it does not know it.
    /// - Returns: Its number, and what it is sent first.
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

    /// The changes after a revision; none where what is shown is yet to come to it.
    private func changes(of state: BoardState, after last: Int) -> ArraySlice<BoardState.NumberedChange>? {
        last > state.revision ? [] : state.changes(after: last)
    }

    /// Waits for what comes after a frame; nil: the stream has ended, or the watcher has left.
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

    /// Watches no longer; a second call does nothing.
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

    /// What a watcher gets in place of what it has missed.
    private func newest() -> Batch {
        skipped.increment()
        let (state, about, next) = book.withLock { ($0.shown, $0.about, $0.next) }
        return Batch(frames: [stateFrame(of: state)] + about, next: next)
    }

    private func stateFrame(of state: BoardState) -> ByteBuffer { encodedOnce(state, in: \.stateFrame, Frame.state) }

    /// The state as whoever asks for it gets it: the same bytes for all who do, or each who does not read would keep its own.
    func snapshot(of state: BoardState) -> ByteBuffer {
        encodedOnce(state, in: \.snapshot) { ByteBuffer(bytes: encoded(Snapshot($0))) }
    }

    /// Encodes a large board without the lock, and once for all who ask meanwhile.
    private func encodedOnce(
        _ state: BoardState, in known: WritableKeyPath<Book, ByteBuffer?>, _ encode: (BoardState) -> ByteBuffer
    ) -> ByteBuffer {
        // A replica may have put another state of the same revision in its place.
        let isShown = { (book: borrowing Book) in Snapshot(book.shown) == Snapshot(state) }
        if let known = book.withLock({ isShown($0) ? $0[keyPath: known] : nil }) { return known }
        let bytes = encode(state)
        book.withLock { if isShown($0) { $0[keyPath: known] = bytes } }
        return bytes
    }

    // MARK: - Who is here

    /// Tells everybody who is here, five times a second at most.
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
