import Foundation
import TestSupport
import Testing

@testable import FluxCore

/// Who finds the lock taken looks for a while whether it is free, and then stands in line: neither loses a use of it.
@Suite struct LockUnderContentionTests {
    @Test(.stress) func `More threads than there are cores use it once for each time they ask`() async {
        let counts = Box(FluxLock(0))
        await onThreads(4 * ProcessInfo.processInfo.activeProcessorCount) { _ in
            for _ in 0..<20_000 { counts.lock.withLock { $0 += 1 } }
        }
        #expect(counts.lock.withLock { $0 } == 80_000 * ProcessInfo.processInfo.activeProcessorCount)
    }

    @Test(.stress) func `Those who have stood in line get it once it is given back after longer than they look`() async
    {
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
                // They look a thousand times, and give up the core each time or wait for microseconds.
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
