import FluxCore
import Foundation
import TestSupport
import Testing

@testable import FluxPersistence

/// Errors that no retry can cure: reported once, returned by the store, and the pending saves are released.
@Suite struct RefusedForGoodTests {
    struct Moved: FluxPermanentError {}
    struct Perhaps: FluxPermanentError { let isPermanent: Bool }

    /// Throws the given error at each save.
    struct Refusing: FluxPersistence {
        let error: any Error
        let saves = Recorder<Int>()
        var canary: Canary?
        func load() async throws -> Counter? { nil }
        func save(_ state: Counter) async throws {
            saves.record(state.count)
            throw error
        }
    }

    /// Refuses to append and to compact while `refuses` is set.
    final class RefusingLog: FluxLog {
        let log = MemoryLog<Counter>()
        let refuses = Locked(false)
        func load() async throws -> FluxLogContents<Counter> { try await log.load() }
        func append(_ entries: [FluxLogEntry<Counter.Action>]) async throws {
            if refuses.current { throw Moved() }
            try await log.append(entries)
        }
        func compact(_ snapshot: FluxSnapshot<Counter>) async throws {
            if refuses.current { throw Moved() }
            try await log.compact(snapshot)
        }
    }

    let folder = Folder()
    let failures = Recorder<FluxPersistenceFailure>()

    func file(_ path: String, canary: Canary? = nil) -> FluxFile<Counter> {
        FluxFile(
            path: path,
            encode: {
                withExtendedLifetime(canary) {}
                return Array("\($0.count)".utf8)
            },
            decode: { Counter(count: Int(String(decoding: $0, as: UTF8.self))!) })
    }

