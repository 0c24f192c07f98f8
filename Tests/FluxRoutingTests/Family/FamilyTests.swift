import FluxCore
import Foundation
import TestSupport
import Testing

@testable import FluxRouting

/// Members on demand: created once, shared, evicted, and created again.
@Suite struct FamilyTests {
    let desks = Desks()

    // MARK: - Making

    @Test func `A member is created once, however many tasks request it at the same time`() async throws {
        let family = desks.family()
        let gate = desks.block("make a")
        try await withThrowingTaskGroup(of: Int.self) { group in
            for _ in 0..<100 { group.addTask { try await family.with("a") { $0.number } } }
            await desks.seen.count(1)
            gate.open()
            for try await number in group { #expect(number == 1) }
        }
        #expect(desks.seen.values == ["make a", "made a"])
        #expect(family.keys == ["a"])
    }

    @Test func `with returns or throws the result of its closure, which runs where with was called`() async throws {
        let family = desks.family()
        #expect(try await family.with("a") { "\($0.key)!" } == "a!")
        await #expect(throws: Desks.Refusal(key: "mine")) {
            try await family.with("a") { _ in throw Desks.Refusal(key: "mine") }
        }
        // The closure and its result are not sendable.
        let box = Box(0)
        let same = try await family.with("a") { desk in
            box.it = desk.number
            return box
        }
        #expect(same.it == 1)
        try await onMain(family)
    }

    @MainActor func onMain(_ family: FluxFamily<String, Desk>) async throws {
        let box = Box(0)
        try await family.with("a") { desk in
            MainActor.assertIsolated()
            box.it = desk.number
        }
        #expect(box.it == 1)
    }

    @Test func `A creation error is thrown to all waiting tasks, and the next request tries again`() async throws {
        let family = desks.family()
        let gate = desks.block("make a")
        desks.refuse("make a")
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<10 {
                group.addTask {
                    do { try await family.with("a") { _ in } } catch {
                        return error as? Desks.Refusal == .init(key: "make a")
                    }
                    return false
                }
            }
            await desks.seen.count(1)
            gate.open()
            for await isRefused in group { #expect(isRefused) }
        }
        #expect(family.keys.isEmpty)
        desks.refuse("make a", false)
        try await family.with("a") { _ in }
        #expect(desks.count("made a") == 1)
    }

