import Dispatch
import FluxCore
import TestSupport
import Testing

/// The events that wait on a creator, and their buffer, are released after the burst that needed them.
///
/// The buffer takes the size of an event for each of them.
@Suite struct IdleCreatorsKeepLittleTests {
    /// Events of a quarter of a kilobyte; the first one blocks all others.
    private enum BlockConverter: FluxActionConverter {
        struct Event: FluxEvent {
            var isFirst = false
            var some = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
            var more = (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        }

        static func convert(
            event: Event, dependency: DispatchSemaphore, actionHandler: @escaping @Sendable (Counter.Action) -> Void
        ) { if event.isFirst { dependency.wait() } }
    }

    @Test func `An idle creator keeps less than two megabytes after a burst of waiting events`() async {
        await #expect(processExitsWith: .success) {
            let gate = DispatchSemaphore(value: 0)
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let creators = (0..<4).map { _ in
                FluxActionCreator<BlockConverter>(dependency: gate, store: store)
            }
            let before = Heap.bytesInUse
            for creator in creators { creator.fire(.init(isFirst: true)) }
            for _ in 0..<20_000 { for creator in creators { creator.fire(.init()) } }
            #expect(Heap.bytesInUse - before > 20_000_000, "what waits")
            for _ in creators { gate.signal() }
            for creator in creators { await creator.flush() }
            // Once a last event has been converted, everything before it has been released.
            for creator in creators { _ = await creator.fire(.init()).outcome }
            let kept = (Heap.bytesInUse - before) / creators.count
            // Half a megabyte for the buffer, and what the list of events in flight and the allocator keep. The buffer
            // in which all events waited has 10 MB.
            #expect(kept < 2_000_000, "\(kept) bytes for each")
        }
    }
}
