import FluxCore
import FluxDiagnostics
import FluxRouting
import TestSupport
import Testing

/// Undo, redo, looking back and replay.
@Suite struct HistoryTests {
    let dispatcher = FluxDispatcher()
    let store: FluxStore<Log>

    init() {
        store = FluxStore(initialState: Log(), dispatcher: dispatcher)
    }

    @Test func `Undo and redo go step by step, and stop at the ends`() {
        let history = FluxHistory(store, limit: 10)
        for number in 1...3 { store.dispatch(action: .add(number)) }
        #expect(history.undo() == 4)
        #expect(store.state.entries == [1, 2])
        #expect(history.undo() == 5 && history.undo() == 6 && history.undo() == nil)
        #expect(store.state.entries.isEmpty && history.position == 0)
        #expect(history.redo() == 7 && history.redo() == 8 && history.redo() == 9 && history.redo() == nil)
        #expect(store.state.entries == [1, 2, 3])
    }

    @Test func `An action after an undo replaces the undone actions`() {
        let history = FluxHistory(store, limit: 10)
        for number in 1...3 { store.dispatch(action: .add(number)) }
        history.undo()
        history.undo()
        store.dispatch(action: .add(9))
        #expect(history.redo() == nil)
        #expect(history.entries.map(\.state.entries) == [[1], [1, 9]])
    }

    @Test func `A history has each action with the state after it, also silent actions and reactions`() {
        let history = FluxHistory(store, limit: 10)
        store.on(LogOut.self) { state, _ in state.entries = [] }
        store.dispatch(action: .add(1))
        dispatcher.dispatch(action: Counter.Action.addSilently(2))
        dispatcher.dispatch(action: LogOut(reason: "x"))
        #expect(history.entries.map { "\($0.action)" } == ["add(1)", "addSilently(2)", "LogOut(reason: \"x\")"])
        #expect(history.entries.map(\.state.entries) == [[1], [1], []])
        #expect(history.entries.map(\.revision) == [1, 1, 2])
        #expect(history.replay().map(\.entries) == [[1], [1], []])
        #expect(history.replay(onto: Log(entries: [5])).map(\.entries) == [[5, 1], [5, 1], []])
    }

    @Test func `A history is bounded, and undo goes back to its oldest kept state`() {
        let history = FluxHistory(store, limit: 2)
        for number in 1...4 { store.dispatch(action: .add(number)) }
        #expect(history.entries.map(\.state.entries) == [[1, 2, 3], [1, 2, 3, 4]])
        #expect(history.start.entries == [1, 2])
        history.undo()
        history.undo()
        #expect(history.undo() == nil)
        #expect(store.state.entries == [1, 2])
    }

    @Test func `A history jumps to any revision that it keeps`() {
        let history = FluxHistory(store, limit: 3)
        for number in 1...5 { store.dispatch(action: .add(number)) }
        #expect(history.jump(to: 4) == 6)
        #expect(store.state.entries == [1, 2, 3, 4])
        #expect(history.jump(to: 2) == 7)
        #expect(store.state.entries == [1, 2])
        #expect(history.jump(to: 1) == nil && history.jump(to: 6) == nil)
        #expect(history.jump(to: 5) == 8)
        #expect(store.state.entries == [1, 2, 3, 4, 5])
    }

    @Test func `Undo and redo run no middleware, are announced, and record nothing`() async {
        let seen = Recorder<[Int]>()
        let token = store.subscribe { seen.record($0.entries) }
        let spy = Spy()
        dispatcher.add(spy)
        let history = FluxHistory(store, limit: 10)
        dispatcher.add(1)
        history.undo()
        history.redo()
        await store.flush()
        #expect(seen.values == [[1], [], [1]])
        #expect(spy.seen.values.count == 1 && history.entries.count == 1)
        token.unsubscribe()
    }

    @Test func `Recorded actions replayed onto a fresh state give the same states`() {
        let history = FluxHistory(store, limit: 1_000)
        for number in 1...100 { store.dispatch(action: number % 7 == 0 ? .addSilently(number) : .add(number)) }
        let actions = history.entries.compactMap { $0.action as? Counter.Action }
        #expect(actions.count == 100)
        let replayed = FluxHistory.replay(actions, onto: Log())
        #expect(replayed.map(\.entries) == history.entries.map(\.state.entries))
        #expect(replayed.last?.entries == store.state.entries)
    }

    @Test func `A released history ends, and another history of the store continues`() {
        let other = FluxHistory(store, limit: 5)
        do {
            let history = FluxHistory(store, limit: 5)
            store.dispatch(action: .add(1))
            #expect(history.entries.count == 1)
        }
        store.dispatch(action: .add(2))
        #expect(other.entries.count == 2)
    }

    @Test func `A released history releases the states that it kept, although its store lives on`() {
        let store = FluxStore(initialState: Keeping(), dispatcher: nil)
        let (early, late) = (Gate(), Gate())
        do {
            let history = FluxHistory(store, limit: 5)
            for canary in [Canary(early), nil] { store.dispatch(action: .init(canary: canary)) }
            #expect(history.entries.count == 2 && !early.isOpen, "the history has the state that the store has not")
        }
        #expect(early.isOpen)
        // Nobody records any more.
        for canary in [Canary(late), nil] { store.dispatch(action: .init(canary: canary)) }
        #expect(late.isOpen)
    }

