import Foundation
import ProgramTesting
import Testing

@testable import live_board

/// The pure part: commands, actions, states, and undo.
@Suite struct BoardStateTests {
    let limits = BoardLimits()

    func fresh() -> BoardState {
        var state = BoardState()
        let fits = state.apply(.found(.welcome))
        #expect(fits)
        return state
    }

    /// Performs a command, and returns the revision.
    @discardableResult func perform(
        _ command: BoardCommand, on state: inout BoardState, by client: String = "somebody"
    ) throws -> Int {
        if let action = try state.action(for: command, by: client, limits: limits) {
            let fits = state.apply(action)
            #expect(fits)
        }
        return state.revision
    }

    @Test("A copy that applies all changes, or replays the log, equals the board")
    func copies() throws {
        for seed in 1...20 as ClosedRange<UInt64> {
            var random = SplitMix(seed: seed)
            var state = fresh()
            var copy = state.board
            var log: [BoardAction] = []
            for _ in 0..<300 {
                let client = "client-\(Int.random(in: 1...3, using: &random))"
                let command = randomCommand(on: state, &random)
                guard let action = try? state.action(for: command, by: client, limits: BoardLimits(lists: 6, cards: 20))
                else { continue }
                let isApplied = state.apply(action)
                #expect(isApplied, "an action that was just made fits")
                log.append(try JSONDecoder().decode(BoardAction.self, from: JSONEncoder().encode(action)))
                let change = try #require(state.changes.last)
                #expect(change.revision == state.revision)
                let sent = try JSONDecoder().decode(BoardState.NumberedChange.self, from: encoded(change))
                #expect(sent == change)
                let fits = copy.apply(sent.change)
                #expect(fits)
                #expect(copy == state.board, "after \(change.change)")
            }
            let ids = state.board.lists.map(\.id) + state.board.lists.flatMap { $0.cards.map(\.id) }
            #expect(Set(ids).count == ids.count && state.board.lists.count <= 6 && state.board.cardCount <= 20)
            var replayed = fresh()
            for action in log {
                let fits = replayed.apply(action)
                #expect(fits)
            }
            #expect(encoded(replayed) == encoded(state))
            let restored = try JSONDecoder().decode(BoardState.self, from: encoded(state))
            #expect(encoded(restored) == encoded(state))
        }
    }

