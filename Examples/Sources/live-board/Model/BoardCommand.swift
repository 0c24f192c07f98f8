/// What somebody wants done with a board, as it comes in the body of a request.
enum BoardCommand: Sendable {
    case addList(title: String)
    case renameList(list: String, title: String)
    case moveList(list: String, index: Int)
    case removeList(list: String)
    case addCard(list: String, title: String)
    /// The revision is that of the card which the edit was made of.
    case editCard(card: String, title: String, text: String, revision: Int)
    case moveCard(card: String, list: String, index: Int)
    case removeCard(card: String)
    case vote(card: String, on: Bool)
    case rename(title: String)
    /// Takes back the newest change of the client that is not taken back yet and still can be.
    case undo
}

extension BoardCommand: Decodable {
    private enum Kind: String, Decodable {
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
}

/// Why a command changes nothing.
enum Refusal: Error, Equatable {
    case unknownList(String)
    case unknownCard(String)
    /// Somebody else has changed the words of the card, which is now as it is here.
    case stale(revision: Int, card: Board.Card)
    case nothingToUndo
    case full(String)
    case invalid(String)
}

/// How much there may be on one board.
struct BoardLimits: Sendable {
    var lists = 100
    var cards = 1_000
    /// For one card.
    var voters = 1_000
}
