import Dispatch
import Testing

@testable import FluxCore

/// Between the moment at which a task can be woken and the one at which it sleeps there are a few instructions.
///
/// Nothing is lost there, and the sanitizer has to be content: what is asked of it, `FluxContinuation` says.
@Suite struct WakeWhileGoingToSleepTests {
    @Test(.stress) func `A latch that opens while somebody goes to sleep on it`() async {
        let queue = DispatchQueue(label: "leaves")
        for round in 0..<20_000 {
            let (latch, arrived) = (FluxLatch(), Flag())
            latch.enter()
            queue.async {
                while !arrived.isSet {}
                for _ in 0..<(round % 200) { _ = arrived.isSet }
                latch.leave()
            }
            arrived.set()
            await latch.wait()
        }
    }

    @Test(.stress) func `A channel that gets an element while its iterator goes to sleep`() async {
        let queue = DispatchQueue(label: "pushes")
        let channel = FluxChannel<Int>(.every)
        for round in 0..<20_000 {
            let arrived = Flag()
            queue.async {
                while !arrived.isSet {}
                for _ in 0..<(round % 200) { _ = arrived.isSet }
                channel.push(round)
            }
            arrived.set()
            guard case .element(round) = await channel.next(isolation: nil) else {
                Issue.record("element \(round) did not come")
                return
            }
        }
    }
}
