import Foundation
import Testing

/// One at a time: a stress test has the machine to itself but for the small ones.
///
/// Together they would take as long and make each other wait, until a guard against a hang takes that for one. A time
/// limit would count the wait for the turn, so the guard is in here.
///
/// It runs on threads of its own, and so do its child tasks: the pool has as many as there are cores, and what dispatches in a loop
/// on each of them lets no other test go on.
public struct StressTrait: TestTrait, TestScoping {
    /// Runs a test in its turn.
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
    /// A stress test takes its turn.
    public static var stress: Self { StressTrait() }
}

/// Who waits for a turn, first come first served, in all suites of the process.
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
        // ThreadSanitizer sees by it what came before the turn was given back.
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

/// Threads beside those of the pool, first come first served.
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

/// Whether the tests run under ThreadSanitizer, where most takes ten times as long.
public var isSanitized: Bool {
    #if FLUX_TSAN
        true
    #else
        false
    #endif
}

/// What the process has used, in ticks.
public func processorTime() -> Int { Int(clock()) }

/// What the process uses while it runs this, in ticks: in a process of its own nothing else that runs counts.
public func processorTime(of body: () -> Void) -> Int {
    let before = processorTime()
    body()
    return processorTime() - before
}
