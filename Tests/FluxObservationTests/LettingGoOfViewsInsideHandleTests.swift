import FluxCore
import FluxObservation
import TestSupport
import Testing

/// What goes inside `handle` with its last reference lets go of what is the user's later, with no lock held.
@Suite struct LettingGoOfViewsInsideHandleTests {
    @Test func `What a view computes with may use the library when it goes`() async {
        await #expect(processExitsWith: .success) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            await Drawer.emptyMany { farewell in
                store.view { counter in withExtendedLifetime(farewell) { counter.count } }
            }
            await Drawer.emptyMany { farewell in
                let view = store.view { counter in withExtendedLifetime(farewell) { counter.count } }
                return [view as any Sendable, view.subscribe { _ in }]
            }
        }
    }

    @Test func `What a selector captured may do so too`() async {
        await #expect(processExitsWith: .success) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            for delivery in [FluxDelivery.every, .latest] {
                await Drawer.emptyMany { farewell in
                    store.subscribe(to: { counter in withExtendedLifetime(farewell) { counter.count } }, delivery) {
                        _ in
                    }
                }
            }
        }
    }
}
