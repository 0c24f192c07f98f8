import FluxCore
import FluxEffects
import FluxObservation
import FluxPersistence
import FluxRouting
import Foundation
import Synchronization
import Terminal
import Testing

@testable import auction_house

/// The parts of the house, with a repository that answers when the test lets it.
@Suite final class HouseTests {
    let folder = FileManager.default.temporaryDirectory.appending(component: "House-\(UUID().uuidString)")
    let repository = HandRepository()

    init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }
    deinit { try? FileManager.default.removeItem(at: folder) }

    func house(questions: Int = 40, open: Int = 1_000, idle: Duration = .seconds(60)) -> House {
        House(folder: folder.path, repository: repository, questions: questions, open: open, idle: idle)
    }

    @Test func `A bid is accepted if it is higher than the last, and a room has each once`() {
        var room = Room()
        #expect(room.handle(action: .take(Bid(bidder: 1, amount: 5)))?.highest == 5)
        #expect(room.handle(action: .take(Bid(bidder: 2, amount: 5))) == nil)
        #expect(room.handle(action: .take(Bid(bidder: 2, amount: 7)))?.highest == 7)
        #expect(room.bids.count == 2)
        #expect(room.has(Bid(bidder: 1, amount: 5)) && room.has(Bid(bidder: 2, amount: 7)))
        #expect(!room.has(Bid(bidder: 2, amount: 5)) && !room.has(Bid(bidder: 1, amount: 6)))
    }

    @Test func `An accepted bid is on disk even if the room was not closed`() async throws {
        repository.open()
        let house = house()
        try await house.desks.with(1) { try await $0.take(Bid(bidder: 1, amount: 5)) }
        let content = try Data(contentsOf: folder.appending(component: "room-1")).dropFirst(40)
        #expect(try JSONDecoder().decode(Room.self, from: content).bids == [Bid(bidder: 1, amount: 5)])
        withExtendedLifetime(house) {}
    }

    @Test func `A bidder gets the reason why a bid was refused`() async throws {
        let house = house()
        try await house.desks.with(1) { desk in
            let first = Task { try await desk.take(Bid(bidder: 1, amount: 5)) }
            await repository.asked(1)
            await #expect(throws: Refusal.tooFast) { try await desk.take(Bid(bidder: 1, amount: 6)) }
            repository.open()
            try await first.value
            await #expect(throws: Refusal.outbid) { try await desk.take(Bid(bidder: 2, amount: 5)) }
            await #expect(throws: Refusal.unknown(bidder: 0)) { try await desk.take(Bid(bidder: 0, amount: 9)) }
            #expect(desk.store.state.highest == 5)
        }
    }

    @Test func `All rooms together stay within the limit of concurrent calls to the repository`() async throws {
        let house = house(questions: 2)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for room in 1...9 {
                group.addTask { try await house.desks.with(room) { try await $0.take(Bid(bidder: 1, amount: 1)) } }
            }
            await repository.asked(2)
            repository.open()
            try await group.waitForAll()
        }
        #expect(repository.most == 2)
        #expect(repository.count == 9)
    }

    @Test func `A bid whose bidder has left is accepted before the room is closed`() async throws {
        let house = house(idle: .zero)
        let bid = Bid(bidder: 1, amount: 5)
        let bidder = Task { try await house.desks.with(1) { try await $0.take(bid) } }
        await repository.asked(1)
        bidder.cancel()
        await #expect(throws: CancellationError.self) { try await bidder.value }
        // The room is not closed until the repository has answered.
        await #expect(throws: Failure.self) { try await house.close(within: .milliseconds(100)) }
        repository.open()
        try await house.close()
        let content = try Data(contentsOf: folder.appending(component: "room-1")).dropFirst(40)
        #expect(try JSONDecoder().decode(Room.self, from: content).bids == [bid])
    }

    @Test func `Rooms that come and go lose no bid`() async throws {
        repository.open()
        let house = house(open: 2, idle: .zero)
        let receipts = (0..<200).map { Receipt(room: $0 % 7, bid: Bid(bidder: 1 + $0 % 7, amount: 1 + $0 / 7)) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for room in 0..<7 {
                group.addTask {
                    for receipt in receipts where receipt.room == room {
                        try await house.desks.with(room) { try await $0.take(receipt.bid) }
                    }
                }
            }
            try await group.waitForAll()
        }
        try await house.close()
        let next = self.house()
        #expect(try await next.lost(of: receipts).isEmpty)
        #expect(try await next.lost(of: [Receipt(room: 0, bid: Bid(bidder: 2, amount: 1))]).count == 1)
    }

    #if os(Linux)
        @Test func `No receipt is written after one that was cut short`() async {
            // In a separate process, whose files are limited in size.
            await #expect(processExitsWith: .success) {
                let path = FileManager.default.temporaryDirectory.appending(component: "receipts-\(UUID())").path
                let town = Town(
                    house: House(folder: path, repository: HandRepository()), rooms: 1,
                    receipts: try Output(appendingTo: path))
                limitFiles(to: 9)
                let receipt = Receipt(room: 1, bid: Bid(bidder: 2, amount: 3))
                try town.acknowledge(receipt)
                let second = (try? town.acknowledge(receipt)) == nil
                limitFiles(to: nil)
                let third = (try? town.acknowledge(receipt)) == nil
                let file = try String(contentsOfFile: path, encoding: .utf8)
                try FileManager.default.removeItem(atPath: path)
                exit(second && third && file == "1 2 3\n1 2" ? 0 : 1)
            }
        }
    #endif

    @Test func `The board shows the open rooms as they come and go`() async throws {
        repository.open()
        let house = house()
        var boards = house.board.states.makeAsyncIterator()
        #expect(await boards.next() == Board(rooms: 0, bids: 0, highest: 0))
        for room in 1...3 { try await house.desks.with(room) { try await $0.take(Bid(bidder: 1, amount: room)) } }
        while let board = await boards.next(), board != Board(rooms: 3, bids: 3, highest: 3) {}
        try await house.desks.close(3)
        while let board = await boards.next(), board != Board(rooms: 2, bids: 2, highest: 2) {}
        #expect(house.board.state == Board(rooms: 2, bids: 2, highest: 2))
    }

    @Test func `A closed house accepts no bid, and names the room that is still in use`() async throws {
        repository.open()
        let house = house()
        let lease = try await house.desks.lease(3)
        let error = await #expect(throws: Failure.self) { try await house.close(within: .zero) }
        #expect(error.map { "\($0)" } == "room 3 was not closed in time: it is in use, or cannot be saved")
        await #expect(throws: FluxFamilyError.self) { try await house.desks.with(4) { _ in } }
        lease.release()
    }

    #if os(Linux)
        @Test func `A disk that is full for a moment fails no bid, and one that stays full is reported`()
            async
        {
            // In a separate process, whose files are limited in size: one bid is saved, the bids that follow are not.
            await #expect(processExitsWith: .success) {
                let path = FileManager.default.temporaryDirectory.appending(component: "room-\(UUID())").path
                let repository = HandRepository()
                let desk = try await Desk(path: path, repository: repository, limit: FluxLimit(40))
                limitFiles(to: 100)
                let bids = (1...40).map { amount in
                    Task { try await desk.take(Bid(bidder: amount, amount: amount)) }
                }
                await repository.asked(40)
                repository.open()
                while await desk.store.handle.failure() == nil {}
                // None of the bids has succeeded or failed yet.
                let impatient = Task { try await desk.take(Bid(bidder: 41, amount: 41), within: .milliseconds(1)) }
                let told = await impatient.result
                limitFiles(to: nil)
                var isRight = false
                if case .failure(let error) = told {
                    isRight = "\(error)".hasPrefix("the room is not saved yet") && "\(error)".contains("File too large")
                    if !isRight { print(error) }
                }
                for bid in bids {
                    do { try await bid.value } catch Refusal.outbid {} catch {
                        print(error)
                        isRight = false
                    }
                }
                try FileManager.default.removeItem(atPath: path)
                exit(isRight ? 0 : 1)
            }
        }
    #endif

    @Test func `A room that cannot be saved is reported, and acknowledges no bid`() async throws {
        repository.open()
        let house = house()
        let path = folder.appending(component: "room-1").path
        try await house.desks.with(1) { desk in
            // Another writer changes the file.
            try await FluxFile<[UInt8]>(path: path, encode: { $0 }, decode: { $0 }).save([1])
            await #expect(throws: FluxFileError.self) { try await desk.take(Bid(bidder: 1, amount: 5)) }
        }
        let error = await #expect(throws: Failure.self) { try await house.close() }
        #expect(
            error?.description.hasPrefix("room 1 was not closed: \(path): ") == true, "\(String(describing: error))")
    }

    @Test func `A missing folder is reported by the first room`() async throws {
        let house = House(folder: folder.path + "/missing", repository: repository)
        let error = await #expect(throws: FluxFileError.self) { try await house.desks.with(1) { _ in } }
        #expect(error.map { "\($0)".contains("missing") } == true)
    }
}

