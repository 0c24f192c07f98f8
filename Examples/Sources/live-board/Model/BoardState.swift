/// The saved state of a board: its contents, the newest changes, and what is needed to undo them.
///
/// It is pure: it turns a command into an action, and applies an action the same way every time.
struct BoardState: Codable, Sendable {
    /// A change with the revision that it led to, as sent to watchers.
    struct NumberedChange: Codable, Equatable, Sendable {
        var revision: Int
        var client: String
        var change: BoardChange
        /// The mark of the change: no other has it, not even one of the same revision on a restored older copy.
        ///
        /// The server that requested the change assigns it. Older programs assigned none.
        var order: String?
    }

    /// A change that can be undone, and its opposite.
    private struct Undoable: Codable, Sendable {
        var revision: Int
        var client: String
        var change, opposite: BoardChange
    }

    private(set) var board = Board(title: "", lists: [])
    /// The number of changes so far, including the creation of the board.
    private(set) var revision = 0
    /// The highest number in an id of a list or card; no number is used twice.
    private var lastNumber = 0
    private(set) var changes: [NumberedChange] = []
    private var undoables: [Undoable] = []

    /// The changes after a revision; nil if some are no longer kept, or the revision has not been reached.
    func changes(after last: Int) -> ArraySlice<NumberedChange>? {
        guard last <= revision, last >= revision - changes.count else { return nil }
        return changes.suffix(revision - last)
    }

    /// The mark of the newest change.
    var order: String? { changes.last?.order }

    /// Whether the board has had a revision, by its number and mark: a restored older copy may assign the number again.
    func has(_ known: KnownRevision) -> Bool {
        guard known.revision <= revision else { return false }
        // Revision 1 is the creation of the board, which is the same in each copy.
        if known.revision == 1 { return known.order == nil }
        let place = changes.count - 1 - (revision - known.revision)
        return changes.indices.contains(place) && changes[place].order == known.order
    }
}

/// A revision that a client knows; it sends this to receive the changes that followed.
struct KnownRevision: CustomStringConvertible {
    var revision: Int
    /// The mark of the change that led to the revision; nil if it has none.
    var order: String?

    var description: String { order.map { "\(revision)-\($0)" } ?? "\(revision)" }

    init(_ revision: Int, _ order: String? = nil) { (self.revision, self.order) = (revision, order) }

    /// Parses a description; nil if the text is not one.
    init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard let revision = Int(parts[0]) else { return nil }
        self.init(revision, parts.count > 1 ? String(parts[1]) : nil)
    }
}

// MARK: - From a command to an action

/// An action that changes the state of a board, as it is saved in the log.
enum BoardAction: Codable, Sendable {
    /// The first action of a board, which creates it.
    case found(Board)
    case change(BoardChange, by: String, order: String? = nil)
    /// Undoes the change of a revision.
    case undo(of: Int, BoardChange, by: String, order: String? = nil)
    /// Decides on a command when it is applied: on a log that several servers share, others may precede it.
    ///
    /// The values of the command have been checked. Its server uses the id to find the resulting change.
    case decide(BoardCommand, by: String, limits: BoardLimits, id: String)

    /// The id of the list or card that the action adds.
    var added: String? { if case .change(let change, _, _) = self { change.added } else { nil } }

    /// The same action, with a mark that distinguishes it from any other.
    func ordered(_ order: String) -> BoardAction {
        switch self {
        case .found, .decide: self
        case .change(let change, let client, _): .change(change, by: client, order: order)
        case .undo(let target, let change, let client, _): .undo(of: target, change, by: client, order: order)
        }
    }
}

extension BoardState {
    /// Turns a command into an action; nil: the command changes nothing.
    func action(
        for command: BoardCommand, by client: String, limits: BoardLimits
    ) throws(Refusal) -> BoardAction? {
        try decision(on: command.checked(), by: client, limits: limits)
    }

    /// Decides on a command whose values have been checked; every server with this state decides the same.
    private func decision(
        on command: BoardCommand, by client: String, limits: BoardLimits
    ) throws(Refusal) -> BoardAction? {
        if case .undo = command { return try undo(by: client, limits: limits) }
        guard let change = try change(for: command, by: client, limits: limits) else { return nil }
        var changed = board
        if let bytes = limits.bytes, changed.apply(change), changed.size > max(bytes, board.size) {
            throw .full("A board can have at most about \(bytes) bytes.")
        }
        return .change(change, by: client)
    }

    private func change(
        for command: BoardCommand, by client: String, limits: BoardLimits
    ) throws(Refusal) -> BoardChange? {
        switch command {
        case .rename(let title):
            return title == board.title ? nil : .renamed(title: title)

        case .addList(let title):
            guard board.lists.count < limits.lists else {
                throw .full("A board can have at most \(limits.lists) lists.")
            }
            return .listAdded(
                list: Board.List(id: "l\(lastNumber + 1)", title: title, cards: []), index: board.lists.count)

        case .renameList(let list, let title):
            return board.lists[try place(ofList: list)].title == title ? nil : .listRenamed(list: list, title: title)

        case .moveList(let list, let index):
            let old = try place(ofList: list)
            let new = min(index, board.lists.count - 1)
            return old == new ? nil : .listMoved(list: list, index: new)

        case .removeList(let list):
            _ = try place(ofList: list)
            return .listRemoved(list: list)

        case .addCard(let list, let title):
            let place = try place(ofList: list)
            guard board.cardCount < limits.cards else { throw .full("A board can have at most \(limits.cards) cards.") }
            let card = Board.Card(
                id: "c\(lastNumber + 1)", title: title, text: "", voters: [], revision: revision + 1)
            return .cardAdded(card: card, list: list, index: board.lists[place].cards.count)

        case .editCard(let id, let title, let text, let revision):
            let card = try card(id)
            // An edit that is sent again because its response was lost has nothing left to do.
            if card.title == title && card.text == text { return nil }
            guard card.revision == revision else { throw .stale(revision: self.revision, card: card) }
            return .cardEdited(card: id, title: title, text: text, revision: self.revision + 1)

        case .moveCard(let id, let list, let index):
            _ = try (card(id), place(ofList: list))
            let wanted = BoardChange.cardMoved(card: id, list: list, index: index)
            guard let moved = board.fitted(wanted, revision: revision), moved != board.opposite(of: moved) else {
                return nil
            }
            return moved

        case .removeCard(let id):
            _ = try card(id)
            return .cardRemoved(card: id)

        case .vote(let id, let on):
            let voters = try card(id).voters
            if voters.contains(client) == on { return nil }
            if on && voters.count >= limits.voters { throw .full("A card can have at most \(limits.voters) votes.") }
            return .voted(card: id, client: client, on: on)

        case .undo:
            return nil
        }
    }

