import Dispatch
import FluxCore
import TestSupport
import Testing

@testable import FluxPersistence

/// A load that was abandoned: whatever it still finds, the file that it has read counts as not read.
@Suite struct LateLoadTests {
    /// Forwards to a file, and waits before and after it reads.
    final class Slow: FluxPersistence {
        let file: FluxFile<Counter>
        let begins: Gate
        let ends: Gate
        let isCalled = Gate()
        let hasRead = Gate()
        let hasEnded = Gate()

        init(_ folder: Folder, begins: Gate = .open, ends: Gate = .open, decoding: Gate = .open) {
            (self.begins, self.ends) = (begins, ends)
            file = FluxFile(
                path: folder.state, encode: { Array("\($0.count)".utf8) },
                decode: { bytes in
                    decoding.wait()
                    return Counter(count: Int(String(decoding: bytes, as: UTF8.self))!)
                })
        }

        func load() async throws -> Counter? {
            isCalled.open()
            defer { hasEnded.open() }
            await begins.opened()
            defer { hasRead.open() }
            let state = try await file.load()
            hasRead.open()
            await ends.opened()
            return state
        }

        func save(_ state: Counter) async throws { try await file.save(state) }
    }

    let folder = Folder()
    let clock = TestClock()

    func prepare() async throws {
        try await Slow(folder).save(Counter(count: 42))
    }

    func content(_ name: String = "state") throws -> String {
        String(decoding: try FluxFileFormat.parse(folder.read(name)).content, as: UTF8.self)
    }

    /// Lets the timeout expire: the store continues from its initial state, and the stored content is kept aside.
    private func goesOn(_ store: FluxStore<Counter>) async throws {
        clock.advance(by: .seconds(1))
        expect(await store.ready, is: "timedOut")
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(try content() == "1")
        #expect(try content("state.unreadable") == "42")
    }

