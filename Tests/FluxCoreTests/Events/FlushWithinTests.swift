import Dispatch
import FluxCore
import TestSupport
import Testing

/// A flush with a time limit returns whether everything was done.
@Suite struct FlushWithinTests {
    let store = FluxStore(initialState: Counter(), dispatcher: nil)

    /// Reports a failure, as a persistence does if it cannot save.
    final class Failing: FluxStoreObserver {
        struct Full: Error {}
        func failure() async -> (any Error)? { Full() }
        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
    }

    /// Never finishes its flush.
    final class Endless: FluxStoreObserver {
        func applied(_ change: FluxChange<Counter>, _ state: Counter, revision: UInt64?) -> (any FluxSettling)? { nil }
        func flush() async { await FluxLatch().wait() }
    }

    @Test func `flush of a store with nothing pending returns true within zero seconds`() async {
        for _ in 0..<100 { #expect(await store.flush(within: .zero)) }
    }

    @Test func `flush of a store returns true once its pending changes have been delivered`() async {
        let seen = Recorder<Int>()
        let token = store.subscribe { seen.record($0.count) }
        store.dispatch(action: .add(1))
        #expect(await store.flush(within: .seconds(60)))
        #expect(seen.values == [1])
        token.unsubscribe()
    }

    @Test func `flush of a store returns false if a handler is still blocked when the time is over`() async {
        let (clock, blocked) = (TestClock(), DispatchSemaphore(value: 0))
        let token = store.subscribe { _ in blocked.wait() }
        store.dispatch(action: .add(1))
        let flushing = Task { [store] in await store.flush(within: .seconds(5), clock: clock) }
        await clock.sleepers(1)
        clock.advance(by: .seconds(5))
        #expect(await flushing.value == false)
        blocked.signal()
        await store.flush()
        token.unsubscribe()
    }

    @Test func `flush of a store returns false if an observer has failed or never finishes`() async {
        store.handle.withAccess { $0.observe(Failing()) }
        #expect(await store.flush(within: .seconds(60)) == false)
        #expect(await store.handle.failure() is Failing.Full)
        let other = FluxStore(initialState: Counter(), dispatcher: nil)
        other.handle.withAccess { $0.observe(Endless()) }
        #expect(await other.flush(within: .zero) == false)
    }

    @Test func `flush of a store returns false if its task is cancelled`() async {
        store.handle.withAccess { $0.observe(Endless()) }
        let flushing = Task { [store] in await store.flush(within: .seconds(60)) }
        flushing.cancel()
        #expect(await flushing.value == false)
    }

    @Test func `flush of a creator returns true once its events have ended, and false before`() async {
        let (creator, clock) = creator()
        #expect(await creator.flush(within: .zero))
        let hold = HandlerHold<Counter.Action>()
        creator.fire(.hold(hold))
        await hold.isKept.opened()
        let flushing = Task { await creator.flush(within: .seconds(5)) }
        await clock.sleepers(1)
        clock.advance(by: .seconds(5))
        #expect(await flushing.value == false)
        #expect(creator.inFlight == 1, "nothing is cancelled")
        hold.letGo()
        #expect(await creator.flush(within: .seconds(60)))
    }

    @Test func `flush of a creator returns false if only its newest event has ended`() async {
        let (creator, clock) = creator()
        let holds = (0..<2).map { _ in HandlerHold<Counter.Action>() }
        let tasks = holds.map { creator.fire(.hold($0)) }
        for hold in holds { await hold.isKept.opened() }
        let flushing = Task { await creator.flush(within: .seconds(5)) }
        await clock.sleepers(1)
        // By now it waits for the newest event; if it began later, it would find only the other one.
        for _ in 0..<1_000 { await Task.yield() }
        holds[1].letGo()
        _ = await tasks[1].outcome
        clock.advance(by: .seconds(5))
        #expect(await flushing.value == false)
        holds[0].letGo()
    }

    /// Wakes a sleeper only when its task is cancelled.
    final class EndlessClock: Clock {
        let woken = Gate()
        let now = ContinuousClock().now
        var minimumResolution: Duration { .nanoseconds(1) }

        func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
            await FluxLatch().wait()
            woken.open()
        }
    }

    @Test func `flush cancels its sleep once everything is done`() async {
        let clock = EndlessClock()
        let creator = FluxActionCreator<CounterConverter>(store: store, clock: clock)
        #expect(await creator.flush(within: .seconds(60)))
        await clock.woken.opened()
    }

    private func creator() -> (FluxActionCreator<CounterConverter>, TestClock) {
        let clock = TestClock()
        return (FluxActionCreator<CounterConverter>(store: store, clock: clock), clock)
    }
}
