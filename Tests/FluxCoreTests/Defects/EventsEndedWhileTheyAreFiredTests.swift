import FluxCore
import TestSupport
import Testing

/// An event may be cancelled before its turn: by an observer that is notified of its firing, or by another thread.
@Suite struct EventsEndedWhileTheyAreFiredTests {
    /// Cancels the first event that it is notified of.
    final class Canceller: FluxDispatchInterceptor {
        let told = Recorder<String>()

        func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int { next(action) }

        func fired(_ event: any FluxEvent, _ task: FluxTask) {
            told.record("fired \(event)")
            if told.values.count == 1 { task.cancel() }
        }

        func ended(_ event: any FluxEvent, _ outcome: FluxTask.Outcome, _ task: FluxTask) {
            told.record("ended \(event) \(outcome.name)")
        }
    }

    @Test func `An event cancelled while it is fired reaches no scheduler, and interceptors see its end`() async {
        let (dispatcher, canceller, scheduler) = (FluxDispatcher(), Canceller(), Scheduling())
        dispatcher.add(canceller)
        let creator = FluxActionCreator<WorkConverter>(
            dependency: .init(), dispatcher: dispatcher, schedulers: [scheduler])
        let first = creator.fire(.add(1))
        #expect(await first.outcome.isCancelled)
        #expect(canceller.told.values == ["fired add(1)", "ended add(1) cancelled"])
        #expect(await creator.fire(.add(2)).outcome.isCompleted)
        await creator.flush()
        await scheduler.notes.count(2)
        #expect(scheduler.notes.values == [.fired("add(2)"), .ended("add(2)", "completed")])
        #expect(creator.inFlight == 0)
    }
}
