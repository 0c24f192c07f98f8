import FluxCore
import FluxEffects
import FluxPersistence
import FluxTesting
import TestSupport
import Testing

/// The clock that users test with: it stands still, and no task sleeps on it longer than it should.
@Suite struct FluxTestClockTests {
    let clock = FluxTestClock()

    @Test func `The clock stands still until it is advanced, and then wakes the sleepers that are due`() async throws {
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

    @Test func `A sleep until a moment that has come returns at once`() async throws {
        clock.advance(by: .seconds(1))
        clock.advance(by: .zero)
        try await clock.sleep(until: clock.now, tolerance: nil)
        try await clock.sleep(for: .zero)
    }

    @Test func `A task that is cancelled before or during its sleep sleeps no longer`() async {
        let early = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await clock.sleep(for: .seconds(1))
        }
        await #expect(throws: CancellationError.self) { try await early.value }
        let late = Task { try await clock.sleep(for: .seconds(1)) }
        await clock.sleepers(1)
        late.cancel()
        await #expect(throws: CancellationError.self) { try await late.value }
        // No task sleeps, so this waits until it is cancelled.
        let waiting = Task { await clock.sleepers(1) }
        waiting.cancel()
        await waiting.value
    }

    @Test func `A cancelled sleeper is no longer counted, even before its task resumes`() async {
        for _ in 0..<100 {
            let sleeping = Task { try await clock.sleep(for: .seconds(1)) }
            await clock.sleepers(1)
            sleeping.cancel()
            // The cancelled sleeper is not counted any more.
            let waiting = Task { await clock.sleepers(1) }
            clock.advance(by: .seconds(1))
            await #expect(throws: CancellationError.self) { try await sleeping.value }
            let next = Task { try await clock.sleep(for: .seconds(1)) }
            await waiting.value
            clock.advance(by: .seconds(1))
            await #expect(throws: Never.self) { try await next.value }
        }
    }

    @Test func `A wait for sleepers ends even if they have resumed before the waiting task does`() async {
        for _ in 0..<200 {
            let waiting = Task { try await clock.sleepers(2, within: .seconds(300)) }
            let sleeping = (0..<2).map { _ in Task { try await clock.sleep(for: .seconds(1)) } }
            await clock.sleepers(2)
            clock.advance(by: .seconds(1))
            for task in sleeping { _ = await task.result }
            // The waiting task may have begun to wait only now.
            let again = (0..<2).map { _ in Task { try await clock.sleep(for: .seconds(1)) } }
            await #expect(throws: Never.self) { try await waiting.value }
            again.forEach { $0.cancel() }
        }
    }

    @Test func `A woken sleeper that is cancelled before it resumes does not throw`() async throws {
        for _ in 0..<100 {
            let sleeping = Task { try await clock.sleep(for: .seconds(1)) }
            await clock.sleepers(1)
            clock.advance(by: .seconds(1))
            sleeping.cancel()
            try await sleeping.value
        }
    }

    @Test func `A sleeper woken and cancelled at once resumes once, and none is left behind`() async {
        for _ in 0..<100 {
            let (clock, ends) = (FluxTestClock(), FluxRecorder<Bool>())
            let sleeping = (0..<4).map { _ in
                Task {
                    do {
                        try await clock.sleep(for: .seconds(1))
                        ends.record(true)
                    } catch { ends.record(false) }
                }
            }
            await clock.sleepers(4)
            await onThreads(2) { index in
                if index == 0 { clock.advance(by: .seconds(1)) } else { sleeping.forEach { $0.cancel() } }
            }
            for task in sleeping { await task.value }
            #expect(ends.elements.count == 4)
            // A cancelled task sleeps no longer, so the next one is the only sleeper.
            let next = Task { try await clock.sleep(for: .seconds(1)) }
            await clock.sleepers(1)
            clock.advance(by: .seconds(1))
            await #expect(throws: Never.self) { try await next.value }
        }
    }

    @Test func `One advance ends one of several consecutive sleeps, however far it goes`() async throws {
        let woken = FluxRecorder<Int>()
        let row = Task { [clock] in
            for link in 1...3 {
                try await clock.sleep(for: .seconds(1))
                woken.record(link)
            }
        }
        for (link, seconds) in [10, 1, 1].enumerated() {
            await clock.sleepers(1)
            #expect(woken.elements.count == link)
            clock.advance(by: .seconds(seconds))
        }
        try await row.value
        #expect(clock.now.offset == .seconds(12))
    }

    @Test func `A test steps through the attempts of an event, as the article shows`() async {
        let site = WorkConverter.Site()
        let creator = FluxActionCreator<WorkConverter>(
            dependency: site, store: FluxStore(initialState: Log(), dispatcher: nil),
            rules: [.retry(limit: 3, backoff: .constant(.seconds(1)))], clock: clock)
        let task = creator.fire(.fail(1))
        for attempts in 1...3 {
            await clock.sleepers(1)
            #expect(site.attempts.values.count == attempts)
            clock.advance(by: .seconds(1))
        }
        #expect(await task.outcome.name == "failed")
    }

    @Test func `Moving the clock back stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            FluxTestClock().advance(by: .seconds(-3))
        }
        let message = result.said
        #expect(message.contains("FluxTestClock.advance: a clock cannot go backwards (-3.0 seconds)"), "\(message)")
    }

    /// In its own process and by its processor time, so that nothing else that runs counts.
    @Test(.stress) func `The cost of cancelling a sleeper does not grow with the number of sleepers`() async {
        await #expect(processExitsWith: .success) {
            @Sendable func cost(of count: Int) async -> Int {
                let clock = FluxTestClock()
                let sleeping = (0..<count).map { _ in Task { try await clock.sleep(for: .seconds(1)) } }
                await clock.sleepers(count)
                let before = processorTime()
                for task in sleeping { task.cancel() }
                for task in sleeping { _ = await task.result }
                return processorTime() - before
            }
            _ = await cost(of: 2_000)
            let (few, many) = (await cost(of: 2_000), await cost(of: 16_000))
            guard many < 24 * few else { fatalError("\(few) for 2,000, \(many) for 16,000") }
        }
    }

    @Test func `The clock measures the load timeout of a store`() async {
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