    private func undo(by client: String, limits: BoardLimits) throws(Refusal) -> BoardAction {
        for undoable in undoables.reversed() where undoable.client == client {
            guard board.isAsLeft(by: undoable.change, keepsRenamedLists: limits.keepsRenamedLists ?? false),
                let change = board.fitted(undoable.opposite, revision: revision + 1)
            else { continue }
            var undone = board
            guard undone.apply(change), undone.lists.count <= limits.lists, undone.cardCount <= limits.cards,
                undone.size <= max(limits.bytes ?? .max, board.size)
            else { continue }
            return .undo(of: undoable.revision, change, by: client)
        }
        throw .nothingToUndo
    }

    // MARK: - Finding

    private func place(ofList id: String) throws(Refusal) -> Int {
        guard let place = board.place(ofList: id) else { throw .unknownList(id) }
        return place
    }

    private func card(_ id: String) throws(Refusal) -> Board.Card {
        guard let card = board.card(id) else { throw .unknownCard(id) }
        return card
    }
}

// MARK: - From an action to the next state

extension BoardState {
    /// Applies an action; returns false and changes nothing if the action does not fit.
    mutating func apply(_ action: BoardAction) -> Bool {
        switch action {
        case .found(let new):
            guard revision == 0 else { return false }
            (board, revision) = (new, 1)
            for list in new.lists { note([list.id] + list.cards.map(\.id)) }

        case .change(let change, let client, let order):
            guard let opposite = board.opposite(of: change), board.apply(change) else { return false }
            note(change, by: client, order: order)
            undoables.append(
                Undoable(revision: revision, client: client, change: change, opposite: opposite))
            undoables.keepNewest(256, bytes: 4 << 20) { $0.change.size + $0.opposite.size }

        case .undo(let target, let change, let client, let order):
            guard board.apply(change) else { return false }
            note(change, by: client, order: order)
            undoables.removeAll { $0.revision == target }

        case .decide(let command, let client, let limits, let id):
            guard let action = try? decision(on: command, by: client, limits: limits) else { return false }
            return apply(action.ordered(id))
        }
        return true
    }

    private mutating func note(_ change: BoardChange, by client: String, order: String?) {
        revision += 1
        changes.append(NumberedChange(revision: revision, client: client, change: change, order: order))
        changes.keepNewest(500, bytes: 1 << 20) { $0.change.size }
        switch change {
        case .listAdded(let list, _): note([list.id])
        case .cardAdded(let card, _, _): note([card.id])
        default: break
        }
    }

    private mutating func note(_ ids: [String]) {
        for id in ids { lastNumber = max(lastNumber, Int(id.dropFirst()) ?? 0) }
    }
}

extension Array {
    /// Drops the oldest elements beyond a number or a total size, but always keeps the newest.
    ///
    /// Up to 63 more than the number are kept, because dropping one at a time would move all others each time.
    fileprivate mutating func keepNewest(_ limit: Int, bytes: Int, _ size: (Element) -> Int) {
        var kept = 0
        var sum = 0
        for element in reversed() {
            sum += size(element)
            if kept > 0 && sum > bytes { break }
            kept += 1
        }
        if kept < count { removeFirst(count - kept) }
        if count >= limit + 64 { removeFirst(count - limit) }
    }
}

// MARK: - Responses

/// A board with its revision.
struct Snapshot: Encodable, Equatable {
    var revision: Int
    var order: String?
    var board: Board

    init(_ state: BoardState) { (revision, order, board) = (state.revision, state.order, state.board) }
}

/// The response to a command: it has been carried out and saved.
struct Receipt: Encodable, Sendable {
    var revision: Int
    /// The id of the added list or card.
    var id: String?
}

extension Board {
    /// The board that a new server starts with.
    static let welcome = Board(
        title: "Welcome",
        lists: [
            List(
                id: "l1", title: "To do",
                cards: [
                    card(4, "Drag me to another list", "Or move me with the keys: everyone watching sees it."),
                    card(5, "Open this page a second time", "Both show the same board, even after you pull the plug."),
                ]),
            List(
                id: "l2", title: "Doing",
                cards: [card(6, "Vote for a card", "Each page has one vote per card, and can take it back.")]),
            List(
                id: "l3", title: "Done",
                cards: [card(7, "Undo something", "Undo reverts your own changes, one at a time.")]),
        ])

    private static func card(_ number: Int, _ title: String, _ text: String) -> Card {
        Card(id: "c\(number)", title: title, text: text, voters: [], revision: 1)
    }
}