    @Test(
        "A log written by an older program is read, and its revisions are known by number alone")
    func olderLog() throws {
        var state = fresh()
        for line in [
            #"{"change":{"_0":{"type":"renamed","title":"A"},"by":"client-1"}}"#,
            #"{"undo":{"of":2,"_1":{"type":"renamed","title":"Welcome"},"by":"client-1"}}"#,
        ] {
            let fits = state.apply(try JSONDecoder().decode(BoardAction.self, from: Data(line.utf8)))
            #expect(fits)
        }
        #expect(state.revision == 3 && state.order == nil && state.board == .welcome)
        #expect(
            state.has(KnownRevision(3)) && state.has(KnownRevision(1)) && !state.has(KnownRevision(4))
                && !state.has(KnownRevision(3, "another")))
        let fits = state.apply(.change(.renamed(title: "B"), by: "client-1", order: "x-y"))
        #expect(fits)
        let known = try #require(KnownRevision("\(KnownRevision(4, state.order))"))
        #expect(
            state.has(known) && !state.has(KnownRevision(4)) && state.has(KnownRevision(3))
                && !state.has(KnownRevision(4, "x"))
                && !state.has(KnownRevision(2, "x")))
        #expect(KnownRevision("") == nil && KnownRevision("-1") == nil && KnownRevision("x-1") == nil)
    }

    @Test("A client that made all changes alone can undo each of them, back to the beginning")
    func undoAll() throws {
        for seed in 1...20 as ClosedRange<UInt64> {
            var random = SplitMix(seed: seed)
            var state = fresh()
            for _ in 0..<100 {
                var command = randomCommand(on: state, &random)
                while case .undo = command { command = randomCommand(on: state, &random) }
                _ = try? perform(command, on: &state)
            }
            while (try? perform(.undo, on: &state)) != nil {}
            #expect(words(state.board) == words(.welcome), "seed \(seed)")
        }
    }

    @Test("An undo reverts neither changes of others nor what others have changed since")
    func undoAmongOthers() throws {
        var state = fresh()
        let edit = try perform(.editCard(card: "c4", title: "Mine", text: "", revision: 1), on: &state, by: "ann")
        try perform(.vote(card: "c5", on: true), on: &state, by: "ann")
        try perform(.editCard(card: "c4", title: "Yours", text: "", revision: edit), on: &state, by: "ben")
        try perform(.undo, on: &state, by: "ann")
        #expect(state.board.card("c5")?.voters == [])
        #expect(throws: Refusal.nothingToUndo) { try perform(.undo, on: &state, by: "ann") }
        #expect(state.board.card("c4")?.title == "Yours")
        try perform(.undo, on: &state, by: "ben")
        #expect(state.board.card("c4")?.title == "Mine")
        try perform(.undo, on: &state, by: "ann")
        #expect(state.board.card("c4")?.title == Board.welcome.card("c4")?.title)
    }

    @Test("A list is not undone once another client has renamed it, or put a card into it")
    func undoOfLists() throws {
        var state = fresh()
        try perform(.addList(title: "Mine"), on: &state, by: "ann")
        let list = try #require(state.board.lists.last)
        try perform(.renameList(list: list.id, title: "Ours"), on: &state, by: "ben")
        #expect(throws: Refusal.nothingToUndo) { try perform(.undo, on: &state, by: "ann") }
        try perform(.undo, on: &state, by: "ben")
        var edited = state
        try perform(.addCard(list: list.id, title: "A card"), on: &edited, by: "ben")
        #expect(throws: Refusal.nothingToUndo) { try perform(.undo, on: &edited, by: "ann") }
        try perform(.undo, on: &state, by: "ann")
        #expect(words(state.board) == words(.welcome))
    }

    @Test("A removed card cannot come back while its list is gone")
    func undoOfRemovals() throws {
        var state = fresh()
        try perform(.removeCard(card: "c6"), on: &state, by: "ann")
        try perform(.removeList(list: "l2"), on: &state, by: "ben")
        #expect(throws: Refusal.nothingToUndo) { try perform(.undo, on: &state, by: "ann") }
        try perform(.undo, on: &state, by: "ben")
        try perform(.undo, on: &state, by: "ann")
        #expect(words(state.board) == words(.welcome))
    }

    @Test("An id is never used twice, even after its card or list was removed")
    func ids() throws {
        var state = fresh()
        try perform(.addList(title: "A"), on: &state)
        try perform(.addCard(list: "l8", title: "B"), on: &state)
        try perform(.removeList(list: "l8"), on: &state)
        try perform(.addCard(list: "l1", title: "C"), on: &state)
        #expect(state.board.lists[0].cards.last?.id == "c10")
    }

    @Test("An edit of an old revision is refused with the current card; the same edit again changes nothing")
    func stale() throws {
        var state = fresh()
        let revision = try perform(.editCard(card: "c4", title: "A", text: "a", revision: 1), on: &state)
        #expect(try perform(.editCard(card: "c4", title: "A", text: "a", revision: 1), on: &state) == revision)
        let card = try #require(state.board.card("c4"))
        #expect(throws: Refusal.stale(revision: revision, card: card)) {
            try perform(.editCard(card: "c4", title: "B", text: "b", revision: 1), on: &state)
        }
        // A move or a vote does not change the words.
        try perform(.moveCard(card: "c4", list: "l3", index: 99), on: &state)
        try perform(.vote(card: "c4", on: true), on: &state)
        try perform(.editCard(card: "c4", title: "B", text: "b", revision: revision), on: &state)
        #expect(state.board.lists[2].cards.last?.title == "B")
    }

    @Test("The newest 500 changes are kept, or fewer if they are large")
    func kept() throws {
        var state = fresh()
        for number in 1...700 { try perform(.rename(title: "\(number)"), on: &state) }
        #expect(state.changes(after: 201)?.first?.revision == 202 && state.changes(after: 100) == nil)
        #expect(state.changes(after: 701)?.isEmpty == true && state.changes(after: 702) == nil)
        for number in 1...400 {
            let text = String(repeating: "\(number % 10)", count: 4_000)
            let revision = try #require(state.board.card("c4")?.revision)
            try perform(.editCard(card: "c4", title: "A", text: text, revision: revision), on: &state)
        }
        #expect((200...300).contains(state.changes.count))
    }

    @Test("A command that would make a board too large is refused wherever it is decided; others are not")
    func bytes() throws {
        var state = fresh()
        let text = String(repeating: "x", count: 2_000)
        try perform(.editCard(card: "c4", title: "A", text: text, revision: 1), on: &state)
        try perform(.editCard(card: "c4", title: "A", text: "", revision: 2), on: &state)
        func decide(_ command: BoardCommand, room: Int, by client: String = "somebody") throws {
            let limits = BoardLimits(bytes: state.board.size + room)
            let before = encoded(state)
            let fits = state.apply(.decide(command, by: client, limits: limits, id: "x"))
            #expect(fits || encoded(state) == before)
            if !fits { _ = try state.action(for: command, by: client, limits: limits) }
        }
        for (command, room) in [
            (.editCard(card: "c5", title: "A", text: text, revision: 1), 1_000),
            (.addCard(list: "l1", title: "A"), 100), (.addList(title: "A"), 100), (.rename(title: "Welcome all"), 3),
            (.vote(card: "c4", on: true), 63),
        ] as [(BoardCommand, Int)] {
            let full = Refusal.full("A board can have at most about \(state.board.size + room) bytes.")
            #expect(throws: full) { try decide(command, room: room) }
        }
        #expect(throws: Refusal.nothingToUndo) { try decide(.undo, room: 1_999) }
        try decide(.undo, room: 2_000)
        try decide(.vote(card: "c4", on: true), room: 64)
        for command in [
            .moveCard(card: "c4", list: "l3", index: 0), .vote(card: "c4", on: false), .removeList(list: "l1"),
        ] as [BoardCommand] { try decide(command, room: -2_000) }

        let old = try JSONDecoder().decode(BoardLimits.self, from: Data(#"{"lists":1,"cards":1,"voters":1}"#.utf8))
        #expect(old.bytes == nil, "A command of an older program is decided as that did.")
    }

    // MARK: - On a log that several servers share

    @Test(
        "Servers that decide on the same commands reach the same state, and refused ones change nothing"
    )
    func decided() throws {
        for seed in 1...3 as ClosedRange<UInt64> {
            var random = SplitMix(seed: seed)
            var servers = [fresh(), fresh()]
            // The state that a server looks at may be some commands old.
            var old = servers[0]
            for number in 0..<300 {
                let client = "client-\(Int.random(in: 1...3, using: &random))"
                let command = randomCommand(on: old, &random)
                let sent = BoardAction.decide(
                    command, by: client, limits: BoardLimits(lists: 6, cards: 20), id: "\(number)")
                let bytes = encoded(sent)
                let before = servers[0]
                for index in servers.indices {
                    let action = try JSONDecoder().decode(BoardAction.self, from: bytes)
                    let fits = servers[index].apply(action)
                    if fits {
                        #expect(servers[index].changes.last?.order == "\(number)")
                        #expect(servers[index].revision == before.revision + 1)
                    } else {
                        #expect(encoded(servers[index]) == encoded(before), "\(command)")
                    }
                }
                #expect(encoded(servers[0]) == encoded(servers[1]))
                if number.isMultiple(of: 5) { old = servers[0] }
                #expect(servers[0].board.lists.count <= 6 && servers[0].board.cardCount <= 20)
            }
            #expect(servers[0].revision > 50, "seed \(seed)")
        }
    }

    @Test("The catalogue has the newest title of a board, in whatever order servers report it")
    func titles() throws {
        var catalogue = Catalogue()
        _ = catalogue.handle(action: .add(.welcome, "First", limit: 9))
        for (title, revision, shown) in [("Third", 3, "Third"), ("Second", 2, "Third"), ("Fourth", 4, "Fourth")] {
            let action = try JSONDecoder().decode(
                Catalogue.Action.self, from: encoded(Catalogue.Action.name(.welcome, title, revision: revision)))
            let changed = catalogue.handle(action: action) != nil
            #expect(changed == (title == shown) && catalogue.titles["welcome"] == shown)
        }
        // The form for a server without a shared log, which was also written before several servers could share one.
        let action = try JSONDecoder().decode(
            Catalogue.Action.self, from: Data(#"{"name":{"_0":"welcome","_1":"Old"}}"#.utf8))
        _ = catalogue.handle(action: action)
        #expect(catalogue.titles["welcome"] == "Old")
        let old = try JSONDecoder().decode(Catalogue.self, from: Data(#"{"titles":{"welcome":"A"}}"#.utf8))
        #expect(old.titles == ["welcome": "A"])
    }

    // MARK: - Support

    /// A board without the revisions of its cards, which never go back, and without the order of votes.
    private func words(_ board: Board) -> Board {
        var board = board
        for list in board.lists.indices {
            for card in board.lists[list].cards.indices {
                board.lists[list].cards[card].revision = 0
                board.lists[list].cards[card].voters.sort()
            }
        }
        return board
    }

    private func randomCommand(on state: BoardState, _ random: inout SplitMix) -> BoardCommand {
        let lists = state.board.lists.map(\.id) + ["l0"]
        let cards = state.board.lists.flatMap(\.cards)
        let list = lists.randomElement(using: &random)!
        let card = cards.randomElement(using: &random)?.id ?? "c0"
        let index = Int.random(in: 0...5, using: &random)
        let title = "\(Int.random(in: 0...9, using: &random))"
        switch Int.random(in: 0...13, using: &random) {
        case 0: return .addList(title: title)
        case 1: return .renameList(list: list, title: title)
        case 2: return .moveList(list: list, index: index)
        case 3: return .removeList(list: list)
        case 4, 5, 6: return .addCard(list: list, title: title)
        case 7:
            let revision = state.board.card(card)?.revision ?? 0
            return .editCard(card: card, title: title, text: title, revision: revision)
        case 8, 9: return .moveCard(card: card, list: list, index: index)
        case 10: return .removeCard(card: card)
        case 11: return .vote(card: card, on: index > 2)
        case 12: return .rename(title: title)
        default: return .undo
        }
    }
}
