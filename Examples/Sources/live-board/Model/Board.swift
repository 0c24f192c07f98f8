/// A board as its users see it: ordered lists of cards.
struct Board: Codable, Equatable, Sendable {
    struct List: Codable, Equatable, Sendable {
        var id, title: String
        var cards: [Card]

        var size: Int { cards.reduce(100 + title.utf8.count) { $0 + $1.size } }
    }

    struct Card: Codable, Equatable, Sendable {
        var id, title, text: String
        /// The clients that have voted for it.
        var voters: [String]
        /// The revision of the board at which the card's title or text last changed.
        var revision: Int

        var size: Int { 100 + title.utf8.count + text.utf8.count + voters.count * 64 }
    }

    var title: String
    var lists: [List]

    // MARK: - Finding

    var cardCount: Int { lists.reduce(0) { $0 + $1.cards.count } }

    /// The approximate number of bytes that the board occupies in memory and when sent.
    var size: Int { lists.reduce(title.utf8.count) { $0 + $1.size } }

    func place(ofList id: String) -> Int? { lists.firstIndex { $0.id == id } }

    func place(ofCard id: String) -> (list: Int, card: Int)? {
        for (number, list) in lists.enumerated() {
            if let card = list.cards.firstIndex(where: { $0.id == id }) { return (number, card) }
        }
        return nil
    }

    func card(_ id: String) -> Card? { place(ofCard: id).map { lists[$0.list].cards[$0.card] } }

    // MARK: - Changing

    /// Applies a change; returns false and leaves the board as it was if the change does not fit.
    mutating func apply(_ change: BoardChange) -> Bool {
        switch change {
        case .renamed(let title):
            self.title = title
        case .listAdded(let list, let index):
            guard place(ofList: list.id) == nil, (0...lists.count).contains(index) else { return false }
            lists.insert(list, at: index)
        case .listRenamed(let id, let title):
            guard let place = place(ofList: id) else { return false }
            lists[place].title = title
        case .listMoved(let id, let index):
            guard let place = place(ofList: id), lists.indices.contains(index) else { return false }
            lists.insert(lists.remove(at: place), at: index)
        case .listRemoved(let id):
            guard let place = place(ofList: id) else { return false }
            lists.remove(at: place)
        case .cardAdded(let card, let list, let index):
            guard place(ofCard: card.id) == nil, let list = place(ofList: list),
                (0...lists[list].cards.count).contains(index)
            else { return false }
            lists[list].cards.insert(card, at: index)
        case .cardEdited(let id, let title, let text, let revision):
            guard let (list, card) = place(ofCard: id) else { return false }
            lists[list].cards[card].title = title
            lists[list].cards[card].text = text
            lists[list].cards[card].revision = revision
        case .cardMoved(let id, let list, let index):
            guard let (old, card) = place(ofCard: id), let new = place(ofList: list),
                (0...lists[new].cards.count - (old == new ? 1 : 0)).contains(index)
            else { return false }
            let moved = lists[old].cards.remove(at: card)
            lists[new].cards.insert(moved, at: index)
        case .cardRemoved(let id):
            guard let (list, card) = place(ofCard: id) else { return false }
            lists[list].cards.remove(at: card)
        case .voted(let id, let client, let on):
            guard let (list, card) = place(ofCard: id) else { return false }
            lists[list].cards[card].voters.removeAll { $0 == client }
            if on { lists[list].cards[card].voters.append(client) }
        }
        return true
    }

    // MARK: - Undoing

    /// The change that undoes a change, derived from the board before it; nil if the change does not fit the board.
    func opposite(of change: BoardChange) -> BoardChange? {
        switch change {
        case .renamed:
            return .renamed(title: title)
        case .listAdded(let list, _):
            return .listRemoved(list: list.id)
        case .listRenamed(let id, _):
            return place(ofList: id).map { .listRenamed(list: id, title: lists[$0].title) }
        case .listMoved(let id, _):
            return place(ofList: id).map { .listMoved(list: id, index: $0) }
        case .listRemoved(let id):
            return place(ofList: id).map { .listAdded(list: lists[$0], index: $0) }
        case .cardAdded(let card, _, _):
            return .cardRemoved(card: card.id)
        case .cardEdited(let id, _, _, _):
            return card(id).map { .cardEdited(card: id, title: $0.title, text: $0.text, revision: $0.revision) }
        case .cardMoved(let id, _, _):
            return place(ofCard: id).map { .cardMoved(card: id, list: lists[$0.list].id, index: $0.card) }
        case .cardRemoved(let id):
            return place(ofCard: id).map {
                .cardAdded(card: lists[$0.list].cards[$0.card], list: lists[$0.list].id, index: $0.card)
            }
        case .voted(let card, let client, let on):
            return .voted(card: card, client: client, on: !on)
        }
    }

    /// Whether two cards are equal except for their revisions.
    private static func haveSameWords(_ one: Card, _ other: Card) -> Bool {
        (one.id, one.title, one.text) == (other.id, other.title, other.text) && one.voters == other.voters
    }

    /// Whether everything that a change touched is still as the change left it.
    ///
    /// The position among other lists or cards is ignored: it shifts as they come and go.
    func isAsLeft(by change: BoardChange, keepsRenamedLists: Bool) -> Bool {
        switch change {
        case .renamed(let title): return self.title == title
        case .listAdded(let new, _):
            guard let list = place(ofList: new.id).map({ lists[$0] }) else { return false }
            if !keepsRenamedLists { return list.cards.map(\.id) == new.cards.map(\.id) }
            return list.title == new.title && list.cards.elementsEqual(new.cards, by: Self.haveSameWords)
        case .listRenamed(let id, let title): return place(ofList: id).map { lists[$0].title } == title
        case .listMoved(let id, _): return place(ofList: id) != nil
        case .listRemoved(let id): return place(ofList: id) == nil
        case .cardAdded(let new, let list, _):
            guard let card = card(new.id), place(ofCard: new.id).map({ lists[$0.list].id }) == list else {
                return false
            }
            return Self.haveSameWords(card, new)
        case .cardEdited(let id, let title, let text, _):
            return card(id).map { $0.title == title && $0.text == text } ?? false
        case .cardMoved(let id, let list, _): return place(ofCard: id).map { lists[$0.list].id } == list
        case .cardRemoved(let id): return place(ofCard: id) == nil
        case .voted(let id, let client, let on): return card(id).map { $0.voters.contains(client) == on } ?? false
        }
    }

    /// The change adapted to the current board, where others may have moved things and an index may be too high.
    func fitted(_ change: BoardChange, revision: Int) -> BoardChange? {
        switch change {
        case .listAdded(let list, let index):
            return .listAdded(list: list, index: min(index, lists.count))
        case .listMoved(let id, let index):
            return .listMoved(list: id, index: min(index, lists.count - 1))
        case .cardAdded(let card, let list, let index):
            return place(ofList: list).map {
                .cardAdded(card: card, list: list, index: min(index, lists[$0].cards.count))
            }
        case .cardMoved(let id, let list, let index):
            guard let old = place(ofCard: id)?.list, let new = place(ofList: list) else { return nil }
            let room = lists[new].cards.count - (old == new ? 1 : 0)
            return .cardMoved(card: id, list: list, index: min(index, room))
        case .cardEdited(let id, let title, let text, _):
            return .cardEdited(card: id, title: title, text: text, revision: revision)
        default:
            return change
        }
    }
}
