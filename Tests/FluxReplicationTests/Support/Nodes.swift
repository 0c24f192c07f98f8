import FluxCore
import FluxObservation
import FluxReplication
import FluxTesting

/// Joins a log as a node of a program of some version; nothing waits except for what the test does.
func join(
    _ log: any FluxSharedLog<[UInt8]>, initialState: Journal = Journal(), version: Int = 1, checkEvery: Int = 1_000,
    snapshotEvery: Int = 1_000, backoff: FluxBackoff = .none,
    clock: any Clock<Duration> = ContinuousClock()
) async throws -> FluxReplica<Journal> {
    try await FluxReplica.joined(
        log: log, initialState: initialState, coding: .journal(version: version), checkEvery: checkEvery,
        snapshotEvery: snapshotEvery, backoff: backoff, clock: clock)
}

extension FluxReplica<Journal> {
    var lines: [Journal.Action] { store.state.lines }

    /// Waits until the replica is in a condition, or the task is cancelled.
    @discardableResult func reaches(
        _ condition: (FluxReplicaStatus.Condition) -> Bool
    ) async -> FluxReplicaStatus.Condition? {
        for await status in status.states where condition(status.condition) { return status.condition }
        return nil
    }
}

/// The error that a body throws; nil if it throws none.
func failure(of body: () async throws -> UInt64) async -> FluxReplicaError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? FluxReplicaError
    }
}

/// A result that a test did not expect.
struct Unexpected: Error { var it: String }

/// A clock that is advanced by hand, and counts the sleeps.
final class CountingClock: Clock {
    let base = FluxTestClock()
    let sleeps = FluxLock(0)

    var now: FluxTestClock.Instant { base.now }
    var minimumResolution: Duration { base.minimumResolution }

    func sleep(until deadline: FluxTestClock.Instant, tolerance: Duration?) async throws {
        sleeps.withLock { $0 += 1 }
        try await base.sleep(until: deadline, tolerance: tolerance)
    }
}

/// A clock that skips sleeps of less than 20 seconds, and records how long they would have been.
final class BriskClock: Clock {
    let base = FluxTestClock()
    let pauses = FluxLock<[Duration]>([])

    var now: FluxTestClock.Instant { base.now }
    var minimumResolution: Duration { base.minimumResolution }

    func sleep(until deadline: FluxTestClock.Instant, tolerance: Duration?) async throws {
        if deadline.offset >= .seconds(20) { return try await base.sleep(until: deadline, tolerance: tolerance) }
        pauses.withLock { $0.append(deadline.offset) }
        await Task.yield()
    }

    /// The number of skipped sleeps of this length.
    func count(_ seconds: Int) -> Int { pauses.withLock { $0.count { $0 == .seconds(seconds) } } }
}

/// A clock whose sleepers sleep until they are woken, cancelled or not.
final class DeafClock: Clock {
    private let latches = FluxLock<[FluxLatch]>([])

    var asleep: Int { latches.withLock { $0.count } }
    var now: ContinuousClock.Instant { .now }
    var minimumResolution: Duration { .zero }

    func sleep(until deadline: ContinuousClock.Instant, tolerance: Duration?) async throws {
        let latch = FluxLatch()
        latches.withLock { $0.append(latch) }
        await Task.detached { await latch.wait() }.value
    }

    func wake() { for latch in latches.withLock({ $0 }) { latch.open() } }
}
