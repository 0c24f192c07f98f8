import Dispatch
import TestSupport
import Testing

@testable import FluxCore

/// A task can be woken a few instructions before it sleeps.
///
/// No wake-up is lost in between, and the thread sanitizer reports nothing.
@Suite struct WakeWhileGoingToSleepTests {
    @Test(arguments: [false, true])
    func `A wait reports a cancellation only if it has something to wait for`(waits: Bool) async {
        let gate = Gate()
        let waiting = Task {
            await gate.opened()
            return await FluxLatch.wait { latch in
                waits ? latch : nil
            } withdrawing: { _ in
            }
        }
        waiting.cancel()
        gate.open()
        #expect(await waiting.value == !waits)
    }

    @Test(.stress) func `A latch that opens while a task goes to sleep on it wakes the task`() async {
        let queue = DispatchQueue(label: "leaves")
        for round in 0..<20_000 {
            let (latch, arrived) = (FluxLatch(), Flag())
            queue.async {
                while !arrived.isSet {}
                for _ in 0..<(round % 200) { _ = arrived.isSet }
                latch.open()
            }
            arrived.set()
            await latch.wait()
        }
    }
}