/// Vouches for every bidder except 0, once it is open.
final class HandRepository: Repository {
    private struct State {
        var (asking, most, count) = (0, 0, 0)
        var isOpen = false
        var asked: [CheckedContinuation<Void, Never>] = []
        var waiting: [(number: Int, CheckedContinuation<Void, Never>)] = []
    }
    private let state = Mutex(State())

    /// The highest number of questions at the same time, and the number of all questions.
    var most: Int { state.withLock { $0.most } }
    var count: Int { state.withLock { $0.count } }

    func vouches(for bidder: Int) async throws -> Bool {
        await withCheckedContinuation { continuation in
            let ready = state.withLock { state in
                state.asking += 1
                state.count += 1
                state.most = max(state.most, state.asking)
                let told = state.waiting.filter { $0.number <= state.count }.map(\.1)
                state.waiting.removeAll { $0.number <= state.count }
                if !state.isOpen { state.asked.append(continuation) }
                return told + (state.isOpen ? [continuation] : [])
            }
            for continuation in ready { continuation.resume() }
        }
        state.withLock { $0.asking -= 1 }
        return bidder != 0
    }

    /// Waits until this many questions were asked.
    func asked(_ number: Int) async {
        await withCheckedContinuation { continuation in
            let isThere = state.withLock { state in
                if state.count < number { state.waiting.append((number, continuation)) }
                return state.count >= number
            }
            if isThere { continuation.resume() }
        }
    }

    /// Answers all questions, and later ones at once.
    func open() {
        let asked = state.withLock { state in
            state.isOpen = true
            defer { state.asked = [] }
            return state.asked
        }
        for continuation in asked { continuation.resume() }
    }
}

#if os(Linux)
    /// Limits the size of the process's files; nil lifts the limit as far as possible.
    private func limitFiles(to size: rlim_t?) {
        let files = __rlimit_resource_t(RLIMIT_FSIZE.rawValue)
        var limit = rlimit()
        getrlimit(files, &limit)
        limit.rlim_cur = size ?? limit.rlim_max
        signal(SIGXFSZ, SIG_IGN)
        setrlimit(files, &limit)
    }
#endif
