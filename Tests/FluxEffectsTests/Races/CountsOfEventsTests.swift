import FluxCore
import FluxEffects
import Foundation
import TestSupport
import Testing

/// The counts of events, read at the worst moments.
@Suite struct CountsOfEventsTests {
    typealias Rule = FluxRule<WorkConverter.Event>

    func creator(
        _ rules: [Rule], _ site: WorkConverter.Site = .init(),
        onFailure: (@Sendable (any Error, WorkConverter.Event) -> Void)? = { _, _ in }
    ) -> FluxActionCreator<WorkConverter> {
        FluxActionCreator(
            dependency: site, store: FluxStore(initialState: Log(), dispatcher: nil), rules: rules,
            clock: TestClock(), onFailure: onFailure)
    }

    @Test(.stress, arguments: [[], [Rule.unique(cancelling: .earlier) { $0.number % 2 }], [.sequence { _ in 1 }]])
    func `Stress: when a shutdown returns, every event has been counted once`(rules: [Rule]) async {
        for _ in 0..<1_000 {
            let creator = creator(rules)
            for number in 0..<4 { creator.fire(number == 1 ? .fail(number) : .add(number)) }
            let counts = await creator.shutdown(within: .seconds(1_000))
            let sum = counts.completed + counts.failed + counts.cancelled + counts.dropped
            if sum != 4 { Issue.record("\(sum) of 4") }
        }
    }

    @Test(.stress, arguments: [[], [Rule.concurrency(2), .unique(cancelling: .later) { $0.number % 7 }]])
    func `Stress: events fired and cancelled during a shutdown are counted once each`(rules: [Rule]) async {
        let creator = creator(rules)
        let tasks = Locked<[FluxTask]>([])
        let isUnderWay = Gate()
        async let load: Void = onThreads(3) { thread in
            for number in 0..<1_000 {
                if thread == 2 {
                    creator.cancelAll()
                    sched_yield()
                    continue
                }
                if number == 300 { isUnderWay.open() }
                let task = creator.fire(number % 9 == 3 ? .fail(number) : .add(number))
                if number % 5 == 0 { task.cancel() }
                tasks.withLock { $0.append(task) }
            }
        }
        await isUnderWay.opened()
        let early = await creator.shutdown(within: .zero)
        await load
        // Outcomes first: an event that was about to apply an action at the deadline is unfinished until it ends.
        var names: [String: Int] = [:]
        for task in tasks.current { names[await task.outcome.name, default: 0] += 1 }
        let counts = await creator.shutdown(within: .zero)
        #expect(counts.unfinished == 0)
        #expect(
            counts.completed + counts.failed + counts.cancelled == early.completed + early.failed + early.cancelled
                + early.unfinished)
        #expect(names["completed", default: 0] == counts.completed)
        #expect(names["failed", default: 0] == counts.failed)
        #expect(names["cancelled", default: 0] == counts.cancelled)
        #expect(names["dropped", default: 0] == counts.dropped)
        #expect(counts.completed + counts.failed + counts.cancelled + counts.dropped == 2_000)
    }

    @Test(.stress) func `Stress: once a flush or an outcome has returned, the event is no longer in flight`() async {
        let creator = creator([])
        for number in 0..<3_000 {
            let task = creator.fire(.add(number))
            if number.isMultiple(of: 2) { await creator.flush() } else { _ = await task.outcome }
            let left = creator.inFlight
            if left != 0 { Issue.record("\(left) in flight") }
        }
    }

    @Test(.stress, arguments: [[], [Rule.retry(for: { _ in 1 }, limit: 2)]])
    func `Stress: each failure is reported once, and no cancelled event reports one`(rules: [Rule]) async {
        let told = Recorder<Int>()
        let creator = creator(rules, onFailure: { told.record($1.number) })
        let tasks = Locked<[Int: FluxTask]>([:])
        await onThreads(2) { thread in
            for number in (0..<1_000).map({ 1 + $0 * 2 + thread }) {
                let task = creator.fire(.fail(number))
                if number % 3 == 0 { sched_yield() }
                if number % 2 == 0 { task.cancel() }
                tasks.withLock { $0[number] = task }
            }
        }
        await creator.flush()
        var failed: [Int] = []
        for (number, task) in tasks.current where await task.outcome.name == "failed" { failed.append(number) }
        await told.count(failed.count)
        #expect(told.values.sorted() == failed.sorted())
    }

    @Test func `An event that a rule ends during its backoff reports no failure`() async {
        let (clock, told) = (TestClock(), Recorder<Int>())
        let site = WorkConverter.Site()
        let creator = FluxActionCreator<WorkConverter>(
            dependency: site, store: FluxStore(initialState: Log(), dispatcher: nil),
            rules: [
                .unique(cancelling: .earlier) { _ in 1 },
                .retry(for: { _ in 1 }, limit: 1, backoff: .constant(.seconds(1))),
            ], clock: clock
        ) { told.record($1.number) }
        let first = creator.fire(.fail(1))
        await clock.sleepers(1)
        let second = creator.fire(.add(2))
        #expect(await first.outcome.name == "cancelled")
        #expect(await second.outcome.name == "completed")
        clock.advance(by: .seconds(5))
        await creator.flush()
        #expect(told.values.isEmpty)
        #expect(site.attempts.values == [1])
    }
}
