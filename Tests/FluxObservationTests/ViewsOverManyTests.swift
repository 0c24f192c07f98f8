import Dispatch
import FluxCore
import FluxObservation
import TestSupport
import Testing

/// A watched view of many stores computes once for all changes that arrive before it computes.
@Suite struct ViewsOverManyTests {
    private static let count = 2_000

    /// Blocks the computations of a view, and counts them.
    private final class Brake: Sendable {
        let isOn = Flag()
        let (isReached, opens) = (Gate(), Gate())
        let computed = Locked(0)

        func sum(_ states: [Counter]) -> Int {
            computed.withLock { $0 += 1 }
            if isOn.isSet {
                isReached.open()
                opens.wait()
            }
            return states.reduce(0) { $0 + $1.count }
        }
    }

    private func stores(_ dispatcher: FluxDispatcher?) -> [FluxStore<Counter>] {
        (0..<Self.count).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
    }

    @Test func `Changes that arrive during a computation cause one more computation`() async {
        let (stores, brake) = (stores(nil), Brake())
        let view = FluxView(stores) { brake.sum($0) }
        let last = Highest()
        let token = view.subscribe { last.see($0) }
        let before = brake.computed.current
        brake.isOn.set()
        stores[0].dispatch(action: .add(1))
        await brake.isReached.opened()
        for store in stores { store.dispatch(action: .add(1)) }
        brake.opens.open()
        await last.reaches(Self.count + 1)
        await view.flush()
        #expect(brake.computed.current - before == 2)
        withExtendedLifetime(token) {}
    }

    @Test func `One action that all stores handle is one change of the view`() async {
        let dispatcher = FluxDispatcher()
        let (stores, brake) = (stores(dispatcher), Brake())
        let view = FluxView(stores) { brake.sum($0) }
        let last = Highest()
        let token = view.subscribe { last.see($0) }
        let before = brake.computed.current
        // The whole action is applied while the lock that a computation needs is held.
        dispatcher.add(1)
        await last.reaches(Self.count)
        #expect(brake.computed.current - before == 1)
        withExtendedLifetime(token) {}
    }

    @Test func `A view can be created from any collection of sources`() {
        let stores = Dictionary(uniqueKeysWithValues: stores(nil).prefix(4).enumerated().map { ($0, $1) })
        for store in stores.values { store.dispatch(action: .add(1)) }
        let sources = stores.mapValues { $0 as any FluxSource<Counter> }
        let sums: [FluxView<Int>] = [
            FluxView(stores.values) { $0.reduce(0) { $0 + $1.count } },
            FluxView(stores.values.lazy.filter { _ in true }) { $0.reduce(0) { $0 + $1.count } },
            FluxView(Array(stores.values)[...]) { $0.reduce(0) { $0 + $1.count } },
            FluxView(stores.values, by: { $0 == $1 }) { $0.reduce(0) { $0 + $1.count } },
            FluxView(sources.values) { $0.reduce(0) { $0 + $1.count } },
            FluxView(sources.values, by: { $0 == $1 }) { $0.reduce(0) { $0 + $1.count } },
        ]
        #expect(sums.map(\.state) == [4, 4, 4, 4, 4, 4])
    }

    @Test func `A view whose value is current is not computed again for a view that uses it`() {
        let (one, other) = (
            FluxStore(initialState: Counter(), dispatcher: nil), FluxStore(initialState: Counter(), dispatcher: nil)
        )
        let computed = Locked(0)
        let known = one.view { state in
            computed.withLock { $0 += 1 }
            return state.count
        }
        let both = FluxView(known, other.view(\.count)) { $0 + $1 }
        let before = computed.current
        other.dispatch(action: .add(1))
        #expect(both.state == 1)
        #expect(computed.current == before)
    }

    @Test func `A view that another view uses twice is computed once for a view of that one`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let computed = Locked(0)
        let count = store.view { state in
            computed.withLock { $0 += 1 }
            return state.count
        }
        let twice = FluxView(count, count) { $0 + $1 }.view { $0 }
        let before = computed.current
        store.dispatch(action: .add(1))
        #expect(twice.state == 2)
        #expect(computed.current == before + 1)
    }

    @Test func `A newer value replaces one of an older cut that another thread has stored meanwhile`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate, isOver, computed) = (Gate(), Gate(), Gate(), Locked(0))
        let view = store.view(
            { state in
                computed.withLock { $0 += 1 }
                if state.count == 1 {
                    entered.open()
                    gate.wait()
                }
                return state.count
            },
            by: { one, other in
                // By the time the newer value is compared with the kept one, another thread has replaced that.
                if (one, other) == (0, 2) {
                    gate.open()
                    isOver.wait()
                }
                return one == other
            })
        store.dispatch(action: .add(1))
        DispatchQueue.global().async {
            #expect(view.state == 1)
            isOver.open()
        }
        await entered.opened()
        store.dispatch(action: .add(1))
        #expect(view.state == 2)
        #expect(view.state == 2)
        #expect(computed.current == 3, "the start and two changes")
    }
}
