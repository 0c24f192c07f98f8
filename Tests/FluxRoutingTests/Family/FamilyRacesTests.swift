import Dispatch
import FluxCore
import FluxRouting
import TestSupport
import Testing

/// Many callers, on one key and on many, while members come and go.
@Suite struct FamilyRacesTests {
    /// A member that must be the only one of its key, and saves what it was given.
    final class Room: Sendable {
        let key: Int
        let count: Locked<Int>

        init(_ key: Int, _ count: Int) { (self.key, self.count) = (key, Locked(count)) }
    }

    /// The storage that rooms are loaded from and saved to.
    final class Disk: Sendable {
        let saved = Locked([Int: Int]())
        let open = Locked(Set<Int>())
        let doubled = Locked(0)
        let made = Locked(0)

        func family(idle: Duration = .zero, limit: Int = .max, failing: Int = 0) -> FluxFamily<Int, Room> {
            let turns = Locked(0)
            return FluxFamily(idle: idle, limit: limit) { [self] (key: Int) in
                made.withLock { $0 += 1 }
                if open.withLock({ !$0.insert(key).inserted }) { doubled.withLock { $0 += 1 } }
                await Task.yield()
                return Room(key, saved.withLock { $0[key] ?? 0 })
            } close: { [self] room in
                await Task.yield()
                let turn = turns.withLock { turns in
                    turns += 1
                    return turns
                }
                if failing > 0 && turn % failing == 0 { throw Desks.Refusal() }
                saved.withLock { $0[room.key] = room.count.current }
                _ = open.withLock { $0.remove(room.key) }
            }
        }
    }

    /// Counts its living instances, and how often there was more than one.
    private final class Lone: Sendable {
        let alive: Locked<Int>

        init(_ alive: Locked<Int>, _ doubled: Locked<Int>) {
            self.alive = alive
            let isFirst = alive.withLock { alive in
                alive += 1
                return alive == 1
            }
            if !isFirst { doubled.withLock { $0 += 1 } }
        }

        deinit { alive.withLock { $0 -= 1 } }
    }

