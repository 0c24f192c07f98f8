import Dispatch
import FluxCore
import TestSupport
import Testing

/// A callback converter passes its handler to another thread, which may release it before the converter has returned.
@Suite struct HandlerOnAnotherThreadTests {
    enum Handing: FluxActionConverter {
        struct Event: FluxEvent { let patience: Int }

        static func convert(
            event: Event, dependency queue: DispatchQueue,
            actionHandler: @escaping @Sendable (Counter.Action) -> Void
        ) {
            queue.async { actionHandler(.add(1)) }
            // Waits without ordering the two threads: only the handler's reference count does that.
            var turns = event.patience
            while turns > 0 { turns -= 1 }
        }
    }

    @Test(.stress) func `The last release of the handler ends the event, on whichever thread it happens`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let creator = FluxActionCreator<Handing>(dependency: DispatchQueue(label: "handler"), store: store)
        for number in 0..<5_000 { creator.fire(Handing.Event(patience: number)) }
        await creator.flush()
        #expect(store.state.count == 5_000)
        #expect(creator.inFlight == 0)
    }
}