    @Test func `A load that ends while its timeout is reported changes nothing`() async throws {
        try await prepare()
        let decoding = Gate()
        let slow = Slow(folder, decoding: decoding)
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: slow, loadTimeout: .seconds(1), clock: clock,
            onFailure: { _ in
                decoding.open()
                // The wait is bounded because it blocks a thread of the task pool, which the load may need.
                let hasEnded = DispatchSemaphore(value: 0)
                Task {
                    await slow.hasEnded.opened()
                    hasEnded.signal()
                }
                _ = hasEnded.wait(timeout: .now() + 2)
            })
        await clock.sleepers(1)
        try await goesOn(store)
    }

    @Test func `A state that was read in time but returned too late changes nothing`() async throws {
        try await prepare()
        let ends = Gate()
        let slow = Slow(folder, ends: ends)
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: slow, loadTimeout: .seconds(1), clock: clock,
            onFailure: { _ in })
        await clock.sleepers(1)
        await slow.hasRead.opened()
        try await goesOn(store)
        ends.open()
        await slow.hasEnded.opened()
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(try content() == "2", "what it has itself written it overwrites")
        #expect(folder.names == ["state", "state.unreadable"])
    }

    @Test func `A load that begins too late reads nothing and keeps nothing aside`() async throws {
        folder.write(Array("garbage".utf8))
        let begins = Gate()
        let slow = Slow(folder, begins: begins)
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: slow, loadTimeout: .seconds(1), clock: clock,
            onFailure: { _ in })
        // Without this wait, the load's task may find that it is too late, and never call `load()`.
        await slow.isCalled.opened()
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        expect(await store.ready, is: "timedOut")
        begins.open()
        await slow.hasEnded.opened()
        #expect(folder.names == ["state"])
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(try content() == "1")
        #expect(folder.read("state.unreadable") == Array("garbage".utf8))
    }

    @Test func `A file that proves unreadable after the timeout of its load keeps its name`() async throws {
        try await Slow(folder).file.save(Counter(count: 1))
        let (inside, decoding) = (Gate(), Gate())
        let file = FluxFile<Counter>(
            path: folder.state, encode: { Array("\($0.count)".utf8) },
            decode: { _ in
                if inside.isOpen { return Counter(count: 1) }
                inside.open()
                decoding.wait()
                throw CancellationError()
            })
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: file, loadTimeout: .seconds(1), clock: clock,
            onFailure: { _ in })
        await clock.sleepers(1)
        await inside.opened()
        clock.advance(by: .seconds(1))
        expect(await store.ready, is: "timedOut")
        decoding.open()
        #expect(try await file.load()?.count == 1, "behind the load, on the queue of the file")
        #expect(folder.names == ["state"])
    }

    @Test func `A load that is abandoned while it renames an unreadable file restores the name`() throws {
        folder.write(Array("garbage".utf8))
        let load = FluxCancellationFlag(partOf: nil)
        let system = FaultySystem(folder.state) { call, _ in
            if call == .rename { load.void() }
            return nil
        }
        let access = FluxFileAccess<String>(calls: FluxFileCalls(path: folder.state, system: system))
        #expect(throws: FluxFileError.self) { try access.read(for: load) }
        #expect(folder.names == ["state"])
    }

    @Test func `A file counts as unread after a cancelled load() of the file itself`() async throws {
        try await prepare()
        let decoding = Gate()
        let slow = Slow(folder, decoding: decoding)
        for _ in 0..<2 {
            let loading = Task { try await slow.file.load() }
            loading.cancel()
            await #expect(throws: CancellationError.self) { try await loading.value }
        }
        decoding.open()
        try await slow.save(Counter(count: 1))
        #expect(try content("state.unreadable") == "42")
    }

    @Test func `A file counts as unread after a cancelled restored(from:)`() async throws {
        try await prepare()
        let ends = Gate()
        let late = Slow(folder, ends: ends)
        let restoring = Task { try await FluxStore.restored(from: late, initialState: Counter(), dispatcher: nil) }
        await late.hasRead.opened()
        restoring.cancel()
        await #expect(throws: CancellationError.self) { try await restoring.value }
        ends.open()
        await late.hasEnded.opened()
        try await late.save(Counter(count: 1))
        #expect(try content() == "1")
        #expect(try content("state.unreadable") == "42")
    }

    @Test(arguments: [1, 2, 3])
    func `A file that a custom persistence has read and then refused counts as unread`(looks: Int) async throws {
        struct Strict: FluxPersistence {
            struct TooMany: Error {}

            let slow: Slow
            let looks: Int

            func load() async throws -> Counter? {
                for _ in 1..<looks { _ = try await slow.load() }
                if let state = try await slow.load(), state.count > 10 { throw TooMany() }
                return nil
            }

            func save(_ state: Counter) async throws { try await slow.save(state) }
        }
        try await prepare()
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: Strict(slow: Slow(folder), looks: looks),
            onFailure: { _ in })
        expect(await store.ready, is: "failed")
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(try content() == "1")
        #expect(try content("state.unreadable") == "42", "nobody went on from it")
    }

    @Test func `A load that is cancelled while it decodes ends at once`() async throws {
        try await prepare()
        let (inside, decoding) = (Gate(), Gate())
        let file = FluxFile<Counter>(
            path: folder.state, encode: { Array("\($0.count)".utf8) },
            decode: { _ in
                inside.open()
                decoding.wait()
                return Counter()
            })
        let loading = Task { try await file.load() }
        await inside.opened()
        loading.cancel()
        await #expect(throws: CancellationError.self) { try await loading.value }
        decoding.open()
        try await file.save(Counter(count: 1))
        #expect(try content("state.unreadable") == "42")
    }

    @Test func `A save in a cancelled task is still performed`() async throws {
        let file = folder.file()
        try await Task {
            withUnsafeCurrentTask { $0?.cancel() }
            for number in 0..<20 {
                try await file.save("\(number)")
                #expect(try content() == "\(number)")
            }
        }.value
        #expect(folder.names == ["state"])
    }

    /// Loads until its task is cancelled.
    final class Endless: FluxPersistence {
        let hasEnded = Gate()

        func load() async throws -> Counter? {
            await FluxLatch().wait()
            hasEnded.open()
            return nil
        }

        func save(_ state: Counter) async throws {}
    }

    @Test(.timeLimit(.minutes(1))) func `The task of a load that timed out is cancelled`() async {
        let persistence = Endless()
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence, loadTimeout: .seconds(1), clock: clock,
            onFailure: { _ in })
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        expect(await store.ready, is: "timedOut")
        await persistence.hasEnded.opened()
    }

    @Test func `The timeout of a load stops sleeping once the load has ended`() async {
        let clock = await {
            let (persistence, gate, clock) = (MemoryPersistence(Counter(count: 1)), Gate(), TestClock())
            persistence.script.block(until: gate)
            let store = FluxStore(
                initialState: Counter(), dispatcher: nil, persistence: persistence, loadTimeout: .seconds(1),
                clock: clock)
            await clock.sleepers(1)
            gate.open()
            expect(await store.ready, is: "restored")
            return Weak(clock)
        }()
        #expect(await clock.isGone())
    }

    @Test func `A voided load does not void an earlier load of the same file`() throws {
        let first = FluxFileAccess<String>(calls: FluxFileCalls(path: folder.state))
        try first.write("a")
        let second = FluxFileAccess<String>(calls: FluxFileCalls(path: folder.state))
        let late = FluxCancellationFlag(partOf: nil)
        for load in [FluxCancellationFlag(partOf: nil), late] { #expect(try second.read(for: load) == "a") }
        late.void()
        try second.write("b")
        #expect(folder.names == ["state"])
    }

    @Test
    func `If a load ends just at its timeout, only a store that continues from the state overwrites it`() async throws {
        for _ in 0..<50 {
            let folder = Folder()
            try await Slow(folder).save(Counter(count: 42))
            let (decoding, clock) = (Gate(), TestClock())
            let store = FluxStore(
                initialState: Counter(), dispatcher: nil, persistence: Slow(folder, decoding: decoding),
                loadTimeout: .seconds(1), clock: clock, onFailure: { _ in })
            store.dispatch(action: .add(1))
            await clock.sleepers(1)
            await onThreads(2) { index in
                if index == 0 { decoding.open() } else { clock.advance(by: .seconds(1)) }
            }
            await store.flush()
            if store.state.count == 43 {
                #expect(folder.names == ["state"])
            } else {
                #expect(store.state.count == 1)
                #expect(folder.names == ["state", "state.unreadable"])
            }
        }
    }
}