    @Test(.timeLimit(.minutes(1))) func `A cancelled request returns at once, and does not affect the others`()
        async throws
    {
        let family = desks.family()
        let gate = desks.block("make a")
        let others = (0..<3).map { _ in Task { try await family.with("a") { $0.number } } }
        let first = Task { try await family.with("a") { $0.number } }
        await desks.seen.count(1)
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        gate.open()
        for other in others { #expect(try await other.value == 1) }
        #expect(desks.seen.values == ["make a", "made a"])
    }

    @MainActor @Test(.timeLimit(.minutes(1)))
    func `A request cancelled after admission, before its closure runs, throws`() async throws {
        let family = desks.family()
        let gate = desks.block("make a")
        let (hasRun, isIn) = (Flag(), Flag())
        let visit = Task { @MainActor in try await family.with("a") { _ in hasRun.set() } }
        await desks.seen.count(1)
        let other = Task.detached { try await family.with("a") { _ in isIn.set() } }
        gate.open()
        // Blocks the actor to which the visit has to return.
        while !isIn.isSet { sched_yield() }
        for _ in 0..<10_000 { sched_yield() }
        visit.cancel()
        await #expect(throws: CancellationError.self) { try await visit.value }
        try await other.value
        #expect(!hasRun.isSet)
        try await family.close("a")
        #expect(desks.count("closed a") == 1)
    }

    @Test func `A creation that no task waits for continues, and the member is then idle`() async throws {
        let family = desks.family()
        let gate = desks.block("make a")
        let only = Task { try await family.with("a") { _ in } }
        await desks.seen.count(1)
        only.cancel()
        await #expect(throws: CancellationError.self) { try await only.value }
        let changes = await family.changes(1) { gate.open() }
        #expect(changes == [.opened("a")])
        await desks.clock.sleepers(1)
        desks.clock.advance(by: .seconds(60))
        await desks.seen.count(4)
        #expect(desks.seen.values.suffix(2) == ["close a", "closed a"])
    }

    @MainActor @Test(.timeLimit(.minutes(1)))
    func `A cancelled request for a member that is being closed does not create it again`() async throws {
        let family = desks.family()
        let (gate, isWaiting) = (desks.block("close a"), Flag())
        try await family.with("a") { _ in }
        let closing = Task { try await family.close("a") }
        await desks.seen.count(3)
        // On this actor: once the flag is set, the request has got as far as it gets.
        let visit = Task { @MainActor in
            isWaiting.set()
            try await family.with("a") { _ in }
        }
        while !isWaiting.isSet { await Task.yield() }
        visit.cancel()
        await #expect(throws: CancellationError.self) { try await visit.value }
        gate.open()
        try await closing.value
        #expect(await family.shutdown(within: .seconds(10)).closed.isEmpty)
        #expect(desks.seen.values == ["make a", "made a", "close a", "closed a"])
    }

    @Test func `A cancelled task opens no member`() async throws {
        let family = desks.family()
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await family.lease("a")
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(desks.seen.values.isEmpty)
    }

    @Test(.timeLimit(.minutes(1))) func `Creating or closing a member can request another key`() async throws {
        let family = Locked<FluxFamily<String, String>?>(nil)
        let made = FluxFamily { (key: String) in
            if key == "b" { return "b" }
            return try await family.current!.with("b") { "a with \($0)" }
        } close: { member in
            if member != "b" { try await family.current!.with("b") { _ in } }
        }
        family.withLock { $0 = made }
        #expect(try await made.with("a") { $0 } == "a with b")
        try await made.close("a")
        #expect(made.keys == ["b"])
        family.withLock { $0 = nil }
    }

    // MARK: - Leases

    @Test func `A lease keeps its member open until it is released or deallocated`() async throws {
        let family = desks.family(idle: .zero)
        var leases = [try await family.lease("a"), try await family.lease("a")]
        #expect(leases[0].member === leases[1].member)
        leases[0].release()
        leases[0].release()
        desks.clock.advance(by: .seconds(1_000))
        #expect(family.keys == ["a"])
        let changes = await family.changes(1) { leases = [] }
        #expect(changes == [.closed("a")])
    }

    @Test(arguments: [Holding.Action.drop, .release])
    func `A lease can be released or deallocated in handle, while the store's lock is held`(
        _ action: Holding.Action
    ) async throws {
        let family = desks.family(limit: 0)
        let store = FluxStore(initialState: Holding(lease: try await family.lease("a")), dispatcher: nil)
        let changes = await family.changes(1) { store.dispatch(action: action) }
        #expect(changes == [.closed("a")])
    }

    struct Holding: FluxState {
        enum Action: FluxAction { case drop, release }
        var lease: FluxLease<Desk>?
        mutating func handle(action: Action) -> Holding? {
            if case .release = action { lease?.release() } else { lease = nil }
            return self
        }
    }

    // MARK: - Idle

    @Test func `An unused member is evicted after idle, measured by the clock`() async throws {
        let family = desks.family()
        try await family.with("a") { _ in }
        await desks.clock.sleepers(1)
        desks.clock.advance(by: .seconds(30))
        try await family.with("b") { _ in }
        let changes = await family.changes(1) { desks.clock.advance(by: .seconds(30)) }
        #expect(changes == [.closed("a")])
        #expect(family.keys == ["b"])
        await desks.clock.sleepers(1)
        desks.clock.advance(by: .seconds(30))
        await desks.seen.count(8)
        #expect(family.keys == [])
    }

    @Test(arguments: [Duration(attoseconds: .max), .seconds(Int64.max)])
    func `idle can be as long as the longest duration`(_ idle: Duration) async throws {
        let family = desks.family(idle: idle)
        try await family.with("a") { _ in }
        desks.clock.advance(by: .seconds(30))
        try await family.with("b") { _ in }
        #expect(family.keys == ["a", "b"])
    }

    @Test func `The idle time starts with the last use`() async throws {
        let family = desks.family()
        try await family.with("a") { _ in }
        await desks.clock.sleepers(1)
        desks.clock.advance(by: .seconds(59))
        try await family.with("a") { _ in }
        desks.clock.advance(by: .seconds(59))
        try await family.with("b") { _ in }
        #expect(desks.count("close a") == 0)
        let changes = await family.changes(1) { desks.clock.advance(by: .seconds(1)) }
        #expect(changes == [.closed("a")])
    }

    @Test func `Above the limit, the least recently used member that is not in use is evicted`() async throws {
        let family = desks.family(limit: 2)
        for key in ["a", "b", "a", "c"] { try await family.with(key) { _ in } }
        #expect(family.keys == ["a", "c"])
        let lease = try await family.lease("a")
        let other = try await family.lease("d")
        #expect(family.keys == ["a", "d"])
        // Members in use stay, so the limit is exceeded for a while.
        let third = try await family.lease("e")
        #expect(family.keys == ["a", "d", "e"])
        lease.release()
        #expect(family.keys == ["d", "e"])
        withExtendedLifetime((other, third)) {}
    }

    // MARK: - Eviction

    @Test func `A request during an eviction waits until the member is closed, and gets a new one`() async throws {
        let family = desks.family()
        try await family.with("a") { _ in }
        let gate = desks.block("close a")
        let closing = Task { try await family.close("a") }
        await desks.seen.count(3)
        #expect(family.keys.isEmpty)
        let next = Task { try await family.with("a") { $0.number } }
        // Another key is not delayed.
        try await family.with("b") { _ in }
        #expect(desks.count("make a") == 1)
        gate.open()
        #expect(try await next.value == 2)
        try await closing.value
        #expect(
            desks.seen.values.filter { $0.hasSuffix("a") } == [
                "make a", "made a", "close a", "closed a", "make a", "made a",
            ])
    }

