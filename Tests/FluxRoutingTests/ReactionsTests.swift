import Dispatch
import FluxCore
import FluxRouting
import TestSupport
import Testing

/// A reaction can report that it changed nothing, and a second one of the same type does not replace the first.
@Suite struct ReactionsTests {
    let dispatcher = FluxDispatcher()
    let store: FluxStore<Log>

    init() {
        store = FluxStore(initialState: Log(), dispatcher: dispatcher)
    }

    @Test func `Changes made by a reaction that then returns false are reverted`() {
        store.on(LogOut.self) { state, _ in
            state.entries.append(1)
            return false
        }
        dispatcher.dispatch(action: LogOut())
        #expect(store.state.entries.isEmpty)
    }

    @Test func `A reaction that returns false is not announced`() async {
        let seen = Recorder<[Int]>()
        let token = store.subscribe { seen.record($0.entries) }
        store.on(LogOut.self) { state, action in
            if action.reason.isEmpty { return false }
            state.entries.append(action.reason.count)
            return true
        }
        dispatcher.dispatch(action: LogOut())
        #expect(store.revision == 0)
        dispatcher.dispatch(action: LogOut(reason: "idle"))
        dispatcher.dispatch(action: LogOut())
        await store.flush()
        #expect(store.revision == 1 && seen.values == [[4]])
        token.unsubscribe()
    }

    struct Move: FluxAction { let to: Int }

    struct Look: FluxAction {}

    struct Room: FluxState {
        var x = 0, y = 0, torn = 0
        mutating func handle(action: Counter.Action) -> Room? { nil }
    }

    /// Checked by the final state, and by what a view would show meanwhile, whose cut pauses the dispatcher.
    @Test(.stress)
    func `All reactions to an action dispatched by name are applied atomically`() throws {
        let room = FluxStore(initialState: Room(), dispatcher: nil)
        room.on(Move.self) { room, move in room.x = move.to }
        room.on(Move.self) { room, move in room.y = move.to }
        room.on(Look.self) { room, _ in room.torn += room.x == room.y ? 0 : 1 }
        try dispatcher.attach(room, as: "room")
        let (dispatcher, isOver) = (dispatcher, Locked(false))
        let moving = DispatchQueue(label: "moving", attributes: .concurrent)
        for first in 1...3 {
            moving.async {
                var place = first
                while !isOver.current {
                    dispatcher.dispatch(action: Move(to: place), to: "room")
                    place += 3
                }
            }
        }
        let torn = (0..<2_000).count { _ in
            // An action by name does not come between two of the reactions either.
            dispatcher.dispatch(action: Look(), to: "room")
            return FluxDispatcher.paused([dispatcher]) { room.state.x != room.state.y }
        }
        isOver.withLock { $0 = true }
        moving.sync(flags: .barrier) {}
        #expect(torn == 0 && room.state.torn == 0)
        #expect(room.state.x == room.state.y)
    }

    @Test func `A reaction without a result is announced each time`() {
        store.on(LogOut.self) { state, _ in state.entries = [] }
        dispatcher.dispatch(action: LogOut())
        #expect(store.revision == 1)
        dispatcher.dispatch(action: LogOut())
        #expect(store.revision == 2)
    }

    @Test func `Two reactions to one type both run, in the order added, each as its own change`() async {
        let seen = Recorder<[Int]>()
        let token = store.subscribe { seen.record($0.entries) }
        let first = store.on(LogOut.self) { state, _ in state.entries.append(1) }
        let second = store.on(LogOut.self) { state, _ in state.entries.append(2) }
        #expect(dispatcher.dispatch(action: LogOut()) == 2)
        #expect(store.state.entries == [1, 2] && store.revision == 2)
        first.remove()
        #expect(dispatcher.dispatch(action: LogOut()) == 1)
        #expect(store.state.entries == [1, 2, 2])
        second.remove()
        #expect(dispatcher.dispatch(action: LogOut()) == 0)
        await store.flush()
        #expect(seen.values == [[1], [1, 2], [1, 2, 2]])
        token.unsubscribe()
    }

    @Test func `Only the reactions that changed something are announced`() {
        store.on(LogOut.self) { _, _ in false }
        store.on(LogOut.self) { state, action in
            if action.reason.isEmpty { return false }
            state.entries.append(1)
            return true
        }
        dispatcher.dispatch(action: LogOut())
        #expect(store.revision == 0)
        dispatcher.dispatch(action: LogOut(reason: "idle"))
        #expect(store.revision == 1)
    }

    @Test func `All reactions move with their store`() {
        store.on(LogOut.self) { state, _ in state.entries.append(1) }
        store.on(LogOut.self) { state, _ in state.entries.append(2) }
        let other = FluxDispatcher()
        other.attach(store)
        #expect(dispatcher.dispatch(action: LogOut()) == 0 && other.dispatch(action: LogOut()) == 2)
        #expect(store.state.entries == [1, 2])
    }
}
