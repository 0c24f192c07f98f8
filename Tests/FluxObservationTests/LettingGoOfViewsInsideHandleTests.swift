import FluxCore
import FluxObservation
import TestSupport
import Testing

/// An object whose last reference goes inside `handle` releases the user's values later, with no lock held.
@Suite struct LettingGoOfViewsInsideHandleTests {
    @Test func `An object captured by the closure of a view may use the library when it is released`() async {
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

    @Test func `An object captured by a view of a group or by its watcher may use the library when released`() async {
        await #expect(processExitsWith: .success) {
            let rooms = Group<FluxStore<Counter>>()
            rooms.open(1, FluxStore(initialState: Counter(), dispatcher: nil))
            await Drawer.emptyMany { farewell in
                let view = FluxView(rooms) { rooms in withExtendedLifetime(farewell) { rooms.count } }
                return [view as any Sendable, view.subscribe { _ in }]
            }
            let view = FluxView(rooms) { $0.count }
            await Drawer.emptyMany { farewell in view.watch { withExtendedLifetime(farewell) { nil } } }
        }
    }

    @Test func `An object captured by a selector may use the library when it is released`() async {
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

    @Test func `An object captured by a handler may use the library when it is released`() async {
        await #expect(processExitsWith: .success) {
            let dispatcher = FluxDispatcher()
            let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
            let subscribing: [@Sendable (Farewell) -> FluxSubscription] = [
                { farewell in store.subscribe(to: \.count) { _ in withExtendedLifetime(farewell) {} } },
                { farewell in store.subscribe(.buffered(newest: 1)) { _ in withExtendedLifetime(farewell) {} } },
                { farewell in store.subscribe(failingAfter: 1) { _ in withExtendedLifetime(farewell) {} } },
                { farewell in store.subscribeActions { _ in withExtendedLifetime(farewell) {} } },
                { farewell in dispatcher.subscribeActions { _ in withExtendedLifetime(farewell) {} } },
            ]
            for subscribe in subscribing { await Drawer.emptyMany(200) { subscribe($0) } }
        }
    }

    /// A part that dispatches when it is released.
    private struct Part {
        let count: Int
        let farewell: Farewell
    }

    /// Selects parts of a store, and counts those that have been released.
    private struct Parts {
        let said: Highest
        let subscription: FluxSubscription
        let select: @Sendable (Counter) -> Part
        let isSame: @Sendable (Part, Part) -> Bool = { $0.count == $1.count }

        init() {
            let (target, said) = (FluxStore(initialState: Counter(), dispatcher: nil), Highest())
            self.said = said
            subscription = target.subscribe { said.see($0.count) }
            select = { Part(count: $0.count, farewell: Farewell(to: target)) }
        }
    }

    @Test func `A part may use the library when it is released, whether an iterator has returned it or not`() async {
        await #expect(processExitsWith: .success) {
            let (parts, store) = (Parts(), FluxStore(initialState: Counter(), dispatcher: nil))
            for delivery in [FluxBuffered.buffered(oldest: 1), .buffered(newest: 1), .buffered(newest: 9)] {
                let iterator = store.values(of: parts.select, by: parts.isSame, delivery).makeAsyncIterator()
                for _ in 0..<5 { store.dispatch(action: .add(1)) }
                withExtendedLifetime(iterator) {}
            }
            var taking = store.values(of: parts.select, by: parts.isSame, .every, startingWithCurrent: false)
                .makeAsyncIterator()
            for _ in 0..<5 {
                store.dispatch(action: .add(1))
                _ = await taking.next()
            }
            store.dispatch(action: .add(1))
            // All but those of the iterator that continues.
            await parts.said.reaches(18)
            parts.subscription.unsubscribe()
        }
    }

    private final class Loop: @unchecked Sendable {
        let iterator: FluxStates<Part, Never>.Iterator
        init(_ states: FluxStates<Part, Never>) { iterator = states.makeAsyncIterator() }
    }

    @Test func `A part may use the library if it waits for an iterator that is released inside handle`() async {
        await #expect(processExitsWith: .success) {
            let (parts, store) = (Parts(), FluxStore(initialState: Counter(), dispatcher: nil))
            for delivery in [FluxDelivery.every, .latest] {
                for _ in 0..<50 {
                    let drawer = Drawer(Loop(store.values(of: parts.select, by: parts.isSame, delivery)))
                    // Another part, because the last one is also kept elsewhere; `.latest` creates parts on a queue.
                    await store.flush()
                    store.dispatch(action: .add(1))
                    await store.flush()
                    FluxStore(initialState: consume drawer, dispatcher: nil).dispatch(action: .empty)
                }
            }
            await parts.said.reaches(200)
            parts.subscription.unsubscribe()
        }
    }
}
