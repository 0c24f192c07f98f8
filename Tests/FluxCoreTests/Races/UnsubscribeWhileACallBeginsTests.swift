import Foundation
import Synchronization
import Testing

@testable import FluxCore

/// The window of C7: a drain has seen that the subscription is live and has not reached the first line of the handler.
///
/// It is a few instructions wide, too narrow for a stress test, so the drain's side is played here step by step.
@Suite struct UnsubscribeWhileACallBeginsTests {
    @Test func `Unsubscribing returns after the call that was about to begin`() async {
        for _ in 0..<200 {
            let rig = Rig()
            rig.outlet.called.store(rig.bits, ordering: .releasing)
            let order = Recorder<String>()
            await onThreads(2) { index in
                if index == 0 {
                    rig.outlet.awaitCall(of: rig.subscriber, until: .now() + .seconds(300))
                    order.record("unsubscribed")
                } else {
                    order.record("called")
                    rig.outlet.called.store(0, ordering: .releasing)
                }
            }
            #expect(order.values == ["called", "unsubscribed"])
        }
    }

    @Test func `It does not wait for a call of another handler`() {
        let rig = Rig()
        rig.outlet.called.store(rig.bits &+ 8, ordering: .releasing)
        rig.subscriber.cancel()
        #expect(!rig.subscriber.isLive)
    }

    @Test func `It does not wait for itself on the thread that drains`() {
        let rig = Rig()
        rig.outlet.called.store(rig.bits, ordering: .releasing)
        FluxThreads.shared.current.pointee.draining = UnsafeRawPointer(fluxIdentity: rig.outlet)
        defer { FluxThreads.shared.current.pointee.draining = nil }
        let start = ContinuousClock.now
        rig.outlet.awaitCall(of: rig.subscriber, until: .now() + .seconds(60))
        #expect(ContinuousClock.now - start < .seconds(60), "the limit of the wait was not reached")
    }

    @Test func `It gives up on a call that does not end, after a tenth of a second`() {
        let rig = Rig()
        rig.outlet.called.store(rig.bits, ordering: .releasing)
        for _ in ["the first caller", "a second, which finds that another was before it"] {
            let start = ContinuousClock.now
            rig.subscriber.cancel()
            #expect(ContinuousClock.now - start >= .milliseconds(100))
        }
        let called = rig.outlet.called.load(ordering: .acquiring)
        #expect(called == rig.bits)
    }

    /// A subscriber in the hands of a drain that the test plays.
    struct Rig {
        let outlet: FluxOutlet<Counter>
        let subscriber: FluxSubscriber<Counter>

        init() {
            let core = FluxStoreCore(initialState: Counter()) { $0.perform($1) }
            (outlet, subscriber) = core.lock.withLock { machine in
                let outlet = core.open(nil, in: &machine)
                let subscriber = FluxSubscriber<Counter>(id: machine.makeID(), outlet: outlet) { _ in }
                _ = machine.join(
                    .passRetained(subscriber), id: subscriber.id, outlet: outlet.id, startingWithCurrent: true)
                var batch = FluxOutlet<Counter>.Batch()
                _ = machine.begin(&batch, outlet: outlet.id)
                return (outlet, subscriber)
            }
        }

        var bits: UInt { UInt(bitPattern: Unmanaged.passUnretained(subscriber).toOpaque()) }
    }
}
