import Foundation
import TestSupport
import Testing

@testable import FluxCore

/// The counts of events, read at the worst moments.
@Suite struct CountsOfEventsTests {
    func creator(
        _ isScheduled: Bool, _ site: WorkConverter.Site = .init(),
        onFailure: (@Sendable (any Error, WorkConverter.Event) -> Void)? = { _, _ in }
    ) -> FluxActionCreator<WorkConverter> {
        FluxActionCreator(
            dependency: site, store: FluxStore(initialState: Log(), dispatcher: nil),
            schedulers: isScheduled ? [Scheduling()] : [], clock: TestClock(), onFailure: onFailure)
    }

    @Test(.stress, arguments: [false, true])
    func `Stress: a shutdown returns an account that counts every event once`(isScheduled: Bool) async {
        for _ in 0..<1_000 {
            let creator = creator(isScheduled)
            for number in 0..<4 { creator.fire(number == 1 ? .fail(number) : .add(number)) }
            let counts = await creator.shutdown(within: .seconds(1_000))
            let sum = counts.completed + counts.failed + counts.cancelled + counts.dropped
            if sum != 4 { Issue.record("\(sum) of 4") }
        }
    }

    @Test(.stress, arguments: [false, true])
    func `Stress: events fired during cancelAll and a shutdown are each counted once`(isScheduled: Bool) async {
        let creator = creator(isScheduled)
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
        await creator.flush()
        let counts = await creator.shutdown(within: .zero)
        // The unfinished events have ended since, in some way, and no others have.
        #expect(counts.completed >= early.completed && counts.failed >= early.failed)
        let ended = [early, counts].map { $0.completed + $0.failed + $0.cancelled }
        #expect(ended[1] == ended[0] + early.unfinished && counts.unfinished == 0)
        var names: [String: Int] = [:]
        for task in tasks.current { names[await task.outcome.name, default: 0] += 1 }
        #expect(names["completed", default: 0] == counts.completed && names["failed", default: 0] == counts.failed)
        #expect(names["cancelled", default: 0] == counts.cancelled)
        #expect(names["dropped", default: 0] == counts.dropped)
        #expect(counts.completed + counts.failed + counts.cancelled + counts.dropped == 2_000)
    }

    @Test(.stress) func `Stress: an event is no longer in flight once flush or outcome has returned`() async {
        let creator = creator(false)
        for number in 0..<3_000 {
            let task = creator.fire(.add(number))
            if number.isMultiple(of: 2) { await creator.flush() } else { _ = await task.outcome }
            let left = creator.inFlight
            if left != 0 { Issue.record("\(left) in flight") }
        }
    }

    @Test(.stress, arguments: [false, true])
    func `Stress: onFailure is called once per failed event and never for a cancelled one`(isScheduled: Bool) async {
        let told = Recorder<Int>()
        let creator = creator(isScheduled, onFailure: { told.record($1.number) })
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
}
