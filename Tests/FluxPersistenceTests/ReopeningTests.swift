import Dispatch
import FluxCore
import Foundation
import TestSupport
import Testing

@testable import FluxPersistence

/// A released store whose place is opened again in the same process: the load waits for the save.
@Suite struct ReopeningTests {
    let folder = Folder()

    func file(
        _ path: String? = nil, encoding: Gate = .open, encodes: Gate? = nil, decodes: Recorder<Int>? = nil
    ) -> FluxFile<Counter> {
        FluxFile(
            path: path ?? folder.state,
            encode: {
                encodes?.open()
                encoding.wait()
                return Array("\($0.count)".utf8)
            },
            decode: { bytes in
                let count = Int(String(decoding: bytes, as: UTF8.self))!
                decodes?.record(count)
                return Counter(count: count)
            })
    }

    func store(_ persistence: any FluxPersistence<Counter>) -> FluxStore<Counter> {
        FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
    }

    /// Releases a store while its save is running; the save ends when `encoding` opens.
    func letGo(saving encoding: Gate) async {
        let encodes = Gate()
        let store = store(file(encoding: encoding, encodes: encodes))
        store.dispatch(action: .add(1))
        await encodes.opened()
    }

    func isListed(_ path: String? = nil) -> Bool {
        FluxUnwritten.shared.withLock { $0.entries[file(path).place!] } != nil
    }

    func isUnlisted() async -> Bool { await becomes { !isListed() } }

    @Test(.timeLimit(.minutes(1)), arguments: [0, 1, 2])
    func `A load waits for the save of a released store at the same path`(way: Int) async throws {
        let (encoding, decodes) = (Gate(), Recorder<Int>())
        await letGo(saving: encoding)
        #expect(isListed())
        let next = file(decodes: decodes)
        let count = Task {
            switch way {
            case 0:
                return try await FluxStore.restored(from: next, initialState: Counter(), dispatcher: nil).state.count
            case 1: return try await next.load()?.count ?? -1
            default:
                let store = store(next)
                _ = await store.ready
                return store.state.count
            }
        }
        for _ in 0..<100 { await Task.yield() }
        #expect(decodes.values.isEmpty)
        encoding.open()
        #expect(try await count.value == 1)
        #expect(decodes.values == [1])
        #expect(await isUnlisted())
    }

    /// Releases another store once no lock is held, before that store's writer is started.
    final class LettingGo: FluxStoreObserver, FluxSettling {
        let other: Locked<FluxStore<Counter>?>
        let isListed: @Sendable () -> Bool
        let found = Recorder<Bool>()

        init(_ other: FluxStore<Counter>, _ isListed: @escaping @Sendable () -> Bool) {
            (self.other, self.isListed) = (Locked(other), isListed)
        }

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { self }

        func settle() {
            other.withLock { $0 = nil }
            found.record(isListed())
        }
    }

    /// A handler on a queue may see the change and release the store before the dispatching thread starts the writer.
    @Test(.timeLimit(.minutes(1)))
    func `A load also waits for a store that was released before its writer began`() async throws {
        let dispatcher = FluxDispatcher()
        let first = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let letting = LettingGo(
            try await FluxStore.restored(from: file(), initialState: Counter(), dispatcher: dispatcher)
        ) { isListed() }
        first.handle.withAccess { $0.observe(letting, settlesFirst: true) }
        dispatcher.dispatch(action: Counter.Action.add(1))
        #expect(letting.found.values == [true])
        #expect(try await file().load()?.count == 1)
        #expect(await isUnlisted())
    }

    /// Reads the stored state before each save.
    struct Reading: FluxPersistence {
        let file: FluxFile<Counter>
        var place: String? { file.place }

        func load() async throws -> Counter? { try await file.load() }

