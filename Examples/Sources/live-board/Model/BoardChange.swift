/// A change to a board, complete enough to be applied to a copy.
enum BoardChange: Equatable, Sendable {
    case renamed(title: String)
    case listAdded(list: Board.List, index: Int)
    case listRenamed(list: String, title: String)
    /// The index applies after the list has been taken out; the same holds for a moved card.
    case listMoved(list: String, index: Int)
    case listRemoved(list: String)
    case cardAdded(card: Board.Card, list: String, index: Int)
    case cardEdited(card: String, title: String, text: String, revision: Int)
    case cardMoved(card: String, list: String, index: Int)
    case cardRemoved(card: String)
    case voted(card: String, client: String, on: Bool)
}

/// In JSON a change is one flat object with a `type`, both on the wire and in the log.
extension BoardChange: Codable {
    private enum Kind: String, Codable {
        case renamed, listAdded, listRenamed, listMoved, listRemoved
        case cardAdded, cardEdited, cardMoved, cardRemoved, voted
    }

    private enum Key: String, CodingKey { case type, title, text, list, card, index, revision, client, on }

    init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: Key.self)
        func field<Value: Decodable>(_ key: Key) throws -> Value { try fields.decode(Value.self, forKey: key) }
        switch try fields.decode(Kind.self, forKey: .type) {
        case .renamed: self = .renamed(title: try field(.title))
        case .listAdded: self = .listAdded(list: try field(.list), index: try field(.index))
        case .listRenamed: self = .listRenamed(list: try field(.list), title: try field(.title))
        case .listMoved: self = .listMoved(list: try field(.list), index: try field(.index))
        case .listRemoved: self = .listRemoved(list: try field(.list))
        case .cardAdded:
            self = .cardAdded(card: try field(.card), list: try field(.list), index: try field(.index))
        case .cardEdited:
            self = .cardEdited(
                card: try field(.card), title: try field(.title), text: try field(.text),
                revision: try field(.revision))
        case .cardMoved:
            self = .cardMoved(card: try field(.card), list: try field(.list), index: try field(.index))
        case .cardRemoved: self = .cardRemoved(card: try field(.card))
        case .voted: self = .voted(card: try field(.card), client: try field(.client), on: try field(.on))
        }
    }

    func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: Key.self)
        func put(_ kind: Kind, _ values: [(Key, any Encodable)]) throws { try fields.encode(kind, as: .type, values) }
        switch self {
        case .renamed(let title): try put(.renamed, [(.title, title)])
        case .listAdded(let list, let index): try put(.listAdded, [(.list, list), (.index, index)])
        case .listRenamed(let list, let title): try put(.listRenamed, [(.list, list), (.title, title)])
        case .listMoved(let list, let index): try put(.listMoved, [(.list, list), (.index, index)])
        case .listRemoved(let list): try put(.listRemoved, [(.list, list)])
        case .cardAdded(let card, let list, let index):
            try put(.cardAdded, [(.card, card), (.list, list), (.index, index)])
        case .cardEdited(let card, let title, let text, let revision):
            try put(.cardEdited, [(.card, card), (.title, title), (.text, text), (.revision, revision)])
        case .cardMoved(let card, let list, let index):
            try put(.cardMoved, [(.card, card), (.list, list), (.index, index)])
        case .cardRemoved(let card): try put(.cardRemoved, [(.card, card)])
        case .voted(let card, let client, let on):
            try put(.voted, [(.card, card), (.client, client), (.on, on)])
        }
    }
}

extension KeyedEncodingContainer {
    /// Encodes the case of an enum, and its associated values.
    mutating func encode(_ kind: some Encodable, as key: Key, _ values: [(Key, any Encodable)]) throws {
        try encode(kind, forKey: key)
        for (key, value) in values { try encode(value, forKey: key) }
    }
}

extension BoardChange {
    /// The id of the list or card that the change adds.
    var added: String? {
        switch self {
        case .listAdded(let list, _): list.id
        case .cardAdded(let card, _, _): card.id
        default: nil
        }
    }

    /// The approximate number of bytes that the change occupies.
    var size: Int {
        switch self {
        case .listAdded(let list, _): list.cards.reduce(200) { $0 + $1.size }
        case .cardAdded(let card, _, _): 100 + card.size
        case .cardEdited(_, let title, let text, _): 200 + title.utf8.count + text.utf8.count
        default: 200
        }
    }
}
