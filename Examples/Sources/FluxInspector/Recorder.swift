import Dispatch
import FluxCore
import Foundation

/// Where something was noted.
enum Source: Sendable {
    case store(Int)
    case dispatcher(String?)
}

/// A change that a store has applied.
struct Applied: Sendable {
    /// What changed the state.
    enum Kind: String {
        /// An action of the state's own.
        case action
        /// An action of another type, that the store reacts to.
        case reaction
        /// Another state was put in its place: one that was loaded, or an undo.
        case replaced

        init<State>(_ change: FluxChange<State>) {
            switch change {
            case .action: self = .action
            case .other: self = .reaction
            case .replaced: self = .replaced
            }
        }
    }

    let action: any FluxAction
    let kind: Kind
    let revision: UInt64?
    /// How long it took; nil where nothing was run.
    let nanoseconds: UInt64?
    /// The states announced before it and by it; nil where there was nothing to announce.
    let states: (before: any FluxState, after: any FluxState)?
}

/// One thing that has happened.
///
/// It is also what the store settles once its lock is free, which does nothing: so the row that is forgotten goes only then.
final class Row: FluxSettling {
    enum Content: Sendable {
        case fired(any FluxEvent)
        case retried(any FluxEvent, attempt: Int, any Error)
        case ended(any FluxEvent, FluxTask.Outcome)
        case applied(Applied)
    }

    /// Counted from 1.
    let number: UInt64
    let time = Date()
    let content: Content
    let source: Source
    /// The number of the event that it came from.
    let origin: UInt64?
    /// Made when somebody looks for the first time.
    let line = FluxLock<Line?>(nil)

    init(number: UInt64, _ content: Content, _ source: Source, origin: UInt64?) {
        (self.number, self.content, self.source, self.origin) = (number, content, source, origin)
    }

    func settle() {}
}

/// A store that is shown; its memory is held by this, which is let go of when the store goes.
struct OpenStore {
    let info: FluxStoreInfo
    var name: String?
    var dispatcher: String?
    var revision: UInt64 = 0
}

/// Keeps the newest rows, in a ring, and knows which stores are open; locked after a store.
final class Recorder: Sendable {
    private struct Kept {
        /// Row *n* is in slot *n* modulo their count, for as long as it is kept.
        var slots: ContiguousArray<Row?>
        var newest: UInt64 = 0
        var stores: [Int: OpenStore] = [:]
        /// Grows whenever a store comes or goes.
        var stamp = 0
        var lastStore = 0

        subscript(number: UInt64) -> Row? {
            get { slots[Int(number % UInt64(slots.count))] }
            set { slots[Int(number % UInt64(slots.count))] = newValue }
        }
    }

    /// Tells the rows of this recorder from those of another run of the program.
    let run = String(UInt64.random(in: 0 ... .max), radix: 36)
    private let kept: FluxLock<Kept>

    init(limit: Int) {
        kept = FluxLock(Kept(slots: ContiguousArray(repeating: nil, count: limit)))
    }

    // MARK: - Noting

    /// Notes something; returns what is to be let go of once no lock is held.
    func note(_ content: Row.Content, _ source: Source, origin: UInt64?) -> Row? {
        kept.withLock { kept in
            let row = Row(number: kept.newest + 1, content, source, origin: origin)
            if case .store(let store) = source {
                // What comes after a store was closed is of no interest any more.
                if kept.stores[store] == nil { return row }
                if case .applied(let applied) = content, let revision = applied.revision {
                    kept.stores[store]?.revision = revision
                }
            }
            kept.newest += 1
            defer { kept[row.number] = row }
            return kept[row.number]
        }
    }

    // MARK: - Stores

    /// A number that no other store of this recorder has.
    func makeStoreID() -> Int {
        kept.withLock { kept in
            kept.lastStore += 1
            return kept.lastStore
        }
    }

    /// Shows a store, or adds to what is known of it.
    func open(_ id: Int, _ store: OpenStore, revision: UInt64) {
        kept.withLock { kept in
            var known = kept.stores[id] ?? store
            known.name = known.name ?? store.name
            known.dispatcher = known.dispatcher ?? store.dispatcher
            known.revision = revision
            kept.stores[id] = known
            kept.stamp += 1
        }
    }

    /// Forgets a store, all that was noted of it, and its last state.
    func close(_ id: Int, lettingGo last: (any FluxState)?) {
        remove(last) { kept in
            if kept.stores[id] == nil { return [] }
            return kept.slots.indices.filter { index in
                if case .store(id)? = kept.slots[index]?.source { true } else { false }
            }
        } stores: {
            $0 == id
        }
    }

    /// Forgets all that was noted.
    func removeAll() {
        remove(nil) {
            Array($0.slots.indices)
        } stores: { _ in
            false
        }
    }

    private func remove(_ last: (any FluxState)?, slots: (Kept) -> [Int], stores isGone: (Int) -> Bool) {
        let gone = kept.withLock { kept in
            var gone: (rows: [Row?], stores: [Int: OpenStore]) = ([], [:])
            for slot in slots(kept) {
                gone.rows.append(kept.slots[slot])
                kept.slots[slot] = nil
            }
            gone.stores = kept.stores.filter { isGone($0.key) }
            for id in gone.stores.keys { kept.stores[id] = nil }
            kept.stamp += 1
            return gone
        }
        // Whoever closes a store may hold the lock of its dispatcher, and what goes is the user's.
        DispatchQueue.global().async { withExtendedLifetime((gone, last)) {} }
    }

    // MARK: - Looking

    /// The stores that are open, and what changes when they do.
    var stores: (all: [Int: OpenStore], stamp: Int) { kept.withLock { ($0.stores, $0.stamp) } }

    /// A row; nil: it is not kept any more.
    func row(_ number: UInt64) -> Row? {
        kept.withLock { kept in
            kept[number].flatMap { $0.number == number ? $0 : nil }
        }
    }

    /// The rows behind one, or, for who has read none, all that are kept; the oldest first, and how many came too late to be told.
    func rows(after number: UInt64?, atMost count: UInt64) -> (rows: [Row], missed: UInt64, last: UInt64) {
        kept.withLock { kept in
            let forgotten = kept.newest - min(kept.newest, UInt64(kept.slots.count))
            // What was forgotten before somebody came to read was never to be told.
            let number = number ?? forgotten
            let start = max(min(number, kept.newest), forgotten)
            let last = min(start + count, kept.newest)
            let rows = start == last ? [] : (start + 1...last).compactMap { kept[$0] }
            return (rows, start - min(number, start), last)
        }
    }
}