    @Test func `A history keeps its store, which ends once the history is released`() async {
        var history: FluxHistory<Counter>?
        let ended = Gate()
        let token: FluxSubscription
        do {
            let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
            history = FluxHistory(store, limit: 5)
            token = store.subscribe(.every, on: nil, startingWithCurrent: false, ended: { ended.open() }) { _ in }
            store.dispatch(action: .add(1))
        }
        #expect(dispatcher.add(1) == 2 && history?.undo() == 3, "the store takes actions, and goes back")
        #expect(!ended.isOpen)
        history = nil
        #expect(dispatcher.add(1) == 1, "only the log is left")
        await ended.opened()
        withExtendedLifetime(token) {}
    }

    @Test(.stress) func `Stress: a history has every action of four threads once, in the order applied`() async {
        let history = FluxHistory(store, limit: 10_000)
        await onThreads(4) { [store, dispatcher] producer in
            for number in 1...1_000 {
                let action = Counter.Action.mark(producer: producer, number: number)
                if number % 2 == 0 { store.dispatch(action: action) } else { dispatcher.dispatch(action: action) }
            }
        }
        #expect(history.entries.count == 4_000)
        #expect(history.replay().last?.entries == store.state.entries)
        #expect(history.entries.map(\.revision) == Array(1...4_000))
    }

    @Test func `A limit of zero stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxHistory(FluxStore(initialState: Log(), dispatcher: nil), limit: 0)
        }
        let message = result.said
        #expect(message.contains("Give a limit of 1 or more"))
    }

    @Test func `A state restored by another history is recorded as a change, and can be undone`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (one, other) = (FluxHistory(store, limit: 10), FluxHistory(store, limit: 10))
        store.dispatch(action: .add(1))
        one.undo()
        store.dispatch(action: .add(10))
        #expect(other.entries.map(\.state.count) == [1, 0, 10])
        #expect("\(other.entries[1].action)" == "undo, redo or jump of a FluxHistory")
        #expect(other.replay().map(\.count) == [1, 0, 10])
        other.undo()
        #expect(store.state.count == 0)
        other.undo()
        #expect(store.state.count == 1)
    }

    @Test func `A state restored by another history is recorded even by an empty history`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let one = FluxHistory(store, limit: 10)
        store.dispatch(action: .add(1))
        let other = FluxHistory(store, limit: 10)
        one.undo()
        #expect(other.start.count == 1 && other.entries.map(\.state.count) == [0])
        other.undo()
        #expect(store.state.count == 1)
    }

    @Test
    func `A replaced state can be undone; while the store loads, it becomes the start instead`() {
        struct Import: FluxAction {}
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let history = FluxHistory(store, limit: 10)
        store.handle.withAccess { _ = $0.replace(with: Counter(count: 7), by: Import()) }
        #expect(history.start.count == 0 && history.entries.map(\.state.count) == [7])
        history.undo()
        #expect(store.state.count == 0)
        let loading = FluxStore(initialState: Counter(), dispatcher: nil)
        loading.handle.withAccess { $0.hold { _ in false } }
        let later = FluxHistory(loading, limit: 10)
        for count in [7, 8] { loading.handle.withAccess { _ = $0.replace(with: Counter(count: count), by: Import()) } }
        #expect(later.start.count == 7 && later.entries.map(\.state.count) == [8])
    }

    @Test func `A silent change after an undo has the revision of the undo`() {
        let history = FluxHistory(store, limit: 10)
        store.dispatch(action: .add(1))
        #expect(history.undo() == 2)
        store.dispatch(action: .addSilently(1))
        #expect(history.entries.map(\.revision) == [2])
    }

    @Test func `A replay leaves out undone actions`() {
        let history = FluxHistory(store, limit: 10)
        for number in 1...3 { store.dispatch(action: .add(number)) }
        history.undo()
        #expect(history.replay().map(\.entries) == [[1], [1, 2]])
    }

    @Test func `Undo, redo and jump do nothing while changes are held`() {
        let history = FluxHistory(store, limit: 10)
        for number in 1...2 { store.dispatch(action: .add(number)) }
        store.handle.withAccess { $0.hold { _ in false } }
        #expect(history.undo() == nil && history.redo() == nil && history.jump(to: 1) == nil)
        #expect(store.state.entries == [1, 2] && store.revision == 2 && history.position == 2)
        store.handle.withAccess { $0.hold(by: nil) }
        #expect(history.undo() == 3)
    }

    @Test func `A state loaded after the first entry is recorded as a change`() {
        struct Import: FluxAction {}
        store.handle.withAccess { $0.hold { _ in false } }
        let history = FluxHistory(store, limit: 10)
        store.handle.withAccess { access in
            _ = access.apply(.action(.add(1)), pastGate: true)
            _ = access.replace(with: Log(entries: [7]), by: Import())
        }
        #expect(history.start.entries == [] && history.entries.map(\.state.entries) == [[1], [7]])
    }

    @Test func `A history used in pure code stops the program, and the message names the call`() async {
        let made = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Log(), dispatcher: nil)
            store.handle.withAccess { _ in _ = FluxHistory(store, limit: 1) }
        }
        #expect(made.said.contains("FluxHistory.init was used inside"))
        let moved = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Log(), dispatcher: nil)
            let history = FluxHistory(store, limit: 1)
            store.handle.withAccess { _ in _ = history.undo() }
        }
        #expect(moved.said.contains("undo(), redo() or jump(to:) of a FluxHistory was used inside"))
    }

    @Test func `A history can be released while its store is being changed`() {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let kept = Locked<FluxHistory<Counter>?>(FluxHistory(store, limit: 10))
        store.on(Forget.self) { _, _ in kept.withLock { $0 = nil } }
        dispatcher.dispatch(action: Forget())
        #expect(kept.current == nil)
        #expect(store.revision == 1)
    }

    struct Forget: FluxAction {}
}
