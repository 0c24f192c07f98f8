import FluxCore
import FluxPersistence
import FluxTesting
import TestSupport
import Testing

/// The clock that users test with: it stands still, and it lets nobody sleep who is not to.
@Suite struct FluxTestClockTests {
    let clock = FluxTestClock()

    @Test func `It stands still until it is moved, and wakes those whose moment has come in order`() async throws {
        let woken = FluxRecorder<Int>()
        let sleeping = (1...3).map { seconds in
            Task {
                try await clock.sleep(for: .seconds(seconds))
                woken.record(seconds)
            }
        }
        await clock.sleepers(3)
        clock.advance(by: .milliseconds(999))
        #expect(woken.elements.isEmpty && clock.now.offset == .milliseconds(999))
        clock.advance(by: .milliseconds(1))
        await woken.count(1)
        #expect(woken.elements == [1])
        clock.advance(by: .seconds(5))
        for task in sleeping { try await task.value }
        #expect(woken.elements.sorted() == [1, 2, 3])
    }

    @Test func `A moment that has come is not slept for`() async throws {
        clock.advance(by: .seconds(1))
        try await clock.sleep(until: clock.now, tolerance: nil)
        try await clock.sleep(for: .zero)
    }

    @Test func `Whoever is cancelled sleeps no longer, before or while asleep`() async {
        let early = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await clock.sleep(for: .seconds(1))
        }
        await #expect(throws: CancellationError.self) { try await early.value }
        let late = Task { try await clock.sleep(for: .seconds(1)) }
        await clock.sleepers(1)
        late.cancel()
        await #expect(throws: CancellationError.self) { try await late.value }
        // Nobody sleeps, so that this waits until it is cancelled.
        let waiting = Task { await clock.sleepers(1) }
        waiting.cancel()
        await waiting.value
    }

    @Test func `It measures the patience of a store`() async {
        let (persistence, gate) = (MemoryPersistence<Counter>(), Gate())
        persistence.script.block(until: gate)
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence, loadTimeout: .seconds(5), clock: clock,
            onFailure: { _ in })
        await clock.sleepers(1)
        clock.advance(by: .seconds(5))
        guard case .timedOut = await store.ready else {
            Issue.record("it should have given up")
            return
        }
        gate.open()
    }
}
