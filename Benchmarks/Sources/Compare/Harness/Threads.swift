import Dispatch
import Foundation
import Synchronization

/// Runs a task to its end from the main thread, which none of these tasks needs.
func blocking(_ body: @escaping @Sendable () async -> Void) {
    let done = DispatchSemaphore(value: 0)
    Task.detached {
        await body()
        done.signal()
    }
    done.wait()
}

/// Runs a closure on threads that start together; returns the time from the first start to the last end.
func onThreads(_ count: Int, _ body: @escaping @Sendable (_ thread: Int) -> Void) -> Duration {
    let race = Race()
    let clock = ContinuousClock()
    let ended = DispatchGroup()
    for index in 0..<count {
        ended.enter()
        let thread = Thread {
            race.ready.add(1, ordering: .sequentiallyConsistent)
            // Spins, because threads that are woken one after another would not overlap from the start.
            while race.ready.load(ordering: .acquiring) < count {}
            let start = clock.now
            body(index)
            race.record(start, clock.now)
            ended.leave()
        }
        thread.start()
    }
    ended.wait()
    return race.duration
}

private final class Race: Sendable {
    typealias Instant = ContinuousClock.Instant

    let ready = Atomic<Int>(0)
    private let span = Mutex<(start: Instant, end: Instant)?>(nil)

    var duration: Duration { span.withLock { $0.map { $0.start.duration(to: $0.end) } ?? .zero } }

    func record(_ start: Instant, _ end: Instant) {
        span.withLock { $0 = (min($0?.start ?? start, start), max($0?.end ?? end, end)) }
    }
}
