import Synchronization
import Testing

@testable import FluxCore

/// What a drain leaves behind on its thread and in its outlet, with the drain run by the test itself.
@Suite struct DrainOnOneThreadTests {
    @Test func `It marks its thread while handlers run, and puts back what was there before`() {
        let seen = Recorder<UInt>()
        let thread = FluxThreads.shared.current
        let outer = thread.pointee.draining
        let outlet = scheduled { _ in seen.record(UInt(bitPattern: FluxThreads.shared.current.pointee.draining)) }
        outlet.drain()
        #expect(seen.values == [UInt(bitPattern: UnsafeRawPointer(fluxIdentity: outlet))])
        let isRestored = thread.pointee.draining == outer
        #expect(isRestored)
    }

    @Test func `It marks who is being called, and nobody afterwards`() {
        let place = Locked<FluxOutlet<Counter>?>(nil)
        let seen = Recorder<Bool>()
        let outlet = scheduled { _ in seen.record(place.current!.called.load(ordering: .relaxed) != 0) }
        place.withLock { $0 = outlet }
        outlet.drain()
        #expect(seen.values == [true])
        let called = outlet.called.load(ordering: .relaxed)
        #expect(called == 0)
        place.withLock { $0 = nil }
    }

    /// An outlet that was told to drain and whose alarm nobody rang.
    private func scheduled(_ handler: @escaping @Sendable (Counter) -> Void) -> FluxOutlet<Counter> {
        let core = FluxStoreCore(initialState: Counter()) { $0.perform($1) }
        return core.lock.withLock { machine in
            let outlet = core.open(nil, in: &machine)
            let subscriber = FluxSubscriber<Counter>(id: machine.makeID(), outlet: outlet, handler: handler)
            _ = machine.join(
                .passRetained(subscriber), id: subscriber.id, outlet: outlet.id, startingWithCurrent: false)
            _ = machine.apply(.add(1))
            return outlet
        }
    }
}