    @Test(.stress) func `Stress: a released lease has released its member before another is created`() async {
        let (alive, doubled) = (Locked(0), Locked(0))
        let family = FluxFamily<Int, Lone>(idle: .zero, limit: 1) { _ in
            Lone(alive, doubled)
        } close: { _ in
        }
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask { for _ in 0..<5_000 { _ = try? await family.lease(0) } }
            }
        }
        await family.shutdown(within: .seconds(10))
        #expect(doubled.current == 0)
    }

    @Test(.stress) func `Stress: reading the keys keeps no member alive`() async throws {
        let (alive, doubled, isOver) = (Locked(0), Locked(0), Flag())
        let family = FluxFamily<Int, Lone>(idle: .zero) { _ in
            Lone(alive, doubled)
        } close: { _ in
        }
        let asking = DispatchGroup()
        DispatchQueue.global().async(group: asking) { while !isOver.isSet { _ = family.keys } }
        for _ in 0..<5_000 { try await family.with(0) { _ in } }
        isOver.set()
        asking.wait()
        #expect(doubled.current == 0)
    }

    @Test(.stress, arguments: [1, 50]) func `No update is lost when visits and closes overlap`(keys: Int) async throws {
        let disk = Disk()
        let family = disk.family(limit: 10, failing: 7)
        let (tasks, rounds) = (8, 250)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<tasks {
                group.addTask {
                    for round in 0..<rounds {
                        let key = (task + round) % keys
                        switch round % 5 {
                        case 0:
                            let lease = try await family.lease(key)
                            await Task.yield()
                            lease.member.count.withLock { $0 += 1 }
                            lease.release()
                        case 1:
                            let visit = Task { try await family.with(key) { room in room.count.withLock { $0 += 1 } } }
                            await Task.yield()
                            visit.cancel()
                            if (try? await visit.value) == nil {
                                try await family.with(key) { room in room.count.withLock { $0 += 1 } }
                            }
                        case 2:
                            try await family.with(key) { room in room.count.withLock { $0 += 1 } }
                            try? await family.close(key)
                        default:
                            try await family.with(key) { room in
                                await Task.yield()
                                room.count.withLock { $0 += 1 }
                            }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        while await !family.shutdown(within: .seconds(60)).failed.isEmpty {}
        #expect(disk.saved.current.values.reduce(0, +) == tasks * rounds)
        #expect(disk.doubled.current == 0 && disk.open.current.isEmpty && family.keys.isEmpty)
    }

    @Test(.stress) func `Two tasks that use the same hundred keys create each member once`() async throws {
        let disk = Disk()
        let family = disk.family(idle: .seconds(3_600))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<2 {
                group.addTask {
                    for round in 0..<5_000 {
                        try await family.with(0) { room in room.count.withLock { $0 += 1 } }
                        try await family.with(round % 100) { room in room.count.withLock { $0 += 1 } }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(disk.made.current == 100 && family.keys.count == 100)
        #expect(await family.shutdown(within: .seconds(60)).closed.count == 100)
        #expect(disk.saved.current.values.reduce(0, +) == 20_000)
    }

    /// The system's clock, which records that it was read.
    struct Noticed: Clock {
        let base = ContinuousClock()
        let reads = Recorder<Void>()
        var now: ContinuousClock.Instant {
            reads.record(())
            return base.now
        }
        var minimumResolution: Duration { base.minimumResolution }
        func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
            try await base.sleep(until: deadline, tolerance: tolerance)
        }
    }

    // The flush waits for the store's lock on a thread of the pool.
    @Test(.blocking) func `While a busy store is flushed, it keeps no other member of its family waiting`() async throws
    {
        let clock = Noticed()
        let family = FluxFamily<String, FluxStore<Log>>(clock: clock) { _ in
            FluxStore(initialState: Log(), dispatcher: nil)
        }
        try await family.with("busy") { busy in
            var flushing: Task<Bool, Never>?
            try await whileLocked(busy.handle) {
                let reads = clock.reads.values.count
                flushing = Task { await family.flush(within: .seconds(300)) }
                // The first reading begins the flush, and the second one comes once the family has looked up the store.
                await clock.reads.count(reads + 2)
                try await family.with("quick") { #expect($0.revision == 0) }
            }
            #expect(await flushing?.value == true)
        }
    }

    @Test(.stress) func `The changes of each key arrive in order, and none is missing`() async throws {
        let family = Disk().family(limit: 3)
        var iterator = family.changes.makeAsyncIterator()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for task in 0..<4 {
                group.addTask {
                    for round in 0..<300 { try await family.with((task + round) % 10) { _ in } }
                }
            }
            try await group.waitForAll()
        }
        _ = await family.shutdown(within: .seconds(60))
        var open: Set<Int> = []
        while let change = await iterator.next() {
            switch change {
            case .opened(let key): #expect(open.insert(key).inserted)
            case .closed(let key): #expect(open.remove(key) != nil)
            }
        }
        #expect(open.isEmpty)
    }

    @Test(.stress) func `Many keys used once and evicted leave no memory behind, and do not slow down`() async throws {
        await #expect(processExitsWith: .success) {
            let clock = ContinuousClock()
            let closed = Locked(0)
            let family = FluxFamily(limit: 100) { (key: Int) in
                key
            } close: { _ in
                closed.withLock { $0 += 1 }
            }
            var times: [Duration] = []
            var heaps: [Int] = []
            for part in 0..<10 {
                let start = clock.now
                for key in 0..<2_000 { try await family.with(part * 2_000 + key) { _ in } }
                times.append(start.duration(to: clock.now))
                // All but the last hundred have been evicted.
                while closed.current < part * 2_000 + 1_900 { await Task.yield() }
                heaps.append(Heap.bytesInUse)
            }
            #expect(family.keys.count == 100)
            // A scan of all keys so far would take ten times as long at the end.
            #expect(times[7...].min()! < times[..<3].max()! * 4)
            #expect(heaps[9] - heaps[2] < 100_000)
        }
    }
}
