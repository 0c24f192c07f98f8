import FluxCore
import FluxEffects
import Synchronization
import Testing

// MARK: - The recipe: a limit for the whole house

/// A room: its database requests wait for their turn in the room, and then for a place in the house.
final class Room: Sendable {
    let store = FluxStore(initialState: Offers(), dispatcher: nil)
    let creator: FluxActionCreator<Bidding>

    /// - Parameters:
    ///   - database: The database that all rooms share.
    ///   - house: How many requests of all rooms together the database gets at once, and how many may wait.
    init(database: Database, house: FluxLimit) {
        creator = FluxActionCreator(dependency: database, store: store, rules: [.sequence(), .concurrency(house)])
    }

    /// Returns false if the house is full; report that to the client, which may try again.
    func bid(_ amount: Int) async -> Bool {
        await !creator.fire(.bid(amount)).outcome.isDropped
    }
}

enum Bidding: FluxAsyncActionConverter {
    enum Event: FluxEvent { case bid(Int) }
    enum Action: FluxAction { case accepted(Int) }

    static func convert(
        event: Event, dependency database: Database, send: @escaping @Sendable (Action) -> Void
    ) async throws {
        switch event {
        case .bid(let amount): if try await database.isCovered(amount) { send(.accepted(amount)) }
        }
    }
}

struct Offers: FluxState {
    private(set) var highest = 0

    mutating func handle(action: Bidding.Action) -> Offers? {
        switch action {
        case .accepted(let amount):
            if amount <= highest { return nil }
            highest = amount
        }
        return self
    }
}

// MARK: - Its test

/// Counts the requests at the same time, and answers once it is opened.
final class Database: Sendable {
    private struct Desk {
        var asking = 0
        var most = 0
        var isOpen = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let desk = Mutex(Desk())

    var most: Int { desk.withLock { $0.most } }

    func open() {
        let waiting = desk.withLock { desk in
            desk.isOpen = true
            defer { desk.waiting = [] }
            return desk.waiting
        }
        for one in waiting { one.resume() }
    }

    func isCovered(_ amount: Int) async throws -> Bool {
        await withCheckedContinuation { continuation in
            let isOpen = desk.withLock { desk in
                desk.asking += 1
                desk.most = max(desk.most, desk.asking)
                if !desk.isOpen { desk.waiting.append(continuation) }
                return desk.isOpen
            }
            if isOpen { continuation.resume() }
        }
        desk.withLock { $0.asking -= 1 }
        return true
    }
}

@Suite struct HouseLimitTests {
    @Test func `A thousand rooms send four requests at a time, and a full house refuses bids`() async {
        let (database, house) = (Database(), FluxLimit(4, waiting: 900))
        let rooms = (0..<1_000).map { _ in Room(database: database, house: house) }
        let answers = await withTaskGroup(of: Bool.self) { group in
            for (number, room) in rooms.enumerated() { group.addTask { await room.bid(number + 1) } }
            // Refused bids are answered at once, so they come first.
            var answers: [Bool] = []
            for await answer in group {
                answers.append(answer)
                if answers.count == 96 { database.open() }
            }
            return answers
        }
        #expect(answers == Array(repeating: false, count: 96) + Array(repeating: true, count: 904))
        #expect(database.most == 4)
        #expect(rooms.filter { $0.store.state.highest > 0 }.count == 904)
    }
}
