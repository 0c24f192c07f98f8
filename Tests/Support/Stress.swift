import Foundation
import Testing

/// Runs one stress test or blocking test at a time, with only small tests beside it.
///
/// Run together, stress tests would take just as long and make each other wait, until a guard against a hang mistakes
/// that for one. A time limit would include the wait for the turn, so the guard is in here.
///
/// The test and its child tasks run on separate threads. The pool has one thread per core, and a test that dispatches
/// in a loop on each of them would keep every other test from running.
public struct StressTrait: TestTrait, TestScoping {
    /// Runs a test when its turn comes.
    public func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        await Turns.all.take()
        let limit = DispatchWorkItem { fatalError("\(test.name) has not ended after five minutes") }
        DispatchQueue.global().asyncAfter(deadline: .now() + 300, execute: limit)
        defer { limit.cancel() }
        do {
            try await withTaskExecutorPreference(StressThreads.all) { try await function() }
            Turns.all.giveBack()
        } catch {
            Turns.all.giveBack()
            throw error
        }
    }
}

extension Trait where Self == StressTrait {
    /// The trait of a stress test, which waits for its turn.
    public static var stress: Self { StressTrait() }
    /// The trait of a test that blocks a thread of Swift's pool and needs another one; it waits for its turn too.
    ///
    /// The pool has one thread per core: on two cores, two such tests at once would wait for each other.
    public static var blocking: Self { StressTrait() }
}

/// The queue of stress tests that wait for their turn, first come first served, across all suites of the process.
private final class Turns: @unchecked Sendable {
    static let all = Turns()

    private let lock = NSLock()
    private var isTaken = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    func take() async {
        await withCheckedContinuation { continuation in
            let isFree = lock.withLock {
                if isTaken { waiting.append(continuation) }
                defer { isTaken = true }
                return !isTaken
            }
            if isFree { continuation.resume() }
        }
        // Shows ThreadSanitizer that everything before the call of `giveBack` happened first.
        lock.withLock {}
    }

    func giveBack() {
        let next = lock.withLock {
            if waiting.isEmpty { isTaken = false }
            return waiting.isEmpty ? nil : waiting.removeFirst()
        }
        next?.resume()
    }
}

/// Threads outside the pool that run jobs first come first served.
private final class StressThreads: TaskExecutor {
    static let all = StressThreads(ProcessInfo.processInfo.activeProcessorCount + 1)

    private let due = DispatchSemaphore(value: 0)
    private let jobs = Locked<ArraySlice<UnownedJob>>([])

    private init(_ count: Int) {
        for _ in 0..<count {
            let thread = Thread { [self] in
                while true {
                    due.wait()
                    if let job = jobs.withLock({ $0.popFirst() }) {
                        job.runSynchronously(on: asUnownedTaskExecutor())
                    }
                }
            }
            thread.stackSize = 8 << 20
            thread.start()
        }
    }

    func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        jobs.withLock { $0.append(job) }
        due.signal()
    }
}

/// Whether the tests run under ThreadSanitizer, where most take ten times as long.
public var isSanitized: Bool {
    #if FLUX_TSAN
        true
    #else
        false
    #endif
}

/// Returns the processor time that the process has used, in ticks.
public func processorTime() -> Int { Int(clock()) }

/// Returns the processor time that the process uses during a call; exact only if nothing else runs in the process.
public func processorTime(of body: () -> Void) -> Int {
    let before = processorTime()
    body()
    return processorTime() - before
}
