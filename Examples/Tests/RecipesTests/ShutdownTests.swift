import FluxCore
import FluxPersistence
import Foundation
import Synchronization
import Testing

// MARK: - The recipe: a graceful shutdown of everything, in the right order

/// Owns stores and creators, and ends them in the order in which nothing is lost.
final class Service: Sendable {
    private let parts = Mutex<(stores: [Ledger], isOpen: Bool)>(([], true))

    /// Opens a ledger; returns nil once the service has been shut down.
    func open(_ path: String) async throws -> Ledger? {
        let ledger = try await Ledger(path: path)
        return parts.withLock { parts in
            if parts.isOpen { parts.stores.append(ledger) }
            return parts.isOpen ? ledger : nil
        }
    }

    /// Ends everything; returns what became of all events, and whether everything that they changed is saved.
    func shutdown(within duration: Duration) async -> (events: [FluxShutdown], isSaved: Bool) {
        // 1. No new ledgers are opened.
        let ledgers = parts.withLock { parts in
            parts.isOpen = false
            return parts.stores
        }
        // 2. The creators, all at once: no new events, some time for those in flight, then the rest is cancelled. When
        //    this returns, every action that there will be has been dispatched.
        let events = await withTaskGroup(of: FluxShutdown.self) { group in
            for ledger in ledgers { group.addTask { await ledger.creator.shutdown(within: duration) } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        // 3. Then the stores: what was dispatched is delivered to every subscription, and saved. This must come after
        //    the creators, whose last actions would otherwise come too late.
        let isSaved = await withTaskGroup(of: Bool.self) { group in
            for ledger in ledgers { group.addTask { await ledger.store.flush(within: duration) } }
            return await group.reduce(true) { $0 && $1 }
        }
        // 4. Release everything: the files are closed.
        parts.withLock { $0.stores = [] }
        return (events, isSaved)
    }
}

/// One store with its creator, in a file.
final class Ledger: Sendable {
    let store: FluxStore<Entries>
    let creator: FluxActionCreator<Posting>

    init(path: String) async throws {
        let file = FluxFile<Entries>(
            path: path, version: 1, encode: { Array(try JSONEncoder().encode($0)) },
            decode: { try JSONDecoder().decode(Entries.self, from: Data($0)) })
        store = try await FluxStore.restored(from: file, initialState: Entries(), dispatcher: nil)
        creator = FluxActionCreator(store: store)
    }
}

enum Posting: FluxAsyncActionConverter {
    enum Event: FluxEvent { case post(Int) }
    enum Action: FluxAction { case add(Int) }

    static func convert(event: Event, dependency: Void, send: @escaping @Sendable (Action) -> Void) async throws {
        await Task.yield()
        switch event {
        case .post(let amount): send(.add(amount))
        }
    }
}

struct Entries: FluxState, Codable {
    private(set) var amounts: [Int] = []

    mutating func handle(action: Posting.Action) -> Entries? {
        switch action {
        case .add(let amount): amounts.append(amount)
        }
        return self
    }
}

// MARK: - Its test

@Suite struct ShutdownTests {
    @Test func `Events fired before a shutdown are saved in the files, and later ones are refused`() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(component: "Shutdown-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let paths = (0..<20).map { folder.appending(component: "\($0)").path }

        let service = Service()
        var creators: [FluxActionCreator<Posting>] = []
        for path in paths {
            let ledger = try #require(try await service.open(path))
            for amount in 1...50 { ledger.creator.fire(.post(amount)) }
            creators.append(ledger.creator)
        }
        let report = await service.shutdown(within: .seconds(60))
        #expect(report.events.map(\.completed) == Array(repeating: 50, count: 20))
        #expect(report.isSaved)
        #expect(try await service.open(paths[0]) == nil)
        for creator in creators { #expect(await creator.fire(.post(51)).outcome.isDropped) }
        creators = []

        for path in paths {
            let ledger = try await Ledger(path: path)
            #expect(ledger.store.state.amounts.sorted() == Array(1...50), "\(path)")
        }
    }
}
