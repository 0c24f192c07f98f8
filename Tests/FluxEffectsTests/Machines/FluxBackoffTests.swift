import FluxCore
import TestSupport
import Testing

@testable import FluxEffects

/// The delay before the next attempt, and the values that are refused.
@Suite struct FluxBackoffTests {
    @Test(arguments: [1, 2, 10_000, .max]) func `A backoff without growth always gives the same delay`(attempt: Int) {
        #expect(FluxBackoff.none.delay(after: attempt, chance: 0.5) == .zero)
        let odd = Duration(secondsComponent: 123_456_789_123, attosecondsComponent: 123_456_789_123_456_789)
        #expect(FluxBackoff.constant(odd).delay(after: attempt, chance: 0.5) == odd, "to the last digit")
        #expect(FluxBackoff.exponential(.zero).delay(after: attempt, chance: 0.5) == .zero)
        #expect(FluxBackoff.exponential(.seconds(1), factor: 1).delay(after: attempt, chance: 0.5) == .seconds(1))
    }

    @Test(arguments: zip([0, 1, 2, 3, 4, 5, 6, 7, 8], [1, 1, 2, 4, 8, 16, 32, 60, 60]))
    func `An exponential delay doubles up to the maximum`(attempt: Int, seconds: Int) {
        #expect(FluxBackoff.exponential(.seconds(1)).delay(after: attempt, chance: 1) == .seconds(seconds))
    }

    @Test(arguments: zip([1, 2, 3, 4], [100, 300, 900, 1000]))
    func `An exponential delay grows by its factor`(attempt: Int, millis: Int) {
        let backoff = FluxBackoff.exponential(.milliseconds(100), factor: 3, max: .seconds(1))
        #expect(backoff.delay(after: attempt, chance: 0) == .milliseconds(millis))
    }

    @Test(arguments: [1 + .ulpOfOne, 1.0000001, 2, 1e9, 1e30, 1e300, .infinity])
    func `Delays do not overflow, shrink or exceed the maximum, for any number of attempts`(factor: Double) {
        for most in [Duration.seconds(60), .seconds(Int64.max)] {
            let backoff = FluxBackoff.exponential(.seconds(1), factor: factor, max: most)
            var last = Duration.zero
            for attempt in [1, 2, 3, 4, 100, 10_000, .max] {
                let delay = backoff.delay(after: attempt, chance: 1)
                #expect(delay >= last && delay <= most)
                last = delay
            }
            if factor >= 2 { #expect(last == most) }
        }
    }

    @Test(arguments: [0, 0.25, 0.5, 1]) func `Jitter shortens a delay by at most its fraction`(jitter: Double) {
        let backoff = FluxBackoff.exponential(.seconds(8), max: .seconds(64), jitter: jitter)
        for attempt in 1...6 {
            let whole = Duration.seconds(8 << min(attempt - 1, 3))
            #expect(backoff.delay(after: attempt, chance: 0) == whole)
            #expect(backoff.delay(after: attempt, chance: 1) == whole * (1 - jitter))
            #expect(backoff.delay(after: attempt, chance: 0.5) == whole * (1 - jitter / 2))
        }
    }

    @Test func `The longest possible delay can have jitter`() {
        let backoff = FluxBackoff.exponential(.seconds(1), max: Duration(attoseconds: .max), jitter: 1)
        #expect(backoff.delay(after: 1_000, chance: 0) >= .seconds(Int64.max / 2))
        #expect(backoff.delay(after: 1_000, chance: 1) == .zero)
    }

    // MARK: - Misuse

    @Test func `A negative delay is refused`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxBackoff.constant(.seconds(-1))
        }
        expect(result, names: "FluxBackoff: a delay cannot be negative (-1.0 seconds)")
    }

    @Test func `A factor below one is refused`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxBackoff.exponential(.seconds(1), factor: 0.5)
        }
        expect(result, names: "FluxBackoff: a factor below 1 would shorten the delays (0.5). Give 1 or more.")
    }

    @Test func `A maximum below the first delay is refused`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxBackoff.exponential(.seconds(2), max: .seconds(1))
        }
        expect(result, names: "FluxBackoff: the maximum is shorter than the first delay (1.0 seconds, 2.0 seconds)")
    }

    @Test func `Jitter out of its range is refused`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxBackoff.exponential(.seconds(1), jitter: 1.5)
        }
        expect(result, names: "FluxBackoff: jitter must be from 0 to 1 (1.5)")
    }

    @Test func `The default maximum is one minute, or the first delay if that is longer`() {
        #expect(FluxBackoff.exponential(.seconds(1)).delay(after: 20, chance: 0) == .seconds(60))
        #expect(FluxBackoff.exponential(.seconds(120)).delay(after: 20, chance: 0) == .seconds(120))
    }

    @Test func `Negative durations of a rule are refused`() async {
        let debounce = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxRule<Named>.debounce(for: Named.letter, .seconds(-1))
        }
        expect(debounce, names: "FluxRule.debounce: a duration cannot be negative (-1.0 seconds)")
        let throttle = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxRule<Named>.throttle(for: Named.letter, .seconds(-2), latest: true)
        }
        expect(throttle, names: "FluxRule.throttle: an interval cannot be negative (-2.0 seconds)")
    }

    @Test func `Limits that make no sense are refused`() async {
        let concurrency = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxRule<Named>.concurrency(0)
        }
        expect(concurrency, names: "FluxRule.concurrency: with a limit of 0 no event could ever run")
        let shared = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxLimit(-1)
        }
        expect(shared, names: "FluxLimit: with a limit of -1 no event could ever run")
        let waiting = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxRule<Named>.concurrency(1, waiting: -2)
        }
        expect(waiting, names: "FluxRule.concurrency: -2 events cannot wait")
        let retry = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxRule<Named>.retry(for: Named.letter, limit: -1)
        }
        expect(retry, names: "FluxRule.retry: a limit cannot be negative (-1)")
    }

    private func expect(_ result: ExitTest.Result?, names message: String) {
        let text = result.said
        #expect(text.contains(message), "\(text)")
    }
}