    func store(_ persistence: any FluxPersistence<Counter>, clock: TestClock = TestClock()) -> FluxStore<Counter> {
        FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence, backoff: .constant(.seconds(1)),
            clock: clock, onFailure: { [failures] in failures.record($0) })
    }

    @Test(.timeLimit(.minutes(1)))
    func `A permanent error of a custom persistence is reported once, and no save is retried`() async {
        let persistence = Refusing(error: Moved())
        let store = store(persistence)
        expect(await store.ready, is: "empty")
        store.dispatch(action: .add(1))
        await store.flush()
        for _ in 0..<10 { store.dispatch(action: .add(1)) }
        await store.flush()
        #expect(persistence.saves.values.count == 1)
        #expect(failures.values.map(\.operation) == [.save])
        #expect(failures.values.map(\.retryAfter) == [nil])
        #expect(failures.values[0].description.hasSuffix("; nothing is saved any more"))
        guard case .failed(let error) = await store.ready else {
            Issue.record("the store does not say so")
            return
        }
        #expect(error is Moved)
        #expect(await store.flush(within: .seconds(3_600), clock: TestClock()) == false)
        #expect(store.state.count == 11, "in memory it goes on")
    }

    @Test(.timeLimit(.minutes(1))) func `failure() returns the permanent error of a load`() async {
        struct Unreadable: FluxPersistence {
            func load() async throws -> Counter? { throw Moved() }
            func save(_ state: Counter) async throws {}
        }
        let store = store(Unreadable())
        store.dispatch(action: .add(1))
        #expect(await store.handle.failure() is Moved)
    }

    /// Uses the store when it is released.
    struct Parting: Error { let farewell: Farewell }

    final class Farewell: Sendable {
        let store: FluxStore<Counter>
        init(_ store: FluxStore<Counter>) { self.store = store }
        deinit { store.dispatch(action: .add(100)) }
    }

    /// Fails the first two saves.
    final class Failing: FluxPersistence {
        let store = Locked<FluxStore<Counter>?>(nil)
        let saves = Recorder<Int>()
        func load() async throws -> Counter? { nil }
        func save(_ state: Counter) async throws {
            saves.record(state.count)
            if saves.values.count < 3, let store = store.current { throw Parting(farewell: Farewell(store)) }
        }
    }

    @Test(.timeLimit(.minutes(1))) func `The error of a save is released with no lock held`() async {
        let persistence = Failing()
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence, backoff: .none, onFailure: { _ in })
        persistence.store.withLock { $0 = store }
        store.dispatch(action: .add(1))
        // The next attempt releases the previous error, whose release makes another change.
        while persistence.saves.values.last != 201 { await Task.yield() }
        persistence.store.withLock { $0 = nil }
    }

    @Test func `A save is retried after a FluxPermanentError whose isPermanent is false`() async {
        let clock = TestClock()
        let persistence = Refusing(error: Perhaps(isPermanent: false))
        let store = store(persistence, clock: clock)
        store.dispatch(action: .add(1))
        for attempt in 1...3 {
            await clock.sleepers(1)
            #expect(failures.values.last?.retryAfter == .seconds(1))
            #expect(failures.values.count == attempt)
            clock.advance(by: .seconds(1))
        }
        expect(await store.ready, is: "empty")
    }

    @Test(.timeLimit(.minutes(1))) func `A load reports a missing folder once, with path and reason`() async throws {
        let path = folder.path + "/none/state"
        let store = store(file(path))
        store.dispatch(action: .add(1))
        guard case .failed(let error) = await store.ready else {
            Issue.record("the store does not say so")
            return
        }
        #expect("\(error)" == "\(path): access \(folder.path)/none: No such file or directory")
        await store.flush()
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(failures.values.map(\.operation) == [.load])
        #expect(await store.flush(within: .seconds(3_600), clock: TestClock()) == false)
        #expect(store.state.count == 2)
        let thrown = await #expect(throws: FluxFileError.self) {
            try await FluxStore.restored(from: file(path), initialState: Counter(), dispatcher: nil)
        }
        #expect(thrown?.path == path)
    }

    @Test(.timeLimit(.minutes(1)))
    func `A save reports a folder that was removed later once, and flush returns`() async throws {
        try FileManager.default.createDirectory(atPath: folder.path + "/sub", withIntermediateDirectories: false)
        let path = folder.path + "/sub/state"
        let store = store(file(path))
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(await store.flush(within: .seconds(3_600), clock: TestClock()))
        try FileManager.default.removeItem(atPath: folder.path + "/sub")
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(failures.values.map(\.operation) == [.save])
        #expect(failures.values.map { "\($0.error)" } == ["\(path): open \(path).new: No such file or directory"])
        expect(await store.ready, is: "failed")
    }

    @Test(.timeLimit(.minutes(1))) func `A load reports a file of a newer version, and no save does`() async throws {
        try await folder.file(version: 2).save("7")
        let store = store(file(folder.state))
        expect(await store.ready, is: "failed")
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(failures.values.map(\.operation) == [.load])
        #expect(folder.names == ["state"])
    }

    @Test(.timeLimit(.minutes(1))) func `The second of two writers of a file reports its error once`() async {
        let stores = [store(file(folder.state)), store(file(folder.state))]
        for store in stores { expect(await store.ready, is: "empty") }
        for (store, amount) in zip(stores, [10, 20]) {
            store.dispatch(action: .add(amount))
            await store.flush()
        }
        #expect(failures.values.count == 1)
        #expect(failures.values[0].description.contains("\(folder.state): something else has written the file"))
        #expect(await stores[0].flush(within: .seconds(3_600), clock: TestClock()))
        #expect(await stores[1].flush(within: .seconds(3_600), clock: TestClock()) == false)
    }

    @Test(arguments: [
        (ENOSPC, false), (EIO, false), (EMFILE, false), (ENFILE, false), (EDQUOT, false), (ENOMEM, false),
        (EACCES, true), (EPERM, true), (EROFS, true), (ENAMETOOLONG, true), (ELOOP, true), (ENOTDIR, true),
        (EISDIR, true), (ENOENT, true),
    ])
    func `The error code of a failed call determines whether its error is permanent`(
        code: Int32, isPermanent: Bool
    ) async throws {
        let error = await #expect(throws: FluxFileError.self) {
            try await folder.file { call, _ in call == .open ? .code(code) : nil }.save("new")
        }
        #expect(error?.isPermanent == isPermanent)
    }

    @Test func `Bad content and a removed temporary file are not permanent errors`() async throws {
        folder.write(Array("garbage".utf8))
        let load = await #expect(throws: FluxFileError.self) { try await folder.file().load() }
        #expect(load?.isPermanent == false)
        let save = await #expect(throws: FluxFileError.self) {
            try await folder.file { call, _ in call == .rename ? .code(ENOENT) : nil }.save("new")
        }
        #expect(save?.isPermanent == false)
        let long = Folder.file(at: folder.path + "/" + String(repeating: "x", count: 300))
        #expect(await #expect(throws: FluxFileError.self) { try await long.load() }?.isPermanent == true)
        #expect(await #expect(throws: FluxFileError.self) { try await Folder.file(at: "").load() }?.isPermanent == true)
    }

    @Test(.stress) func `Ten thousand stores in a missing folder are released, and each reports its error`() async {
        let gone = (0..<10_000).map { _ in Gate() }
        for gate in gone {
            let store = store(file(folder.path + "/none/state", canary: Canary(gate)))
            store.dispatch(action: .add(1))
        }
        for gate in gone { await gate.opened() }
        #expect(failures.values.count == 10_000)
    }

    @Test(.timeLimit(.minutes(1)))
    func `A persistence that refuses a save permanently is released with its store`() async {
        let gone = Gate()
        do {
            let store = store(Refusing(error: Moved(), canary: Canary(gone)))
            store.dispatch(action: .add(1))
        }
        await gone.opened()
    }

    @Test(.timeLimit(.minutes(1)))
    func `Waiting and later durable dispatches throw once the log refuses permanently`() async throws {
        let log = RefusingLog()
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, log: log, capacity: 2,
            onFailure: { [failures] in failures.record($0) })
        try await store.dispatch(durably: .add(1))
        log.refuses.withLock { $0 = true }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<20 {
                group.addTask {
                    do throws(FluxDurabilityError) {
                        try await store.dispatch(durably: .add(1))
                        Issue.record("it was refused")
                    } catch {
                        switch error {
                        case .notWritten(let error, let revision): #expect(error is Moved && revision! > 1)
                        case .logNotRead(.failed(let error)): #expect(error is Moved)
                        default: Issue.record("\(error)")
                        }
                    }
                }
            }
        }
        await #expect(throws: FluxDurabilityError.self) { try await store.dispatch(durably: .add(1)) }
        await store.flush()
        #expect(failures.values.map(\.operation) == [.append])
        let recovered = try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
        #expect(recovered.state.count == 1, "and what was acknowledged is there")
    }

    #if os(Linux)
        @Test func `A load reports a folder that cannot be written`() async {
            await #expect(processExitsWith: .success) {
                let folder = Folder()
                try await folder.file().save("old")
                chmod(folder.path, 0o555)
                chmod(folder.state, 0o644)
                // Permissions do not bind root, so the test becomes another user.
                if geteuid() == 0 { try #require(setegid(65_534) == 0 && seteuid(65_534) == 0) }
                let error = await #expect(throws: FluxFileError.self) { try await folder.file().load() }
                #expect(error?.description == "\(folder.state): access \(folder.path): Permission denied")
                #expect(error?.isPermanent == true)
                if getuid() == 0 { try #require(seteuid(0) == 0 && setegid(0) == 0) }
                chmod(folder.path, 0o755)
                #expect(try await folder.file().load() == "old")
            }
        }
    #endif
}
