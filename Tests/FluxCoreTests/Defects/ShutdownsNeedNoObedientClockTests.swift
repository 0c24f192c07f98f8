import FluxCore
import TestSupport
import Testing

/// A shutdown returns as soon as all events have ended, even if its clock ignores the cancellation of a sleep.
///
/// The `Clock` protocol does not forbid that, and clocks that wrap a timer do it. If a shutdown hangs, the time limit
/// ends it: the clock then wakes all sleepers, and the test fails.
@Suite(.timeLimit(.minutes(1))) struct ShutdownsNeedNoObedientClockTests {
    /// A clock whose sleepers wake only when the test says so, whether cancelled or not.
    final class DeafClock: Clock {
        private let gate = Gate()
        let slept = Recorder<Bool>()
        /// Whether the sleepers have been woken; before `result` returns, only the time limit wakes them.
        var isGivenUp: Bool { gate.isOpen }

        var now: ContinuousClock.Instant { origin }
        var minimumResolution: Duration { .nanoseconds(1) }
        private let origin = ContinuousClock().now

        func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
            slept.record(true)
            await gate.opened()
        }

        func giveUp() {
            gate.open()
        }
    }

    /// Returns the result of a call, or nil if the time limit had to wake the sleepers.
    private func result<Value: Sendable>(_ clock: DeafClock, _ body: @escaping @Sendable () async -> Value) async
        -> Value?
    {
        let value = await withTaskCancellationHandler {
            await Task { await body() }.value
        } onCancel: {
            clock.giveUp()
        }
        // Wakes the remaining sleepers, which are no longer needed and would be reported as having waited too long.
        defer { clock.giveUp() }
        return clock.isGivenUp ? nil : value
    }

    private func creator(
        _ clock: DeafClock, _ site: WorkConverter.Site
    ) -> FluxActionCreator<WorkConverter> {
        FluxActionCreator(
            dependency: site, store: FluxStore(initialState: Counter(), dispatcher: nil), clock: clock)
    }

    @Test func `A shutdown with nothing in flight returns at once`() async {
        let clock = DeafClock()
        let creator = creator(clock, .init())
        let account = await result(clock) { await creator.shutdown(within: .seconds(3_600)) }
        #expect(account?.completed == 0 && account?.cancelled == 0 && account?.dropped == 0)
    }

    @Test func `A shutdown with events in flight returns once they have ended`() async {
        let (clock, site) = (DeafClock(), WorkConverter.Site { $0 == 1 })
        let creator = creator(clock, site)
        creator.fire([.add(1), .add(2)])
        await site.started.count(2)
        let account = await result(clock) {
            async let account = creator.shutdown(within: .seconds(3_600))
            // By now it waits, or has not yet begun to wait; it returns either way.
            site.gate(1).open()
            return await account
        }
        #expect(account?.completed == 2)
    }

    @Test func `A shutdown that sleeps before the events end returns once they have ended`() async {
        let (clock, site) = (DeafClock(), WorkConverter.Site { _ in true })
        let creator = creator(clock, site)
        creator.fire(.add(1))
        await site.started.count(1)
        let account = await result(clock) {
            async let account = creator.shutdown(within: .seconds(3_600))
            await clock.slept.count(1)
            site.gate(1).open()
            return await account
        }
        #expect(account?.completed == 1)
    }

    @Test func `A shutdown whose own task is cancelled cancels the events and returns`() async {
        let (clock, site) = (DeafClock(), WorkConverter.Site { _ in true })
        let creator = creator(clock, site)
        let task = creator.fire(.add(1))
        await site.started.count(1)
        let account = await result(clock) {
            let shutdown = Task { await creator.shutdown(within: .seconds(3_600)) }
            await clock.slept.count(1)
            shutdown.cancel()
            return await shutdown.value
        }
        #expect(account != nil && task.isCancelled)
        site.gate(1).open()
    }
}