        func save(_ state: Counter) async throws {
            _ = try await file.load()
            try await file.save(state)
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `A persistence that loads during its save does not wait for itself`() async throws {
        do {
            let store = store(Reading(file: file()))
            store.dispatch(action: .add(3))
        }
        #expect(try await file().load()?.count == 3)
    }

    // MARK: - In the code of another store

    /// Runs the given closures when it loads and when it saves.
    struct Running: FluxPersistence {
        var loading: @Sendable () async throws -> Void = {}
        var saving: @Sendable () async throws -> Void = {}

        func load() async throws -> Counter? {
            try await loading()
            return nil
        }

        func save(_ state: Counter) async throws { try await saving() }
    }

    @Test(.timeLimit(.minutes(1)))
    func `A store that a save opens, releases and opens again loses nothing`() async throws {
        let file = file()
        let outer = store(
            Running(saving: {
                let inner = try await FluxStore.restored(from: file, initialState: Counter(), dispatcher: nil)
                inner.dispatch(action: .add(1))
            }))
        for _ in 0..<50 {
            outer.dispatch(action: .add(1))
            await outer.flush()
        }
        #expect(try await file.load()?.count == 50)
    }

    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func `A task started in a load is not part of the load after the load has ended`(fails: Bool) async throws {
        let (go, read, encoding) = (Gate(), Recorder<Int?>(), Gate())
        let later = file()
        let loading = Locked<Task<Void, any Error>?>(nil)
        let older = store(
            Running(loading: {
                let task = Task {
                    await go.opened()
                    read.record(try await later.load()?.count)
                }
                loading.withLock { $0 = task }
                if fails { throw CancellationError() }
            }))
        _ = await older.ready
        await letGo(saving: encoding)
        go.open()
        for _ in 0..<100 { await Task.yield() }
        #expect(read.values.isEmpty)
        encoding.open()
        try await loading.current?.value
        #expect(read.values == [1])
    }

    @Test func `All stores with pending saves have one order`() {
        typealias Rank = FluxUnwritten.Rank
        // Older entries come first, and an entry opened in a store's code comes before that store.
        let order: [Rank] = [[1], [2, 5, 7], [2, 5], [2, 6], [2], [3, 4], [3], []]
        for (one, path) in order.enumerated() {
            for (other, next) in order.enumerated() {
                #expect(FluxUnwritten.comes(path, before: next) == (one < other), "\(path), \(next)")
            }
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `All spellings of a path are one place, and another name is another place`() async throws {
        let link = folder.path + "-link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder.path)
        defer { try? FileManager.default.removeItem(atPath: link) }
        let places = ["/state", "/./state", "//state", "/../\(folder.name)/state"].map { file(folder.path + $0).place }
        #expect(Set(places + [file(link + "/state").place]).count == 1)
        #expect(places[0] != file(folder.path + "/other").place)
        #expect(file("state").place != nil && file("/state").place != file("state").place)
        #expect(file(folder.path + "/none/state").place == nil)
        let encoding = Gate()
        await letGo(saving: encoding)
        #expect(try await file(folder.path + "/other").load() == nil, "nobody is waited for there")
        encoding.open()
        #expect(try await file(link + "/state").load()?.count == 1)
    }

    @Test(.timeLimit(.minutes(1))) func `A load also times out while it waits for a save`() async throws {
        let (encoding, clock, failures) = (Gate(), TestClock(), Recorder<FluxPersistenceFailure>())
        await letGo(saving: encoding)
        let store = FluxStore(
            initialState: Counter(count: 100), dispatcher: nil, persistence: file(), loadTimeout: .seconds(1),
            clock: clock, onFailure: { failures.record($0) })
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        expect(await store.ready, is: "timedOut")
        #expect(store.state.count == 100)
        encoding.open()
        #expect(try await file().load()?.count == 1, "it was not lost")
    }

    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func `A load that waits for a save can be cancelled, and the save continues`(isStore: Bool) async throws {
        let encoding = Gate()
        await letGo(saving: encoding)
        let waiting = Task {
            if isStore { _ = try await FluxStore.restored(from: file(), initialState: Counter(), dispatcher: nil) }
            _ = try await file().load()
        }
        for _ in 0..<20 { await Task.yield() }
        waiting.cancel()
        await #expect(throws: CancellationError.self) { try await waiting.value }
        #expect(isListed(), "it has taken nothing from others")
        encoding.open()
        #expect(try await file().load()?.count == 1)
    }

    @Test(.timeLimit(.minutes(1))) func `A load also waits for a save of a store that is still in use`() async throws {
        let (encoding, encodes) = (Gate(), Gate())
        let store = store(file(encoding: encoding, encodes: encodes))
        store.dispatch(action: .add(1))
        await encodes.opened()
        let decodes = Recorder<Int>()
        let count = Task { try await file(decodes: decodes).load()?.count }
        for _ in 0..<100 { await Task.yield() }
        #expect(decodes.values.isEmpty)
        encoding.open()
        #expect(try await count.value == 1)
        await store.flush()
        #expect(await isUnlisted())
    }

    @Test(.timeLimit(.minutes(1)))
    func `A load does not wait for a released store without a pending save`() async throws {
        let gate = Gate()
        do {
            let persistence = Named(place: "a place of its own", state: Locked(nil), load: gate)
            _ = FluxStore(initialState: Counter(), dispatcher: nil, persistence: persistence)
        }
        let next = Named(place: "a place of its own", state: Locked(Counter(count: 3)), load: .open)
        #expect(try await FluxStore.restored(from: next, initialState: Counter(), dispatcher: nil).state.count == 3)
        gate.open()
    }

    @Test(.timeLimit(.minutes(1)))
    func `A load waits for a store that was released while loading, and for its held-back actions`() async throws {
        let (gate, stored) = (Gate(), Locked<Counter?>(Counter(count: 10)))
        do {
            let store = store(Named(place: "a place of others", state: stored, load: gate))
            store.dispatch(action: .add(1))
        }
        let next = Task {
            let persistence = Named(place: "a place of others", state: stored, load: .open)
            return try await FluxStore.restored(from: persistence, initialState: Counter(), dispatcher: nil).state.count
        }
        for _ in 0..<100 { await Task.yield() }
        gate.open()
        #expect(try await next.value == 11)
    }

    @Test(.timeLimit(.minutes(1)))
    func `A load stops waiting for a save once it is known that the save can never succeed`() async throws {
        let failures = Recorder<FluxPersistenceFailure>()
        do {
            let store = FluxStore(
                initialState: Counter(), dispatcher: nil, persistence: file(), onFailure: { failures.record($0) })
            _ = await store.ready
            try FileManager.default.createDirectory(atPath: folder.state + ".new", withIntermediateDirectories: false)
            store.dispatch(action: .add(1))
        }
        await #expect(throws: FluxFileError.self) { _ = try await file().load() }
        #expect(failures.values.count == 1)
    }

    @Test(.timeLimit(.minutes(1)))
    func `A store that is opened in onFailure waits for the next attempt to save`() async throws {
        let (clock, next, direct) = (TestClock(), Locked<FluxStore<Counter>?>(nil), Locked<Task<Int?, any Error>?>(nil))
        do {
            let store = FluxStore(
                initialState: Counter(), dispatcher: nil, persistence: Failing(file: file()),
                backoff: .exponential(.seconds(1)), clock: clock,
                onFailure: { _ in
                    next.withLock { $0 = self.store(file()) }
                    direct.withLock { $0 = Task { try await file().load()?.count } }
                })
            store.dispatch(action: .add(1))
        }
        await clock.sleepers(1)
        for _ in 0..<100 { await Task.yield() }
        clock.advance(by: .seconds(60))
        expect(await next.current?.ready ?? .loading, is: "restored")
        #expect(next.current?.state.count == 1)
        #expect(try await direct.current?.value == 1)
    }

    @Test(.timeLimit(.minutes(1)))
    func `A store that is opened in a save of another waits for the pending save in its place`() async throws {
        let encoding = Gate()
        await letGo(saving: encoding)
        let count = Locked<Task<Int, any Error>?>(nil)
        let other = store(Opening(file: file(), count: count))
        other.dispatch(action: .add(7))
        await other.flush()
        for _ in 0..<100 { await Task.yield() }
        encoding.open()
        #expect(try await count.current?.value == 1)
    }

    @Test(.timeLimit(.minutes(1)))
    func `Saves that open their own place or each other's do not wait for each other`() async throws {
        let other = file(folder.path + "/other")
        let one = store(Looking(file: file(), place: file().place, at: other))
        let two = store(Looking(file: other, place: other.place, at: file()))
        let three = store(Looking(file: file(folder.path + "/own"), place: nil, at: file(folder.path + "/own")))
        for store in [one, two, three] { store.dispatch(action: .add(1)) }
        for store in [one, two, three] { await store.flush() }
        #expect(try await file().load()?.count == 1)
        #expect(try await other.load()?.count == 1)
        #expect(try await file(folder.path + "/own").load()?.count == 1)
    }

    @Test(.timeLimit(.minutes(1)))
    func `A load that reads another file waits for the pending save of that file`() async throws {
        let encoding = Gate()
        await letGo(saving: encoding)
        let migrating = Migrating(old: file(), new: file(folder.path + "/new"))
        let count = Task {
            try await FluxStore.restored(from: migrating, initialState: Counter(), dispatcher: nil).state.count
        }
        for _ in 0..<100 { await Task.yield() }
        encoding.open()
        #expect(try await count.value == 1)
    }

    // MARK: - Stress

    @Test(.stress, arguments: zip([1_000, 200], [false, true]))
    func `Stress: a store that is released and reopened many times leaves every change in the file`(
        rounds: Int, sharesFile: Bool
    ) async throws {
        let shared = file()
        for round in 0..<rounds {
            let store = store(sharesFile ? shared : file())
            if round % 3 == 1 { _ = await store.ready }
            store.dispatch(action: .add(1))
            if round % 7 == 2 { await Task.yield() }
            store.dispatch(action: .addSilently(1))
            store.dispatch(action: .add(-1))
        }
        #expect(try await file().load()?.count == rounds)
        #expect(folder.names == ["state"])
        #expect(await isUnlisted())
    }

    @Test(.stress)
    func `Stress: stores that are released and reopened on many paths at once lose no change`() async throws {
        let paths = (0..<50).map { "\(folder.path)/\($0)" }
        await withTaskGroup(of: Void.self) { group in
            for path in paths {
                group.addTask {
                    for round in 0..<20 {
                        guard round % 2 == 0 else {
                            self.store(self.file(path)).dispatch(action: .add(1))
                            continue
                        }
                        let store = try? await FluxStore.restored(
                            from: self.file(path), initialState: Counter(), dispatcher: nil)
                        #expect(store?.state.count == round)
                        store?.dispatch(action: .add(1))
                    }
                }
            }
        }
        for path in paths { #expect(try await file(path).load()?.count == 20) }
        #expect(folder.names == paths.indices.map(String.init).sorted())
    }

    @Test(.stress)
    func `Stress: stores of one place that are released while they load do not wait for each other`() async throws {
        for _ in 0..<20 {
            let stores = (0..<10).map { _ in
                FluxStore(initialState: Counter(), dispatcher: nil, persistence: file(), onFailure: { _ in })
            }
            await withTaskGroup(of: Void.self) { group in
                for store in stores.shuffled() { group.addTask { store.dispatch(action: .add(1)) } }
            }
        }
        // The stores were alive at the same time, so some saves may have been refused; but all of them end.
        #expect(try await file().load() != nil)
        #expect(await isUnlisted())
    }

    /// Kept in memory, with a given place and a load that waits for a gate.
    struct Named: FluxPersistence {
        let place: String?
        let state: Locked<Counter?>
        let load: Gate
        func load() async throws -> Counter? {
            await load.opened()
            return state.current
        }
        func save(_ state: Counter) async throws { self.state.withLock { $0 = state } }
    }
    /// Fails once.
    struct Failing: FluxPersistence {
        let file: FluxFile<Counter>
        let failures = Locked(0)
        var place: String? { file.place }

        func load() async throws -> Counter? { try await file.load() }

        func save(_ state: Counter) async throws {
            let count = failures.withLock { failures in
                failures += 1
                return failures
            }
            if count == 1 { throw CocoaError(.fileWriteOutOfSpace) }
            try await file.save(state)
        }
    }

    /// Opens a store of a file in a task that outlives the save.
    struct Opening: FluxPersistence {
        let file: FluxFile<Counter>
        let count: Locked<Task<Int, any Error>?>

        func load() async throws -> Counter? { nil }

        func save(_ state: Counter) async throws {
            count.withLock {
                $0 = Task {
                    try await FluxStore.restored(from: file, initialState: Counter(), dispatcher: nil).state.count
                }
            }
        }
    }

    /// Opens a store of another file while it saves, and waits until that store is restored.
    struct Looking: FluxPersistence {
        let file: FluxFile<Counter>
        let place: String?
        let at: FluxFile<Counter>

        func load() async throws -> Counter? { try await file.load() }

        func save(_ state: Counter) async throws {
            _ = try await FluxStore.restored(from: at, initialState: Counter(), dispatcher: nil)
            try await file.save(state)
        }
    }

    /// Loads an old file if there is no new one.
    struct Migrating: FluxPersistence {
        let old: FluxFile<Counter>
        let new: FluxFile<Counter>
        var place: String? { new.place }

        func load() async throws -> Counter? {
            if let state = try await new.load() { return state }
            return try await old.load()
        }

        func save(_ state: Counter) async throws { try await new.save(state) }
    }
}