    @Test func `The old member is released before the new one is used`() async throws {
        let family = desks.family()
        _ = try await family.with("a") { $0.number }
        let gate = desks.block("close a")
        let gone = desks.gone(1)
        let closing = Task { try await family.close("a") }
        await desks.seen.count(3)
        let next = Task { try await family.with("a") { _ in gone.isOpen } }
        gate.open()
        #expect(try await next.value)
        try await closing.value
    }

    @Test func `The old member is released before the creation of the next begins`() async throws {
        let (gone, gate, isClosing, found) = (Gate(), Gate(), Gate(), Recorder<Bool>())
        let family = FluxFamily { (_: String) in
            found.record(gone.isOpen)
            return Canary(gone)
        } close: { _ in
            isClosing.open()
            await gate.opened()
        }
        try await family.with("a") { _ in }
        let closing = Task { try await family.close("a") }
        await isClosing.opened()
        let next = Task { try await family.with("a") { _ in } }
        for _ in 0..<1_000 { await Task.yield() }
        gate.open()
        try await closing.value
        try await next.value
        #expect(found.values == [false, true])
    }

    @Test func `close saves first, and returns once the member is released`() async throws {
        let family = desks.family()
        try await family.with("a") { _ in }
        try await family.close("a")
        #expect(desks.seen.values.last == "closed a" && family.keys.isEmpty)
        #expect(desks.gone(1).isOpen)
        // There is nothing to close.
        try await family.close("a")
    }

    @Test func `close throws the error of the closing, and the member stays`() async throws {
        let family = desks.family()
        let first = try await family.with("a") { ObjectIdentifier($0) }
        desks.refuse("close a")
        await #expect(throws: Desks.Refusal(key: "close a")) { try await family.close("a") }
        #expect(family.keys == ["a"])
        #expect(try await family.with("a") { ObjectIdentifier($0) } == first)
        await desks.failures.count(1)
        desks.refuse("close a", false)
        try await family.close("a")
        #expect(family.keys.isEmpty)
    }

    @Test(.timeLimit(.minutes(1))) func `close waits until the member is unused, and does not block other requests`()
        async throws
    {
        let family = desks.family()
        let lease = try await family.lease("a")
        let closing = Task { try await family.close("a") }
        let given = Task { try await family.close("a") }
        for _ in 0..<100 { try await family.with("a") { _ in } }
        given.cancel()
        await #expect(throws: CancellationError.self) { try await given.value }
        #expect(desks.count("close a") == 0)
        lease.release()
        try await closing.value
        #expect(desks.gone(1).isOpen == false && family.keys.isEmpty)
        withExtendedLifetime(lease) {}
    }

    @Test(.timeLimit(.minutes(1))) func `A cancelled close leaves the member open`() async throws {
        let family = desks.family()
        let lease = try await family.lease("a")
        let closing = Task { try await family.close("a") }
        // By then the close waits; if not, it finds that it is cancelled.
        for _ in 0..<1_000 { await Task.yield() }
        closing.cancel()
        await #expect(throws: CancellationError.self) { try await closing.value }
        lease.release()
        #expect(family.keys == ["a"])
    }

