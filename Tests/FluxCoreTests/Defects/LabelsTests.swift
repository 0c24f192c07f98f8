import Dispatch
import FluxCore
import TestSupport
import Testing

/// The same parameter has the same label everywhere.
@Suite struct LabelsTests {
    /// Records on which queue it converts.
    enum Asking: FluxActionConverter {
        enum Event: FluxEvent { case ask }
        static let key = DispatchSpecificKey<String>()

        static func convert(
            event: Event, dependency seen: Recorder<String?>,
            actionHandler: @escaping @Sendable (Counter.Action) -> Void
        ) {
            seen.record(DispatchQueue.getSpecific(key: key))
        }
    }

    @Test func `fire converts on the queue given with the label on or executionQueue`() async {
        let (seen, queue) = (Recorder<String?>(), DispatchQueue(label: "work"))
        queue.setSpecific(key: Asking.key, value: "work")
        let creator = FluxActionCreator<Asking>(
            dependency: seen, store: FluxStore(initialState: Counter(), dispatcher: nil))
        creator.fire(.ask, on: queue)
        creator.fire([.ask, .ask], on: queue)
        creator.fire(.ask, executionQueue: queue)
        creator.fire([.ask], executionQueue: queue)
        await creator.flush()
        creator.fire(.ask)
        await creator.flush()
        #expect(seen.values == ["work", "work", "work", "work", "work", nil])
    }
}
