import Dispatch
import FluxCore
import Foundation

/// The source of a row.
enum Source: Sendable {
    case store(Int)
    case dispatcher(String?)
}

/// A change that a store has applied.
struct Applied: Sendable {
    /// The way the state was changed.
    enum Kind: String {
        /// An action of the state's own action type.
        case action
        /// An action of another type that the store reacts to.
        case reaction
        /// The state was replaced, by one that was loaded or by an undo.
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
    /// How long the change took; nil if no code ran for it.
    let nanoseconds: UInt64?
    /// The states announced before the change and by it; nil if the change announced none.
    let states: (before: any FluxState, after: any FluxState)?
}

/// One row of the recording.
///
/// A row is also what a store settles: ``Recorder/note(_:_:origin:)`` returns the row that falls out of the ring.
/// Settling does nothing, but it means that this row is released only after the store's lock is free.
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
    /// The number of the event that caused it.
    let origin: UInt64?
    /// Created when the row is first shown.
    let line = FluxLock<Line?>(nil)

    init(number: UInt64, _ content: Content, _ source: Source, origin: UInt64?) {
        (self.number, self.content, self.source, self.origin) = (number, content, source, origin)
    }

    func settle() {}
}

/// A store that is shown; its `info` keeps the state in memory, and is released when the store ends.
struct OpenStore {
    let info: FluxStoreInfo
    var name: String?
    var dispatcher: String?
    var revision: UInt64 = 0
}

/// Keeps the newest rows in a ring, and knows the open stores; its lock is acquired after that of a store.
final class Recorder: Sendable {
    private struct Kept {
        /// Row *n* is in slot *n* modulo the number of slots, for as long as it is kept.
        var slots: ContiguousArray<Row?>
        var newest: UInt64 = 0
        var stores: [Int: OpenStore] = [:]
        /// Increases whenever a store opens or closes.
        var stamp = 0
        var lastStore = 0

        subscript(number: UInt64) -> Row? {
            get { slots[Int(number % UInt64(slots.count))] }
            set { slots[Int(number % UInt64(slots.count))] = newValue }
        }
    }

    /// Distinguishes the rows of this recorder from those of another run of the program.
    let run = String(UInt64.random(in: 0 ... .max), radix: 36)
    private let kept: FluxLock<Kept>

    init(limit: Int) {
        kept = FluxLock(Kept(slots: ContiguousArray(repeating: nil, count: limit)))
    }

    // MARK: - Recording

    /// Records a row; returns the row to be released once no lock is held.
    func note(_ content: Row.Content, _ source: Source, origin: UInt64?) -> Row? {
        kept.withLock { kept in
            let row = Row(number: kept.newest + 1, content, source, origin: origin)
            if case .store(let store) = source {
                // Whatever arrives after its store was closed is not recorded.
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

    /// Adds a store, or completes what is known about it.
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

    /// Removes a store with all its rows, and releases its last state.
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

    /// Removes all rows.
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
        // The caller may hold the lock of a dispatcher, and releasing these values may run the user's code.
        DispatchQueue.global().async { withExtendedLifetime((gone, last)) {} }
    }

    // MARK: - Reading

    /// The open stores, and a number that changes whenever they do.
    var stores: (all: [Int: OpenStore], stamp: Int) { kept.withLock { ($0.stores, $0.stamp) } }

    /// Returns a row; nil: it is no longer kept.
    func row(_ number: UInt64) -> Row? {
        kept.withLock { kept in
            kept[number].flatMap { $0.number == number ? $0 : nil }
        }
    }

    /// Returns the rows after one, oldest first, and how many were dropped before they could be read.
    ///
    /// Without a number, starts with the oldest row that is kept.
    func rows(after number: UInt64?, atMost count: UInt64) -> (rows: [Row], missed: UInt64, last: UInt64) {
        kept.withLock { kept in
            let forgotten = kept.newest - min(kept.newest, UInt64(kept.slots.count))
            // Rows that were dropped before the first read do not count as missed.
            let number = number ?? forgotten
            let start = max(min(number, kept.newest), forgotten)
            let last = min(start + count, kept.newest)
            let rows = start == last ? [] : (start + 1...last).compactMap { kept[$0] }
            return (rows, start - min(number, start), last)
        }
    }
}
