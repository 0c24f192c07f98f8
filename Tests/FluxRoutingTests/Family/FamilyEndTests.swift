import FluxCore
import FluxRouting
import TestSupport
import Testing

/// How a family ends: by a shutdown, or by its release.
@Suite struct FamilyEndTests {
    let desks = Desks()

    @Test func `A shutdown closes all members, and the family opens none afterwards`() async throws {
        let family = desks.family()
        for key in ["a", "b"] { try await family.with(key) { _ in } }
        let report = await family.shutdown(within: .seconds(10))
        #expect(Set(report.closed) == ["a", "b"] && report.failed.isEmpty && report.late.isEmpty)
        #expect(family.keys.isEmpty && desks.count("closed a") == 1)
        await #expect(throws: FluxFamilyError.shutDown(key: "a")) { try await family.lease("a") }
        await #expect(throws: FluxFamilyError.shutDown(key: "c")) { try await family.with("c") { _ in } }
        #expect(await family.shutdown(within: .zero).closed.isEmpty)
        #expect("\(FluxFamilyError.shutDown(key: "a"))".contains("\"a\""))
    }

    @Test(.timeLimit(.minutes(1))) func `A shutdown reports failed and late members, which may still close later`()
        async throws
    {
        let family = desks.family()
        desks.refuse("close b")
        let slow = desks.block("close c")
        let making = desks.block("make e")
        for key in ["a", "b", "c"] { try await family.with(key) { _ in } }
        let lease = try await family.lease("d")
        let waiting = Task { try await family.with("e") { _ in } }
        await desks.seen.count(9)
        var iterator = family.changes.makeAsyncIterator()
        let ending = Task { await family.shutdown(within: .seconds(10)) }
        await #expect(throws: FluxFamilyError.shutDown(key: "e")) { try await waiting.value }
        await desks.clock.sleepers(1)
        await desks.failures.count(1)
        // Once the caller of the close knows the result, the shutdown knows it too.
        try await family.close("a")
        while family.keys != ["b", "d"] { await Task.yield() }
        // The sleeper of the family may be there too: both are woken.
        desks.clock.advance(by: .seconds(10))
        let report = await ending.value
        #expect(report.closed == ["a"])
        #expect(report.failed.mapValues { $0 as? Desks.Refusal } == ["b": .init(key: "close b")])
        #expect(Set(report.late) == ["c", "d", "e"])
        #expect(family.keys == ["b", "d"])
        // Everything continues after the deadline.
        desks.refuse("close b", false)
        slow.open()
        making.open()
        lease.release()
        try await family.close("b")
        var left: Set<FluxFamilyChange<String>> = []
        while let change = await iterator.next() { left.insert(change) }
        #expect(
            left == Set(["a", "b", "c", "d", "e"].map { FluxFamilyChange.closed($0) } + [.opened("b"), .opened("e")]))
        #expect(desks.count("closed e") == 1 && desks.count("closed d") == 1)
    }

    @Test(.timeLimit(.minutes(1))) func `A shutdown does not report a member that could not be created`() async {
        let family = desks.family()
        desks.refuse("make a")
        let gate = desks.block("make a")
        let waiting = Task { try await family.with("a") { _ in } }
        await desks.seen.count(1)
        let ending = Task { await family.shutdown(within: .seconds(10)) }
        await #expect(throws: FluxFamilyError.shutDown(key: "a")) { try await waiting.value }
        gate.open()
        let report = await ending.value
        #expect(report.closed.isEmpty && report.failed.isEmpty && report.late.isEmpty)
    }

    @Test(.timeLimit(.minutes(1))) func `A clock whose sleepers never wake does not delay a shutdown`() async throws {
        let family = FluxFamily(clock: DeafClock()) { (key: Int) in
            key
        } close: { _ in
        }
        for key in 0..<10 { try await family.with(key) { _ in } }
        #expect(await family.shutdown(within: .seconds(10)).closed.count == 10)
    }

    @Test(.timeLimit(.minutes(1))) func `A family closes idle members when its clock wakes it too early`() async throws
    {
        let family = FluxFamily(clock: HastyClock()) { (key: Int) in
            key
        } close: { _ in
        }
        let changes = try await family.changes(2) { try await family.with(1) { _ in } }
        #expect(changes == [.opened(1), .closed(1)])
    }

    /// A clock that stands still, and whose sleeps return at once.
    struct HastyClock: Clock {
        var now: TestClock.Instant { TestClock().now }
        var minimumResolution: Duration { .zero }
        func sleep(until deadline: TestClock.Instant, tolerance: Duration?) async throws {}
    }

    /// A clock on which no sleeper is ever woken.
    struct DeafClock: Clock {
        typealias Instant = ContinuousClock.Instant
        var now: Instant { .now }
        var minimumResolution: Duration { .zero }
        func sleep(until deadline: Instant, tolerance: Duration?) async throws {
            let never = AsyncStream<Never>.makeStream()
            await Task.detached { for await _ in never.stream {} }.value
            withExtendedLifetime(never) {}
        }
    }

    @Test(.timeLimit(.minutes(1))) func `A task that waits for a shutdown can be cancelled`() async throws {
        let family = desks.family()
        let gate = desks.block("close a")
        try await family.with("a") { _ in }
        let ending = Task { await family.shutdown(within: .seconds(10)) }
        await desks.seen.count(3)
        ending.cancel()
        #expect(await ending.value.late == ["a"])
        gate.open()
        #expect(await family.shutdown(within: .seconds(10)).failed.isEmpty)
    }

    @Test func `A released family closes its open members once, and keeps nothing`() async throws {
        var family: FluxFamily? = desks.family()
        desks.refuse("close b")
        for key in ["a", "b"] { try await family!.with(key) { _ in } }
        let (gone, ended) = (Weak(family!), Gate())
        var lease: FluxLease<Desk>? = try await family!.lease("c")
        let seen = Recorder<[String]>()
        let token = family!.subscribe(.every, on: nil, startingWithCurrent: false, ended: { ended.open() }) {
            seen.record($0.keys.sorted())
        }
        family = nil
        // The lease keeps the family alive.
        #expect(gone.object != nil && desks.count("close a") == 0)
        lease = nil
        await ended.opened()
        await desks.seen.count(11)
        await desks.failures.count(1)
        #expect(await gone.isGone())
        #expect(Set(desks.seen.values.suffix(5)) == ["close a", "closed a", "close b", "close c", "closed c"])
        #expect(desks.failures.values == ["b: Refusal(key: \"close b\")"])
        #expect(seen.values.last == [], "each is told of as closed")
        _ = (lease, token)
    }

    @Test func `A family can be released in handle, while the store's lock is held`() async throws {
        let store = FluxStore(initialState: Owning(family: desks.family()), dispatcher: nil)
        try await store.state.family!.with("a") { _ in }
        store.dispatch(action: .drop)
        await desks.seen.count(4)
        #expect(desks.seen.values.last == "closed a")
    }

    /// Dispatches when it is released, which is allowed only while no lock is held.
    private final class Dispatching: Sendable {
        let store: FluxStore<Counter>
        init(_ store: FluxStore<Counter>) { self.store = store }
        deinit { store.dispatch(action: .add(1)) }
    }

    private struct Leasing: FluxState {
        enum Action: FluxAction { case drop }
        var lease: FluxLease<Dispatching>?
        mutating func handle(action: Action) -> Leasing? {
            lease = nil
            return self
        }
    }

    @Test(arguments: [false, true])
    func `A lease released in handle releases its member only after handle`(isReleased: Bool) async throws {
        let counter = FluxStore(initialState: Counter(), dispatcher: nil)
        let family = FluxFamily<String, Dispatching>(idle: .zero) { _ in
            Dispatching(counter)
        } close: { _ in
        }
        let store = FluxStore(initialState: Leasing(lease: try await family.lease("a")), dispatcher: nil)
        if isReleased {
            store.state.lease?.release()
            try await family.close("a")
        }
        let changes = Recorder<Int>()
        let token = counter.subscribe { changes.record($0.count) }
        store.dispatch(action: .drop)
        await changes.count(1)
        #expect(changes.values == [1])
        token.unsubscribe()
    }

    struct Owning: FluxState {
        enum Action: FluxAction { case drop }
        var family: FluxFamily<String, Desk>?
        mutating func handle(action: Action) -> Owning? {
            family = nil
            return self
        }
    }

    @Test func `An unused family runs no task, and a released family ends its task`() async throws {
        let clock = WakingClock()
        var family: FluxFamily? = FluxFamily(idle: .seconds(1), clock: clock) { (key: Int) in
            key
        } close: { _ in
        }
        for key in 0..<100 { try await family!.with(key) { _ in } }
        await clock.base.sleepers(1)
        #expect(clock.base.sleeps == 1)
        let closed = await family!.changes(100) { clock.base.advance(by: .seconds(1)) }
        #expect(closed.count == 100)
        await clock.awake.count(1)
        // The family does not sleep again until there is something to wait for.
        try await family!.with(1) { _ in }
        await clock.base.sleepers(1)
        #expect(clock.base.sleeps == 2)
        family = nil
        await clock.awake.count(2)
    }

    @Test(.timeLimit(.minutes(1))) func `A shutdown that ends in time leaves no task asleep`() async throws {
        let clock = WakingClock()
        let family = FluxFamily(clock: clock) { (key: Int) in
            key
        } close: { _ in
        }
        await family.shutdown(within: .seconds(10))
        await clock.awake.count(1)
    }
}
