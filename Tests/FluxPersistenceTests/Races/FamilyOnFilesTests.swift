import FluxCore
import FluxRouting
import Foundation
import TestSupport
import Testing

@testable import FluxPersistence

/// Stores created on demand, in files: the recipe from the FluxRouting article loses nothing.
@Suite struct FamilyOnFilesTests {
    let folder = Folder()

    struct Room: FluxState {
        enum Action: FluxAction { case bid(Int) }
        struct NoNumber: Error {}

        var (bids, sum) = (0, 0)

        mutating func handle(action: Action) -> Room? {
            guard case .bid(let amount) = action else { return nil }
            bids += 1
            sum += amount
            return self
        }

        static func bytes(_ room: Room) throws -> [UInt8] { Array("\(room.bids) \(room.sum)".utf8) }

        static func room(_ bytes: [UInt8]) throws -> Room {
            let numbers = String(decoding: bytes, as: UTF8.self).split(separator: " ").compactMap { Int($0) }
            guard numbers.count == 2 else { throw NoNumber() }
            var room = Room()
            (room.bids, room.sum) = (numbers[0], numbers[1])
            return room
        }
    }

    func rooms(
        in folder: String, idle: Duration = .seconds(60), clock: any Clock<Duration> = ContinuousClock()
    ) -> FluxFamily<String, FluxStore<Room>> {
        FluxFamily(idle: idle, limit: 10_000, clock: clock) { (id: String) in
            try await FluxStore.restored(
                from: FluxFile(path: "\(folder)/\(id)", encode: { try Room.bytes($0) }, decode: { try Room.room($0) }),
                initialState: Room(), dispatcher: nil)
        }
    }

    @Test func `A family of stores on files keeps its states across closing and shutdown`() async throws {
        do {
            let rooms = rooms(in: folder.path)
            try await rooms.with("r1") { store in store.dispatch(action: .bid(7)) }
            let lease = try await rooms.lease("r1")
            #expect(rooms.keys == ["r1"])
            #expect(lease.member.state.sum == 7)
            lease.release()
            try await rooms.close("r1")
            #expect(rooms.keys.isEmpty && folder.names == ["r1"])
            try await rooms.with("r1") { store in store.dispatch(action: .bid(8)) }
            let report = await rooms.shutdown(within: .seconds(10))
            #expect(report.closed == ["r1"] && report.failed.isEmpty && report.late.isEmpty)
        }
        #expect(try await rooms(in: folder.path).with("r1") { $0.state.sum } == 15)
    }

