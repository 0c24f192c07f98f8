import Foundation
import TestSupport
import Testing

@testable import FluxCore

/// A thread that finds the lock taken polls it for a while and then queues for it; neither loses a use of the lock.
@Suite struct LockUnderContentionTests {
    @Test(.stress) func `A lock loses no update with more threads than cores`() async {
        let counts = Box(FluxLock(0))
        await onThreads(4 * ProcessInfo.processInfo.activeProcessorCount) { _ in
            for _ in 0..<20_000 { counts.lock.withLock { $0 += 1 } }
        }
        #expect(counts.lock.withLock { $0 } == 80_000 * ProcessInfo.processInfo.activeProcessorCount)
    }

    @Test(.stress) func `Threads queued for a lock get it when it is released after they have stopped polling`() async {
        let counts = Box(FluxLock(0))
        let (held, arrived) = (Gate(), Recorder<Int>())
        await onThreads(5) { thread in
            if thread > 0 {
                held.wait()
                arrived.record(thread)
                return counts.lock.withLock { $0 += 1 }
            }
            counts.lock.withLock { count in
                held.open()
                while arrived.values.count < 4 {}
                // A waiting thread polls a thousand times, and each time gives up the core or pauses for microseconds.
                for _ in 0..<200_000 { sched_yield() }
                count += 1
            }
        }
        #expect(counts.lock.withLock { $0 } == 5)
    }

    private final class Box: Sendable {
        let lock: FluxLock<Int>

        init(_ lock: consuming FluxLock<Int>) { self.lock = lock }
    }
}
