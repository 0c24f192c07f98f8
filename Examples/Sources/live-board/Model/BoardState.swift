/// All that is kept of a board: what everybody sees, the newest changes, and what it takes to undo them.
///
/// It is pure: a command is looked at here and becomes an action, and an action changes it, in the same way each time.
struct BoardState: Codable, Sendable {
    /// A change with the revision that it has made, as watchers are told of it.
    struct NumberedChange: Codable, Equatable, Sendable {
        var revision: Int
        var client: String
        var change: BoardChange
        /// What tells it from any other, also from that of the same revision where an older copy of the board went on.
        ///
        /// It is given by the server that asked for the change. Older programs gave none.
        var order: String?
    }

    /// A change that may be taken back, and what does so.
    private struct Undoable: Codable, Sendable {
        var revision: Int
        var client: String
        var change, opposite: BoardChange
    }

    private(set) var board = Board(title: "", lists: [])
    /// How many changes there were, the making of the board included.
    private(set) var revision = 0
    /// The newest of the numbers in the ids of lists and cards: none is used twice.
    private var lastNumber = 0
    private(set) var changes: [NumberedChange] = []
    private var undoables: [Undoable] = []

    /// The changes after a revision; nil where not all of them are kept any more.
    func changes(after last: Int) -> ArraySlice<NumberedChange>? {
        guard last <= revision, last >= revision - changes.count else { return nil }
        return changes.suffix(revision - last)
    }

    /// What tells the newest change from any other.
    var order: String? { changes.last?.order }

    /// Whether the board was once as somebody knows it: the same number may have been given twice, once before a copy was restored.
    func has(_ known: KnownRevision) -> Bool {
        guard known.revision <= revision else { return false }
        // The first is the making of the board, which is the same in each copy.
        if known.revision == 1 { return known.order == nil }
        let place = changes.count - 1 - (revision - known.revision)
        return changes.indices.contains(place) && changes[place].order == known.order
    }
}

/// A revision as a client knows it, which it gives to be told of what came after it.
struct KnownRevision: CustomStringConvertible {
    var revision: Int
    /// What tells the change that made it from any other; nil where nothing does.
    var order: String?

    var description: String { order.map { "\(revision)-\($0)" } ?? "\(revision)" }

    init(_ revision: Int, _ order: String? = nil) { (self.revision, self.order) = (revision, order) }

    /// Reads a description; nil where it is none.
    init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard let revision = Int(parts[0]) else { return nil }
        self.init(revision, parts.count > 1 ? String(parts[1]) : nil)
    }
}

// MARK: - From a command to an action

/// What changes the state of a board, as it is kept in the log.
enum BoardAction: Codable, Sendable {
    /// The first of all.
    case found(Board)
    case change(BoardChange, by: String, order: String? = nil)
    /// Takes back the change of a revision.
    case undo(of: Int, BoardChange, by: String, order: String? = nil)
    /// Decides on a command where it is applied: on a log that several servers share others may have come before it.
    ///
    /// The words of the command are checked. The id is its server's, to find what has come of it.
    case decide(BoardCommand, by: String, limits: BoardLimits, id: String)

    /// The id of what it adds.
    var added: String? { if case .change(let change, _, _) = self { change.added } else { nil } }

    /// The same, told from any other by an order.
    func ordered(_ order: String) -> BoardAction {
        switch self {
        case .found, .decide: self
        case .change(let change, let client, _): .change(change, by: client, order: order)
        case .undo(let target, let change, let client, _): .undo(of: target, change, by: client, order: order)
        }
    }
}

extension BoardState {
    /// Looks at a command; nil: nothing has to change for it.
    func action(
        for command: BoardCommand, by client: String, limits: BoardLimits
    ) throws(Refusal) -> BoardAction? {
        try decision(on: command.checked(), by: client, limits: limits)
    }

    /// Looks at a command whose words are checked: the same comes of it on every server that has this state.
    private func decision(
        on command: BoardCommand, by client: String, limits: BoardLimits
    ) throws(Refusal) -> BoardAction? {
        if case .undo = command { return try undo(by: client, limits: limits) }
        guard let change = try change(for: command, by: client, limits: limits) else { return nil }
        var changed = board
        if let bytes = limits.bytes, changed.apply(change), changed.size > max(bytes, board.size) {
            throw .full("A board has about \(bytes) bytes at most.")
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
            guard board.lists.count < limits.lists else { throw .full("A board has \(limits.lists) lists at most.") }
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
            guard board.cardCount < limits.cards else { throw .full("A board has \(limits.cards) cards at most.") }
            let card = Board.Card(
                id: "c\(lastNumber + 1)", title: title, text: "", voters: [], revision: revision + 1)
            return .cardAdded(card: card, list: list, index: board.lists[place].cards.count)

        case .editCard(let id, let title, let text, let revision):
            let card = try card(id)
            // An edit that comes a second time, since its answer was lost, has nothing left to do.
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
            if on && voters.count >= limits.voters { throw .full("A card has \(limits.voters) votes at most.") }
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
    /// Applies an action; false, and nothing has changed, where it does not fit.
    ///
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
    /// Drops the oldest where there are more than so many, or where they are large; the newest stays in any case.
    ///
    /// A few more are kept than that, so that not each of them moves all others.
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

// MARK: - What clients are told

/// A board with its revision.
struct Snapshot: Encodable, Equatable {
    var revision: Int
    var order: String?
    var board: Board

    init(_ state: BoardState) { (revision, order, board) = (state.revision, state.order, state.board) }
}

/// The answer to a command: it is done, and on disk.
struct Receipt: Encodable, Sendable {
    var revision: Int
    /// The id of what was added.
    var id: String?
}

extension Board {
    /// The board of a fresh start.
    static let welcome = Board(
        title: "Welcome",
        lists: [
            List(
                id: "l1", title: "To do",
                cards: [
                    card(4, "Drag me to another list", "Or move me with the keys: everybody who looks on sees it."),
                    card(5, "Open this page a second time", "Both show the same board, also after you pull the plug."),
                ]),
            List(
                id: "l2", title: "Doing",
                cards: [card(6, "Vote for a card", "Each page has one vote for a card, and may take it back.")]),
            List(
                id: "l3", title: "Done",
                cards: [card(7, "Take something back", "Undo takes back your own changes, one after the other.")]),
        ])

    private static func card(_ number: Int, _ title: String, _ text: String) -> Card {
        Card(id: "c\(number)", title: title, text: text, voters: [], revision: 1)
    }
}
