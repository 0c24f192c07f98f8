import Testing

@testable import FluxCore

/// Which stores an action reaches, with plain objects for cores.
@Suite struct FluxRoutesTests {
    @Test func `A state type has one entrance, made on the first call`() {
        let routes = Box(FluxRoutes())
        let counter = entrance(routes, state: Counter.self)
        #expect(entrance(routes, state: Counter.self) === counter)
        #expect(entrance(routes, state: Log.self) !== counter)
    }

    @Test func `Cores are reached through their own entrance, in the order of attachment, until they are detached`() {
        let routes = Box(FluxRoutes())
        let reached = Recorder<String>()
        let first = entrance(routes, state: Counter.self) {
            reached.record("counter"); return true
        }
        let second = entrance(routes, state: Log.self) {
            reached.record("log"); return false
        }
        let ids = [first, second, first].map { routes.it.attach(Canary(Gate()), $0) }
        #expect(dispatch(routes) == 2)
        #expect(reached.values == ["counter", "log", "counter"])
        routes.it.detach(action: ObjectIdentifier(Counter.Action.self), id: ids[0])?.release()
        #expect(dispatch(routes) == 1)
        #expect(reached.values.suffix(2) == ["log", "counter"])
        #expect(routes.it.detach(action: ObjectIdentifier(Counter.Action.self), id: ids[0]) == nil)
        for id in ids[1...] { routes.it.detach(action: ObjectIdentifier(Counter.Action.self), id: id)?.release() }
        #expect(dispatch(routes) == 0)
    }

    @Test func `A core is kept until it is detached, and not longer`() {
        let routes = Box(FluxRoutes())
        let gone = Gate()
        let id = routes.it.attach(Canary(gone), entrance(routes, state: Counter.self))
        #expect(!gone.isOpen)
        routes.it.detach(action: ObjectIdentifier(Counter.Action.self), id: id)?.release()
        #expect(gone.isOpen)
    }

    @Test func `Cores of a higher priority are reached first, wherever they were attached`() {
        let routes = Box(FluxRoutes())
        let reached = Recorder<Int>()
        let entrances = (0..<4).map { number in
            FluxEntrance(action: Counter.Action.self, state: Counter.self) { _, _, _, _ in
                reached.record(number); return 1
            }
        }
        let places = [(0, 0), (1, -5), (2, 5), (3, 5)].map { number, priority in
            routes.it.attach(Canary(Gate()), entrances[number], priority: priority)
        }
        #expect(dispatch(routes) == 4)
        #expect(reached.values == [2, 3, 0, 1])
        #expect(routes.it.stores().map(\.id) == [places[2], places[3], places[0], places[1]])
        #expect(routes.it.responds(to: ObjectIdentifier(Counter.Action.self)))
        for place in places {
            routes.it.detach(action: ObjectIdentifier(Counter.Action.self), id: place)?.release()
        }
        #expect(!routes.it.responds(to: ObjectIdentifier(Counter.Action.self)))
        #expect(dispatch(routes) == 0)
    }

    private func entrance(
        _ routes: Box<FluxRoutes>, state: any FluxState.Type, _ apply: @escaping @Sendable () -> Bool = { true }
    ) -> FluxEntrance {
        routes.it.entrance(action: ObjectIdentifier(Counter.Action.self), state: state) {
            FluxEntrance(action: Counter.Action.self, state: state) { _, _, _, _ in apply() ? 1 : 0 }
        }
    }

    private func dispatch(_ routes: Box<FluxRoutes>) -> Int {
        var wakes = FluxWakes<FluxWake>.none
        var passage = FluxPassage()
        return withUnsafePointer(to: Counter.Action.add(1)) {
            routes.it.dispatch(
                UnsafeRawPointer($0), type: ObjectIdentifier(Counter.Action.self), waking: &wakes, through: &passage)
        }
    }
}
