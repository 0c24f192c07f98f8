import FluxCore
import TestSupport
import Testing

/// What does not need a store's state does not wait for code that runs while the store's lock is held.
@Suite(.timeLimit(.minutes(5))) struct NothingWaitsForABusyStoreTests {
    final class Feature: Sendable {}

    let store = FluxStore(initialState: Log(), dispatcher: nil)

    @Test func `fire to a dispatcher returns while another thread has the lock of one of its stores`() async {
        let dispatcher = FluxDispatcher()
        dispatcher.attach(store)
        let creator = FluxActionCreator<CounterConverter>(dispatcher: dispatcher)
        var tasks: [FluxTask] = []
        await whileLocked(store.handle) {
            tasks = [creator.fire(.add(1)), creator.fire([.add(2), .add(3)])]
            #expect(creator.inFlight == 3)
        }
        for task in tasks { #expect(await task.outcome.isCompleted) }
        #expect(store.state.entries == [1, 2, 3])
    }

    @Test func `A module's object for a store is created while another thread has the store's lock`() async {
        await whileLocked(store.handle) {
            let made = store.handle.feature(Feature.self) { Feature() }
            #expect(store.handle.featureIfAny(Feature.self) === made)
            store.handle.label = "busy"
            #expect(store.handle.label == "busy")
        }
    }
}
