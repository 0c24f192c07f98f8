import Foundation

/// A command for a board, as it arrives in the body of a request.
enum BoardCommand: Equatable, Sendable {
    case addList(title: String)
    case renameList(list: String, title: String)
    case moveList(list: String, index: Int)
    case removeList(list: String)
    case addCard(list: String, title: String)
    /// `revision` is the revision of the card that the edit is based on.
    case editCard(card: String, title: String, text: String, revision: Int)
    case moveCard(card: String, list: String, index: Int)
    case removeCard(card: String)
    case vote(card: String, on: Bool)
    case rename(title: String)
    /// Undoes the client's newest change that has not been undone and still can be.
    case undo
}

/// In JSON a command is one flat object with a `type`, both in a request and on a log that several servers share.
extension BoardCommand: Codable {
    private enum Kind: String, Codable {
        case addList, renameList, moveList, removeList, addCard, editCard, moveCard, removeCard, vote, rename, undo
    }

    private enum Key: String, CodingKey { case type, title, text, list, card, index, revision, on }

    init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: Key.self)
        func field<Value: Decodable>(_ key: Key) throws -> Value { try fields.decode(Value.self, forKey: key) }
        switch try fields.decode(Kind.self, forKey: .type) {
        case .addList: self = .addList(title: try field(.title))
        case .renameList: self = .renameList(list: try field(.list), title: try field(.title))
        case .moveList: self = .moveList(list: try field(.list), index: try field(.index))
        case .removeList: self = .removeList(list: try field(.list))
        case .addCard: self = .addCard(list: try field(.list), title: try field(.title))
        case .editCard:
            self = .editCard(
                card: try field(.card), title: try field(.title), text: try field(.text),
                revision: try field(.revision))
        case .moveCard: self = .moveCard(card: try field(.card), list: try field(.list), index: try field(.index))
        case .removeCard: self = .removeCard(card: try field(.card))
        case .vote: self = .vote(card: try field(.card), on: try field(.on))
        case .rename: self = .rename(title: try field(.title))
        case .undo: self = .undo
        }
    }

    func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: Key.self)
        func put(_ kind: Kind, _ values: [(Key, any Encodable)]) throws { try fields.encode(kind, as: .type, values) }
        switch self {
        case .addList(let title): try put(.addList, [(.title, title)])
        case .renameList(let list, let title): try put(.renameList, [(.list, list), (.title, title)])
        case .moveList(let list, let index): try put(.moveList, [(.list, list), (.index, index)])
        case .removeList(let list): try put(.removeList, [(.list, list)])
        case .addCard(let list, let title): try put(.addCard, [(.list, list), (.title, title)])
        case .editCard(let card, let title, let text, let revision):
            try put(.editCard, [(.card, card), (.title, title), (.text, text), (.revision, revision)])
        case .moveCard(let card, let list, let index):
            try put(.moveCard, [(.card, card), (.list, list), (.index, index)])
        case .removeCard(let card): try put(.removeCard, [(.card, card)])
        case .vote(let card, let on): try put(.vote, [(.card, card), (.on, on)])
        case .rename(let title): try put(.rename, [(.title, title)])
        case .undo: try put(.undo, [])
        }
    }
}

// MARK: - Checking

extension BoardCommand {
    /// Returns the command with its titles trimmed, as they are saved; throws if a value is not allowed on any board.
    ///
    /// What counts as a character depends on the system, so a server checks the texts before it passes a command on to
    /// other servers.
    func checked() throws(Refusal) -> BoardCommand {
        switch self {
        case .addList(let title): return .addList(title: try Self.checked(title))
        case .renameList(let list, let title): return .renameList(list: list, title: try Self.checked(title))
        case .addCard(let list, let title): return .addCard(list: list, title: try Self.checked(title))
        case .rename(let title): return .rename(title: try Self.checked(title))
        case .editCard(let card, let title, let text, let revision):
            let title = try Self.checked(title)
            if text.count > 4_000 { throw .invalid("A text must have at most 4,000 characters, not \(text.count).") }
            return .editCard(card: card, title: title, text: text, revision: revision)
        case .moveList(_, let index), .moveCard(_, _, let index):
            if index < 0 { throw .invalid("An index must be 0 or more, not \(index).") }
            return self
        case .removeList, .removeCard, .vote, .undo:
            return self
        }
    }

    /// Returns a title trimmed; throws if it is not allowed.
    static func checked(_ title: String) throws(Refusal) -> String {
        let title = title.trimmingCharacters(in: .whitespacesAndNewlines)
        guard (1...200).contains(title.count) else {
            throw .invalid("A title must have 1 to 200 characters, not \(title.count).")
        }
        // Joiners, marks of direction, control characters and the like show nothing by themselves.
        let isVisible = title.unicodeScalars.map(\.properties).contains {
            !$0.isDefaultIgnorableCodePoint && !$0.isWhitespace && $0.generalCategory != .control
        }
        if !isVisible { throw .invalid("A title must have a visible character.") }
        return title
    }
}

/// Why a command changes nothing.
enum Refusal: Error, Equatable {
    case unknownList(String)
    case unknownCard(String)
    /// The text of the card has changed since; `card` is its current version.
    case stale(revision: Int, card: Board.Card)
    case nothingToUndo
    case full(String)
    case invalid(String)
}

/// The limits of one board.
struct BoardLimits: Codable, Sendable {
    var lists = 100
    var cards = 1_000
    /// Per card.
    var voters = 1_000
    /// Approximate; nil: no limit, as in commands that an older program wrote to a log.
    var bytes: Int? = 1_000_000
    /// Whether an undo keeps an added list that was renamed since, or whose cards were edited or voted on; nil: it
    /// removes the list, as in commands that an older program wrote to a log.
    var keepsRenamedLists: Bool? = true
}