    @Test(.stress)
    func `Every change is in its file, even if a member is reopened right after its last use`() async throws {
        let rooms = rooms(in: folder.path, idle: .zero)
        let count = 100
        // A thousand visits, each of which starts when another has just ended.
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<5 {
                group.addTask {
                    for round in 0..<count {
                        let id = "r\((round + task * 3) % count)"
                        let lease = try await rooms.lease(id)
                        lease.member.dispatch(action: .bid(1))
                        lease.release()
                        if round % 10 == 0 { try await rooms.close(id) }
                        try await rooms.with(id) { store in store.dispatch(action: .bid(1)) }
                    }
                }
            }
            try await group.waitForAll()
        }
        let report = await rooms.shutdown(within: .seconds(60))
        #expect(report.failed.isEmpty && report.late.isEmpty)
        let names = folder.names
        #expect(names.count == count)
        for name in names {
            let room = try Room.room(FluxFileFormat.parse(folder.read(name)).content)
            #expect(room.bids == 10, "\(name)")
        }
    }

    @Test(.stress) func `A family that is released and created again on the same files loses nothing`() async throws {
        for _ in 0..<50 {
            let rooms = rooms(in: folder.path)
            for id in ["a", "b"] { try await rooms.with(id) { store in store.dispatch(action: .bid(1)) } }
        }
        for id in ["a", "b"] { #expect(try await rooms(in: folder.path).with(id) { $0.state.bids } == 50) }
    }

    @Test(.timeLimit(.minutes(1)))
    func `A member that can never be saved is closed with errors, and its key works after a repair`() async throws {
        let failures = Recorder<String>()
        let made = Recorder<String>()
        let folder = folder.path + "/later"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        let rooms = FluxFamily(onFailure: { failures.record("\($0): \($1)") }) { (id: String) in
            made.record(id)
            return try await FluxStore.restored(
                from: FluxFile<Room>(
                    path: folder + "/" + id, encode: { try Room.bytes($0) }, decode: { try Room.room($0) }),
                initialState: Room(), dispatcher: nil, onFailure: { _ in })
        }
        try await rooms.with("a") { store in store.dispatch(action: .bid(7)) }
        try FileManager.default.removeItem(atPath: folder)
        try await rooms.with("a") { store in
            store.dispatch(action: .bid(8))
            await store.flush()
        }
        await #expect(throws: FluxFileError.self) { try await rooms.close("a") }
        #expect(rooms.keys == ["a"], "what it has can still be read")
        while !Task.isCancelled, rooms.keys == ["a"] {
            await #expect(throws: FluxFileError.self) { try await rooms.close("a") }
        }
        // The caller that waits for the close gets its answer before the family reports the failure.
        await failures.count(2)
        #expect(failures.values.allSatisfy { $0.hasPrefix("a: \(folder)/a: ") })
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: false)
        #expect(try await rooms.with("a") { store in store.dispatch(action: .bid(1)) } == 1)
        try await rooms.close("a")
        #expect(made.values.count == 2)
    }

    /// Saves as its answers say: false makes a save fail; the last answer repeats.
    private final class Disk: FluxPersistence {
        struct Gone: FluxPermanentError {}

        private let answers = Locked([true])
        let isGone = Locked(false)
        let saves = Recorder<Int>()
        let last = Locked<(gate: Gate?, count: Int)>((nil, 0))

        func answer(_ new: [Bool]) { answers.withLock { $0 = new } }
        func load() async throws -> Counter? { last.current.count == 0 ? nil : Counter(count: last.current.count) }
        func save(_ state: Counter) async throws {
            saves.record(state.count)
            await last.current.gate?.opened()
            if isGone.current { throw Gone() }
            let isDone = answers.withLock { $0.count > 1 ? $0.removeFirst() : $0[0] }
            if !isDone { throw StorageScript.Refusal() }
            last.withLock { $0.count = state.count }
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `A family keeps a store whose saves fail, succeed and fail again`() async throws {
        let (disk, clock) = (Disk(), TestClock())
        let rooms = FluxFamily { (_: Int) in
            try await FluxStore.restored(
                from: disk, initialState: Counter(), dispatcher: nil, backoff: .constant(.seconds(1)), clock: clock,
                onFailure: { _ in })
        }
        disk.answer([false, true, false])
        try await rooms.with(1) { $0.dispatch(action: .add(1)) }
        await #expect(throws: StorageScript.Refusal.self) { try await rooms.close(1) }
        let lease = try await rooms.lease(1)
        let gate = Gate()
        disk.last.withLock { $0.gate = gate }
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        await disk.saves.count(2)
        lease.member.dispatch(action: .add(1))
        // The disk works for one save, and then fails again.
        gate.open()
        await disk.saves.count(3)
        await clock.sleepers(1)
        lease.release()
        for _ in 0..<50 { await #expect(throws: StorageScript.Refusal.self) { try await rooms.close(1) } }
        #expect(try await rooms.with(1) { $0.state.count } == 2, "the store is the same")
        disk.answer([true])
        clock.advance(by: .seconds(1))
        try await rooms.with(1) { await $0.flush() }
        try await rooms.close(1)
        #expect(try await rooms.with(1) { $0.state.count } == 2 && disk.last.current.count == 2)
    }

    @Test(.timeLimit(.minutes(1)))
    func `During a flush of a family a member that waits for its turn can be closed and recreated`() async throws {
        let (slow, clock, last) = (Disk(), TestClock(), Locked<Weak?>(nil))
        let rooms = FluxFamily(clock: clock) { (key: String) in
            if key == "a" { return try await FluxStore.restored(from: slow, initialState: Counter(), dispatcher: nil) }
            #expect(last.current?.object == nil, "it may hold what there is only one of")
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            last.withLock { $0 = Weak(store) }
            return store
        }
        let gate = Gate()
        slow.last.withLock { $0.gate = gate }
        try await rooms.with("a") { $0.dispatch(action: .add(1)) }
        try await rooms.with("b") { $0.dispatch(action: .add(1)) }
        let flush = Task { await rooms.flush(within: .seconds(60)) }
        // Once the flush sleeps, as the family does, it is waiting for the first store.
        await clock.sleepers(2)
        try await rooms.close("b")
        #expect(try await rooms.with("b") { $0.state.count } == 0)
        gate.open()
        #expect(await flush.value)
    }

    @Test(.timeLimit(.minutes(1)))
    func `A flush of a family returns false if a member is lost while it waits for another`() async throws {
        let (slow, bad, clock) = (Disk(), Disk(), TestClock())
        let rooms = FluxFamily(clock: clock) { (key: String) in
            try await FluxStore.restored(
                from: key == "a" ? slow : bad, initialState: Counter(), dispatcher: nil, onFailure: { _ in })
        }
        let gate = Gate()
        slow.last.withLock { $0.gate = gate }
        bad.isGone.withLock { $0 = true }
        for key in ["a", "b"] { try await rooms.with(key) { $0.dispatch(action: .add(1)) } }
        await #expect(throws: Disk.Gone.self) { try await rooms.close("b") }
        let flush = Task { await rooms.flush(within: .seconds(60)) }
        await clock.sleepers(2)
        while rooms.keys.contains("b") { try? await rooms.close("b") }
        gate.open()
        #expect(await flush.value == false)
    }

    @Test(.timeLimit(.minutes(1))) func `A store that is detached during a failed close stays detached`() async throws {
        let (disk, dispatcher, clock) = (Disk(), FluxDispatcher(), TestClock())
        let rooms = FluxFamily { (_: Int) in
            try await FluxStore.restored(
                from: disk, initialState: Counter(), dispatcher: dispatcher, clock: clock, onFailure: { _ in })
        }
        let gate = Gate()
        disk.last.withLock { $0.gate = gate }
        disk.answer([false])
        try await rooms.with(1) { $0.dispatch(action: .add(1)) }
        await disk.saves.count(1)
        let closing = Task { _ = await #expect(throws: StorageScript.Refusal.self) { try await rooms.close(1) } }
        while !rooms.keys.isEmpty { await Task.yield() }
        for _ in 0..<1_000 { await Task.yield() }
        #expect(dispatcher.stores.map { dispatcher.detach($0) } == [true])
        gate.open()
        await closing.value
        #expect(rooms.keys == [1] && dispatcher.dispatch(action: Counter.Action.add(1)) == 0)
    }

    /// Runs a closure when `failure()` is first called.
    private final class Asked: FluxStoreObserver {
        private let first: Locked<(@Sendable () -> Void)?>
        init(_ first: @escaping @Sendable () -> Void) { self.first = Locked(first) }

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
        func failure() async -> (any Error)? {
            first.withLock { $0.take() }?()
            return nil
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `A store attached elsewhere during a failed close is not attached to its dispatcher again`() async throws {
        let (disk, clock, gate) = (Disk(), TestClock(), Gate())
        let (dispatcher, other) = (FluxDispatcher(), FluxDispatcher())
        let rooms = FluxFamily { (_: Int) in
            try await FluxStore.restored(
                from: disk, initialState: Counter(), dispatcher: dispatcher, clock: clock, onFailure: { _ in })
        }
        disk.answer([true, false])
        let store = try await rooms.with(1) { store in
            store.dispatch(action: .add(1))
            // Runs after the observer that was added first has been checked, and so after the store was detached.
            let asked = Asked { [weak store] in
                disk.last.withLock { $0.gate = gate }
                store?.dispatch(action: .add(1))
            }
            store.handle.withAccess { $0.observe(asked) }
            return store
        }
        let closing = Task { _ = await #expect(throws: StorageScript.Refusal.self) { try await rooms.close(1) } }
        await disk.saves.count(2)
        while !dispatcher.stores.isEmpty { await Task.yield() }
        other.attach(store)
        #expect(other.detach(store))
        gate.open()
        await closing.value
        #expect(rooms.keys == [1] && dispatcher.stores.isEmpty)
    }

    enum Ending: String, CaseIterable { case flushed, lost, recovered }

    @Test(.stress, .timeLimit(.minutes(5)), arguments: Ending.allCases)
    func `A member is released before the next one of its key is created, however it ends`(
        _ ending: Ending
    ) async throws {
        let (disk, last, alive) = (Disk(), Locked<Weak?>(nil), Locked(0))
        let rooms = FluxFamily { (_: Int) in
            if last.current?.object != nil { alive.withLock { $0 += 1 } }
            let store = try await FluxStore.restored(
                from: disk, initialState: Counter(), dispatcher: nil, backoff: .none, onFailure: { _ in })
            last.withLock { $0 = Weak(store) }
            return store
        }
        disk.isGone.withLock { $0 = ending == .lost }
        for _ in 0..<3_000 {
            if ending == .recovered { disk.answer([false, false, true]) }
            try await rooms.with(1) { $0.dispatch(action: .add(1)) }
            async let flush = ending == .flushed ? rooms.flush(within: .seconds(60)) : true
            while !rooms.keys.isEmpty { try? await rooms.close(1) }
            try await rooms.with(1) { _ in }
            _ = await flush
        }
        #expect(alive.current == 0)
    }

    /// Fails once; its first flush never returns.
    private final class FailingOnce: FluxStoreObserver {
        private let calls = Locked((failures: 0, flushes: 0))
        let isFlushed = Gate()

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
        func failure() async -> (any Error)? {
            let call = calls.withLock { calls in
                calls.failures += 1
                return calls.failures
            }
            return call == 1 ? StorageScript.Refusal() : nil
        }
        func flush() async {
            let call = calls.withLock { calls in
                calls.flushes += 1
                return calls.flushes
            }
            isFlushed.open()
            if call == 1 { await FluxLatch().wait() }
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `A member that is closed only on the second attempt is released`() async throws {
        let (looking, last) = (FailingOnce(), Locked<Weak?>(nil))
        let rooms = FluxFamily { (_: Int) in
            #expect(last.current?.object == nil)
            let store = FluxStore(initialState: Counter(), dispatcher: nil) { handle in
                handle.withAccess { $0.observe(looking) }
            }
            last.withLock { $0 = Weak(store) }
            return store
        }
        try await rooms.with(1) { _ in }
        await #expect(throws: StorageScript.Refusal.self) { try await rooms.close(1) }
        await looking.isFlushed.opened()
        try await rooms.close(1)
        try await rooms.with(1) { _ in }
    }

    @Test func `A member releases its log before the next one of its key is created`() async throws {
        let last = Locked<Weak?>(nil)
        let rooms = FluxFamily { (_: Int) in
            #expect(last.current?.object == nil)
            let log = MemoryLog<Counter>()
            last.withLock { $0 = Weak(log) }
            return try await FluxStore.restored(from: log, initialState: Counter(), dispatcher: nil)
        }
        for _ in 0..<500 {
            try await rooms.with(1) { store in store.dispatch(action: .add(1)) }
            try await rooms.close(1)
        }
    }

    @Test func `A flush of a family saves all members, keeps them and returns true`() async throws {
        let rooms = rooms(in: folder.path)
        for id in ["a", "b"] { try await rooms.with(id) { store in store.dispatch(action: .bid(1)) } }
        #expect(await rooms.flush(within: .seconds(60)))
        #expect(folder.names == ["a", "b"] && rooms.keys == ["a", "b"])
    }
}