    @Test func `A cancelled task closes no member`() async throws {
        let family = desks.family()
        try await family.with("a") { _ in }
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await family.close("a")
        }
        await #expect(throws: CancellationError.self) { try await task.value }
        #expect(family.keys == ["a"])
    }

    // The family calls the failure handler on a thread of the pool.
    @Test(.blocking) func `close throws before the failure handler is called`() async throws {
        let gate = Gate()
        let family = FluxFamily(clock: desks.clock) { (_: String, _) in
            gate.wait()
        } make: { (_: String) in
            FluxStore(dispatcher: nil, watchedBy: Unsaved())
        }
        try await family.with("a") { _ in }
        await #expect(throws: Desks.Refusal.self) { try await family.close("a") }
        gate.open()
    }

    @Test(.timeLimit(.minutes(1))) func `A flush takes no longer than its time limit`() async throws {
        let slow = SlowOnce()
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            FluxStore(dispatcher: nil, watchedBy: slow)
        }
        for key in ["a", "b"] { try await family.with(key) { _ in } }
        let flushing = Task { await family.flush(within: .seconds(1)) }
        await slow.flushes.count(1)
        // The family sleeps, and so does the flush of the first store. No time is left for the second store.
        await desks.clock.sleepers(2)
        desks.clock.advance(by: .seconds(2))
        #expect(await flushing.value == false)
        slow.gate.open()
    }

    @Test(.timeLimit(.minutes(1))) func `A store is released only after it has called all its subscribers`()
        async throws
    {
        let (gate, order) = (Gate(), Recorder<String>())
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            FluxStore(initialState: Counter(), dispatcher: nil)
        }
        let token = try await family.with("a") { store in
            let token = store.subscribe { _ in
                gate.wait()
                order.record("told")
            }
            store.dispatch(action: .add(1))
            return token
        }
        let closing = Task {
            try await family.close("a")
            order.record("closed")
        }
        while family.keys == ["a"] { await Task.yield() }
        for _ in 0..<1_000 { await Task.yield() }
        gate.open()
        try await closing.value
        #expect(order.values == ["told", "closed"])
        token.unsubscribe()
    }

    @Test(.timeLimit(.minutes(1))) func `A store that is being flushed is created again only after the flush`()
        async throws
    {
        let (slow, made) = (SlowOnce(), Recorder<Bool>())
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            made.record(slow.gate.isOpen)
            return FluxStore(dispatcher: nil, watchedBy: slow)
        }
        try await family.with("a") { _ in }
        let flushing = Task { await family.flush(within: .seconds(60)) }
        await slow.flushes.count(1)
        let closing = Task { try await family.close("a") }
        await slow.flushes.count(2)
        let next = Task { try await family.with("a") { _ in } }
        for _ in 0..<1_000 { await Task.yield() }
        slow.gate.open()
        try await closing.value
        try await next.value
        #expect(await flushing.value && made.values == [false, true])
    }

    @Test(.timeLimit(.minutes(1))) func `A store that two flushes keep is closed only after both`() async {
        let (fate, areBoth) = (FluxFamilyFate(), Flag())
        #expect(fate.enter() && fate.enter())
        let closing = Task {
            await fate.close()
            return areBoth.isSet
        }
        while fate.enter() {
            fate.leave()
            await Task.yield()
        }
        fate.leave()
        for _ in 0..<1_000 { await Task.yield() }
        areBoth.set()
        fate.leave()
        #expect(await closing.value)
    }

    @Test(.timeLimit(.minutes(1))) func `A store that is lost before a flush reaches it is not flushed`() async throws {
        let slow = SlowOnce()
        let family = FluxFamily(clock: desks.clock) { (key: String) in
            FluxStore(initialState: Counter(), dispatcher: nil) { handle in
                handle.withAccess { if key == "a" { $0.observe(slow) } else { $0.observe(Unsaved()) } }
            }
        }
        try await family.with("a") { _ in }
        let fate = try await family.with("b") { $0.handle.feature(FluxFamilyFate.self, FluxFamilyFate.init) }
        await #expect(throws: Desks.Refusal.self) { try await family.close("b") }
        while !fate.isLost { await Task.yield() }
        let flushing = Task { await family.flush(within: .seconds(60)) }
        await slow.flushes.count(1)
        await #expect(throws: Desks.Refusal.self) { try await family.close("b") }
        slow.gate.open()
        #expect(await flushing.value == false)
    }

    /// Reports a failure at the first checks; its first flush waits for the gate, which a cancellation may open.
    final class Recovering: FluxStoreObserver {
        let (asked, flushes, gate) = (Recorder<Bool>(), Recorder<Bool>(), Gate())
        let endsWhenCancelled: Bool
        let failures: Int

        init(endsWhenCancelled: Bool, failures: Int = 1) {
            (self.endsWhenCancelled, self.failures) = (endsWhenCancelled, failures)
        }

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
        func failure() async -> (any Error)? {
            asked.record(true)
            return asked.values.count <= failures ? Desks.Refusal() : nil
        }
        func flush() async {
            flushes.record(true)
            guard flushes.values.count == 1 else { return }
            await withTaskCancellationHandler {
                await gate.opened()
            } onCancel: { [self] in
                if endsWhenCancelled { gate.open() }
            }
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func `A check whether a store is lost is cancelled by a close, and ends before the next creation`(
        endsWhenCancelled: Bool
    ) async throws {
        let (recovering, made) = (Recovering(endsWhenCancelled: endsWhenCancelled), Recorder<Bool>())
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            made.record(recovering.gate.isOpen)
            return FluxStore(dispatcher: nil, watchedBy: recovering)
        }
        try await family.with("a") { _ in }
        await #expect(throws: Desks.Refusal.self) { try await family.close("a") }
        await recovering.flushes.count(1)
        let closing = Task { try await family.close("a") }
        await recovering.flushes.count(2)
        let next = Task { try await family.with("a") { _ in } }
        if !endsWhenCancelled {
            for _ in 0..<1_000 { await Task.yield() }
            recovering.gate.open()
        }
        try await closing.value
        try await next.value
        #expect(made.values == [false, true])
    }

    @Test(.timeLimit(.minutes(1)))
    func `One check at a time finds out whether a store is lost, and a close cancels it`() async throws {
        let recovering = Recovering(endsWhenCancelled: true, failures: 2)
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            FluxStore(dispatcher: nil, watchedBy: recovering)
        }
        try await family.with("a") { _ in }
        await #expect(throws: Desks.Refusal.self) { try await family.close("a") }
        await recovering.flushes.count(1)
        // The check from before is still running.
        await #expect(throws: Desks.Refusal.self) { try await family.close("a") }
        try await family.close("a")
        #expect(family.keys.isEmpty)
    }

    /// Reports a failure each time but the third: the first close asks, then a flush, then the check after it.
    final class Relapsing: FluxStoreObserver {
        let asked = Recorder<Bool>()

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
        func failure() async -> (any Error)? {
            asked.record(true)
            return asked.values.count == 3 ? nil : Desks.Refusal()
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `A store that was not lost at one check may be at a later one`() async throws {
        let relapsing = Relapsing()
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            FluxStore(dispatcher: nil, watchedBy: relapsing)
        }
        let fate = try await family.with("a") { $0.handle.feature(FluxFamilyFate.self, FluxFamilyFate.init) }
        await #expect(throws: Desks.Refusal.self) { try await family.close("a") }
        await relapsing.asked.count(3)
        while !fate.isLost {
            await #expect(throws: Desks.Refusal.self) { try await family.close("a") }
            await Task.yield()
        }
    }

    /// Reports a failure at the first three checks, the third of which applies a new change.
    final class Busy: FluxStoreObserver {
        let asked = Recorder<Bool>()
        let handle: FluxStoreHandle<Counter>

        init(_ handle: FluxStoreHandle<Counter>) { self.handle = handle }

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
        func failure() async -> (any Error)? {
            asked.record(true)
            if asked.values.count == 3 { handle.withAccess { _ = $0.apply(.action(.add(1))) } }
            return asked.values.count < 4 ? Desks.Refusal() : nil
        }
    }

    @Test(.timeLimit(.minutes(1))) func `A store is not lost because of a change during the check`() async throws {
        let busy = Locked<Busy?>(nil)
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            FluxStore(initialState: Counter(), dispatcher: nil) { handle in
                let observer = Busy(handle)
                busy.withLock { $0 = observer }
                handle.withAccess { $0.observe(observer) }
            }
        }
        let fate = try await family.with("a") { $0.handle.feature(FluxFamilyFate.self, FluxFamilyFate.init) }
        await #expect(throws: Desks.Refusal.self) { try await family.close("a") }
        await busy.current?.asked.count(4)
        // This close comes after the check.
        try await family.close("a")
        #expect(!fate.isLost)
        busy.withLock { $0 = nil }
    }

    /// An observer of stores whose first flush waits.
    final class SlowOnce: FluxStoreObserver {
        let (flushes, gate) = (Recorder<Bool>(), Gate())

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
        func flush() async {
            flushes.record(true)
            if flushes.values.count == 1 {
                await withTaskCancellationHandler {
                    await gate.opened()
                } onCancel: {
                    gate.open()
                }
            }
        }
    }

    private struct Failed: Error { let lease: FluxLease<Flag> }

    @Test(.timeLimit(.minutes(1)))
    func `A creation error that no task waits for can hold the last lease of another member`() async throws {
        let (began, gate, made) = (Gate(), Gate(), Locked<FluxFamily<String, Flag>?>(nil))
        let family = FluxFamily { (key: String) in
            guard key != "root", let family = made.current else { return Flag() }
            let lease = try await family.lease("root")
            began.open()
            await gate.opened()
            throw Failed(lease: lease)
        } close: { _ in
        }
        made.withLock { $0 = family }
        let visit = Task { try await family.with("a") { _ in } }
        await began.opened()
        visit.cancel()
        await #expect(throws: CancellationError.self) { try await visit.value }
        gate.open()
        // Returns once the member is no longer in use.
        try await family.close("root")
        made.withLock { $0 = nil }
    }

    @Test func `A member that cannot be closed stays, is reported, and is retried after idle`() async throws {
        let family = desks.family()
        desks.refuse("close a")
        for key in ["a", "b"] { try await family.with(key) { _ in } }
        await desks.clock.sleepers(1)
        // Both are closed, and one of them is opened again,
        let changes = await family.changes(3) { desks.clock.advance(by: .seconds(60)) }
        // possibly before the other one is closed.
        #expect(changes.filter { $0 != .closed("b") } == [.closed("a"), .opened("a")] && changes.count == 3)
        await desks.failures.count(1)
        #expect(desks.failures.values == ["a: Refusal(key: \"close a\")"])
        #expect(family.keys == ["a"])
        desks.refuse("close a", false)
        await desks.clock.sleepers(1)
        desks.clock.advance(by: .seconds(59))
        try await family.with("c") { _ in }
        #expect(desks.count("close a") == 1)
        let later = await family.changes(1) { desks.clock.advance(by: .seconds(1)) }
        #expect(later == [.closed("a")])
    }

    @Test func `A member that cannot be closed stays available, also to a task that waits for it`() async throws {
        let family = desks.family()
        let first = try await family.with("a") { ObjectIdentifier($0) }
        desks.refuse("close a")
        let gate = desks.block("close a")
        let closing = Task { try await family.close("a") }
        await desks.seen.count(3)
        let next = Task { try await family.with("a") { ObjectIdentifier($0) } }
        gate.open()
        #expect(try await next.value == first)
        await #expect(throws: Desks.Refusal.self) { try await closing.value }
    }

    @Test(.timeLimit(.minutes(1))) func `A member that is slow to close does not delay other keys`() async throws {
        let family = desks.family(limit: 1)
        let gate = desks.block("close a")
        for number in 0..<100 { try await family.with(number == 0 ? "a" : "\(number)") { _ in } }
        #expect(family.keys == ["99"])
        try await family.close("99")
        #expect(desks.count("closed a") == 0)
        gate.open()
        try await family.with("a") { #expect($0.number == 2) }
    }

    @Test func `A store that cannot be saved stays, and close throws the error of its save`() async throws {
        let dispatcher = FluxDispatcher()
        let family = FluxFamily(clock: desks.clock) { (key: String) in
            let store = FluxStore(initialState: Counter(), dispatcher: nil) { handle in
                if key == "a" { handle.withAccess { $0.observe(Unsaved()) } }
            }
            try dispatcher.attach(store, as: key)
            return store
        }
        for key in ["a", "b"] { try await family.with(key) { _ = $0.dispatch(action: .add(1)) } }
        #expect(await family.flush(within: .seconds(1)) == false)
        await #expect(throws: Desks.Refusal.self) { try await family.close("a") }
        #expect(try await family.with("a") { $0.state.count } == 1)
        #expect(dispatcher.add(1) == 2, "it is attached again")
        #expect(dispatcher.dispatch(action: Counter.Action.add(1), to: "a"), "under its name")
        desks.clock.advance(by: .seconds(1))
        #expect(await family.flush(within: Duration(attoseconds: .max)) == false)
        let report = await family.shutdown(within: Duration(attoseconds: .max))
        #expect(report.closed == ["b"] && report.failed["a"] is Desks.Refusal)
    }

    @Test func `A store that cannot be saved keeps its place, and misses no action meanwhile`() async throws {
        let (dispatcher, isAsked, gate) = (FluxDispatcher(), Gate(), Gate())
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            let store = FluxStore(dispatcher: nil, watchedBy: Unsaved(isAsked: isAsked, until: gate))
            dispatcher.attach(store, priority: 1)
            return store
        }
        let store = try await family.with("a") { $0 }
        let other = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let closing = Task { try await family.close("a") }
        await isAsked.opened()
        #expect(dispatcher.add(1) == 2)
        gate.open()
        await #expect(throws: Desks.Refusal.self) { try await closing.value }
        #expect(store.state.count == 1 && other.state.count == 1)
        #expect(dispatcher.stores.map { $0.isOf(store) } == [true, false])
    }

    @Test func `A last change that cannot be saved brings its store back under its name`() async throws {
        let (dispatcher, unsaved) = (FluxDispatcher(), UnsavedAtLast())
        let family = FluxFamily(clock: desks.clock) { (key: String) in
            let store = FluxStore(dispatcher: nil, watchedBy: unsaved)
            try dispatcher.attach(store, as: key)
            return store
        }
        try await family.with("a") { _ in }
        await #expect(throws: Desks.Refusal.self) { try await family.close("a") }
        #expect(unsaved.asked.current >= 2)
        #expect(dispatcher.dispatch(action: Counter.Action.add(1), to: "a"))
    }

    @Test(arguments: [nil, "a"])
    func `A last change that cannot be saved brings its store back without a name, if it has none any more`(
        name: String?
    ) async throws {
        let (dispatcher, unsaved) = (FluxDispatcher(), UnsavedAtLast(until: Gate()))
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            let store = FluxStore(dispatcher: nil, watchedBy: unsaved)
            if let name { try dispatcher.attach(store, as: name) } else { dispatcher.attach(store) }
            return store
        }
        let store = try await family.with("a") { $0 }
        let closing = Task { try await family.close("a") }
        await unsaved.isAskedAgain.opened()
        let other = FluxStore(initialState: Counter(), dispatcher: nil)
        if let name { try dispatcher.attach(other, as: name) }
        unsaved.gate.open()
        await #expect(throws: Desks.Refusal.self) { try await closing.value }
        dispatcher.add(1)
        #expect(store.state.count == 1 && other.state.count == (name == nil ? 0 : 1))
    }

    @Test(arguments: [false, true])
    func `A last change that cannot be saved does not move a store that was attached meanwhile`(
        isDetached: Bool
    ) async throws {
        let (dispatcher, other, unsaved) = (FluxDispatcher(), FluxDispatcher(), UnsavedAtLast(until: Gate()))
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            FluxStore(dispatcher: dispatcher, watchedBy: unsaved)
        }
        let store = try await family.with("a") { $0 }
        let closing = Task { try await family.close("a") }
        await unsaved.isAskedAgain.opened()
        #expect(dispatcher.add(1) == 0)
        other.attach(store)
        if isDetached { other.detach(store) }
        unsaved.gate.open()
        await #expect(throws: Desks.Refusal.self) { try await closing.value }
        #expect(dispatcher.add(1) == 0 && other.add(1) == (isDetached ? 0 : 1))
    }

    /// An observer of a store that cannot save what comes after the first check.
    final class UnsavedAtLast: FluxStoreObserver {
        let asked = Locked(0)
        let isAskedAgain = Gate()
        let gate: Gate

        init(until gate: Gate = .open) { self.gate = gate }

        func failure() async -> (any Error)? {
            let asked = asked.withLock { asked in
                asked += 1
                return asked
            }
            if asked == 1 { return nil }
            isAskedAgain.open()
            await gate.opened()
            return Desks.Refusal()
        }
        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
    }

    @Test func `A store that cannot be saved stays where it was attached meanwhile`() async throws {
        let (dispatcher, other, isAsked, gate) = (FluxDispatcher(), FluxDispatcher(), Gate(), Gate())
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            FluxStore(dispatcher: dispatcher, watchedBy: Unsaved(isAsked: isAsked, until: gate))
        }
        let store = try await family.with("a") { $0 }
        let closing = Task { try await family.close("a") }
        await isAsked.opened()
        other.attach(store)
        gate.open()
        await #expect(throws: Desks.Refusal.self) { try await closing.value }
        #expect(other.add(1) == 1 && dispatcher.add(1) == 0)
    }

    @Test(.timeLimit(.minutes(1))) func `With no idle time, a store that cannot be saved is not retried at once`()
        async throws
    {
        let failures = Recorder<String>()
        let family = FluxFamily(idle: .zero, clock: desks.clock) { (key: String, _) in
            failures.record(key)
        } make: { (_: String) in
            FluxStore(dispatcher: nil, watchedBy: Unsaved())
        }
        try await family.with("a") { _ = $0.dispatch(action: .add(1)) }
        await desks.clock.sleepers(1)
        await failures.count(1)
        desks.clock.advance(by: .seconds(1))
        await failures.count(2)
    }

    @Test func `An evicted store gets no more actions from its dispatcher`() async throws {
        let (dispatcher, kept) = (FluxDispatcher(), Locked<FluxStore<Counter>?>(nil))
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            FluxStore(initialState: Counter(), dispatcher: dispatcher)
        }
        try await family.with("a") { store in kept.withLock { $0 = store } }
        try await family.close("a")
        #expect(dispatcher.add(1) == 0 && kept.current?.state.count == 0)
    }

    @Test(.timeLimit(.minutes(1))) func `A flush returns false while a store that can never be saved is being closed`()
        async throws
    {
        let lost = Lost()
        let family = FluxFamily(clock: desks.clock) { (_: String) in
            FluxStore(dispatcher: nil, watchedBy: lost)
        }
        let fate = try await family.with("a") { $0.handle.feature(FluxFamilyFate.self, FluxFamilyFate.init) }
        await #expect(throws: Desks.Refusal.self) { try await family.close("a") }
        while !fate.isLost { await Task.yield() }
        lost.gate.withLock { $0 = Gate() }
        let first = Task { await family.flush(within: .seconds(60)) }
        await lost.isFlushed.opened()
        let closing = Task { try await family.close("a") }
        while fate.enter() {
            fate.leave()
            await Task.yield()
        }
        #expect(await family.flush(within: .seconds(60)) == false)
        lost.gate.current.open()
        #expect(await first.value == false)
        await #expect(throws: Desks.Refusal.self) { try await closing.value }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [false, true])
    func `A store that can never be saved leaves its dispatcher, and the error of its save is reported`(
        isLetGo: Bool
    ) async throws {
        let (dispatcher, failures) = (FluxDispatcher(), Recorder<any Error>())
        var family: FluxFamily? = FluxFamily(clock: desks.clock) { (_: String, error) in
            failures.record(error)
        } make: { (_: String) in
            FluxStore(dispatcher: dispatcher, watchedBy: Unsaved())
        }
        let store = try await family!.with("a") { $0 }
        let fate = store.handle.feature(FluxFamilyFate.self, FluxFamilyFate.init)
        await #expect(throws: Desks.Refusal.self) { try await family!.close("a") }
        while !fate.isLost { await Task.yield() }
        #expect(dispatcher.add(1) == 1)
        if isLetGo { family = nil } else { try? await family!.close("a") }
        await failures.count(2)
        #expect(failures.values.allSatisfy { $0 is Desks.Refusal } && dispatcher.add(1) == 0)
        #expect(family?.keys.isEmpty != false)
    }

    /// An observer of a store that can never be saved; its flush waits for a gate.
    final class Lost: FluxStoreObserver {
        let gate = Locked(Gate.open)
        let isFlushed = Gate()

        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
        func flush() async {
            let gate = gate.current
            if !gate.isOpen { isFlushed.open() }
            await gate.opened()
        }
        func failure() async -> (any Error)? { Desks.Refusal() }
    }

    /// An observer of a store that can never be saved.
    final class Unsaved: FluxStoreObserver {
        let isAsked: Gate
        private let gate: Gate

        init(isAsked: Gate = Gate(), until gate: Gate = .open) {
            (self.isAsked, self.gate) = (isAsked, gate)
        }

        func failure() async -> (any Error)? {
            isAsked.open()
            await gate.opened()
            return Desks.Refusal()
        }
        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
    }

    @Test func `A key that is not equal to itself is refused`() async throws {
        let made = Recorder<Double>()
        let family = FluxFamily { (key: Double) in
            made.record(key)
            return FluxStore(initialState: Counter(), dispatcher: nil)
        }
        await #expect(throws: FluxFamilyError.unequalToItself(key: "nan")) { try await family.with(.nan) { _ in } }
        await #expect(throws: FluxFamilyError.unequalToItself(key: "nan")) { try await family.lease(.nan) }
        #expect("\(FluxFamilyError.unequalToItself(key: "nan"))".contains("\"nan\""))
        try await family.close(.nan)
        #expect(made.values.isEmpty && family.keys.isEmpty)
        #expect(await family.shutdown(within: .seconds(60)).failed.isEmpty)
    }

    @Test func `Negative durations and limits stop the program with a message`() async {
        let idle = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxFamily(idle: .seconds(-1)) { (_: Int) in FluxStore(initialState: Counter(), dispatcher: nil) }
        }
        #expect(idle.said.contains("FluxFamily: idle cannot be negative"))
        let limit = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxFamily(limit: -1) { (_: Int) in FluxStore(initialState: Counter(), dispatcher: nil) }
        }
        #expect(limit.said.contains("FluxFamily: limit cannot be negative"))
        let shutdown = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let family = FluxFamily { (_: Int) in FluxStore(initialState: Counter(), dispatcher: nil) }
            await family.shutdown(within: .seconds(-5))
        }
        #expect(shutdown.said.contains("FluxFamily: a duration cannot be negative (-5"))
    }

    @Test func `Reading keys in pure code stops the program, and the message names keys`() async {
        let keys = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let family = FluxFamily { (_: Int) in FluxStore(initialState: Counter(), dispatcher: nil) }
            FluxStore(initialState: Counter(), dispatcher: nil).handle.withAccess { _ in _ = family.keys }
        }
        #expect(keys.said.contains("keys of a FluxFamily was used inside FluxState.handle(action:)"))
    }

    // MARK: - Following

    @Test func `Each iterator gets every change in order, and ends when its task is cancelled`() async throws {
        let family = desks.family()
        let (first, second) = (Recorder<FluxFamilyChange<String>>(), Recorder<FluxFamilyChange<String>>())
        let started = Recorder<Bool>()
        let tasks = [first, second].map { recorder in
            Task {
                var iterator = family.changes.makeAsyncIterator()
                started.record(true)
                while let change = await iterator.next() { recorder.record(change) }
            }
        }
        await started.count(2)
        for key in ["a", "b"] { try await family.with(key) { _ in } }
        for key in ["a", "b"] { try await family.close(key) }
        for recorder in [first, second] {
            await recorder.count(4)
            #expect(recorder.values == [.opened("a"), .opened("b"), .closed("a"), .closed("b")])
        }
        for task in tasks { task.cancel() }
        for task in tasks { await task.value }
    }

    @Test func `A released iterator leaves nothing behind`() async {
        let family = desks.family()
        let intake: Weak
        do { intake = Weak(family.changes.makeAsyncIterator().intake) }
        #expect(await intake.isGone())
    }

    @Test(.timeLimit(.minutes(1))) func `The changes end after the last one, also for an iterator created later`()
        async throws
    {
        let family = desks.family()
        await family.shutdown(within: .seconds(1))
        for await change in family.changes { Issue.record("\(change)") }
        let intake = FluxFamilyIntake<String, Desk>()
        intake.put(.closed("a"))
        // Not settled yet: whoever waits only now would be woken by nothing.
        #expect(await intake.wait())
        intake.put(nil)
        // A change that arrived together with the end is taken first.
        #expect(await intake.wait() && intake.take() == .closed("a"))
        #expect(await !intake.wait())
    }

    @Test func `Two tasks that wait with one iterator stop the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let intake = FluxFamilyIntake<Int, Int>()
            async let first = intake.wait()
            async let second = intake.wait()
            _ = await (first, second)
        }
        #expect(result.said.contains("two tasks wait with one iterator"))
    }

    @Test func `A family is a source of its open members, and notifies before it closes one`() async throws {
        let family = desks.family()
        let seen = Recorder<[String]>()
        let token = family.subscribe { seen.record($0.keys.sorted()) }
        let gate = desks.block("close a")
        let told = Recorder<Bool>()
        let watching = family.watch { [desks] in
            told.record(desks.count("close a") == 0)
            return nil
        }
        let stamp = family.stamp
        for key in ["a", "b"] { try await family.with(key) { _ in } }
        #expect(family.state.keys.sorted() == ["a", "b"] && family.stamp == stamp + 2)
        #expect(family.capture(in: FluxCut())().keys.sorted() == ["a", "b"])
        let closing = Task { try await family.close("a") }
        await desks.seen.count(5)
        #expect(told.values == [true, true, true])
        gate.open()
        try await closing.value
        await family.flush()
        #expect(seen.values == [["a"], ["a", "b"], ["b"]])
        withExtendedLifetime((token, watching)) {}
    }
}

extension FluxStore<Counter> {
    /// Creates a store that is observed from the beginning.
    fileprivate convenience init(dispatcher: FluxDispatcher?, watchedBy observer: some FluxStoreObserver<Counter>) {
        self.init(initialState: Counter(), dispatcher: dispatcher) { handle in
            handle.withAccess { $0.observe(observer) }
        }
    }
}
