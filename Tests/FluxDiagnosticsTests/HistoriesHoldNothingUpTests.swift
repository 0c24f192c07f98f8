import FluxCore
import FluxDiagnostics
import FluxRouting
import TestSupport
import Testing

/// While the lock of its store is held, a history does little, and never runs the user's code.
@Suite struct HistoriesHoldNothingUpTests {
    // MARK: - Cost

    #if canImport(Glibc)
        /// The number of pages that a thousand actions touch for the first time while a history is full.
        ///
        /// No clock is needed: a copy of everything that the history keeps is so large that it is mapped and touched
        /// page by page.
        static func pagesPerThousandActions(limit: Int) -> Int {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let history = FluxHistory(store, limit: limit)
            for _ in 0..<limit + 10 { store.dispatch(action: .add(1)) }
            let before = Heap.pageFaults
            for _ in 0..<1_000 { store.dispatch(action: .add(1)) }
            let pages = Heap.pageFaults - before
            guard history.entries.count == limit, history.entries.last?.state.count == limit + 1_010 else {
                fatalError("it has not kept what it should")
            }
            return pages
        }

        @Test func `An action does not copy the entries of a history`() async {
            await #expect(processExitsWith: .success) {
                Heap.mapLargeBlocks()
                let pages = HistoriesHoldNothingUpTests.pagesPerThousandActions(limit: 4_000)
                // One copy is about 70 pages, a thousand copies are tens of thousands, and a buffer that is
                // reallocated now and then is hundreds.
                #expect(pages < 2_000, "\(pages) pages for a thousand actions")
            }
        }
    #endif

    // MARK: - Release

    /// Runs a closure when it is released.
    final class Farewell: Sendable {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        deinit { body() }
    }

    /// Holds the thing of its last action; the history keeps it longer.
    struct Holder: FluxState {
        struct Hold: FluxAction { var thing: Farewell? }
        var thing: Farewell?
        mutating func handle(action: Hold) -> Holder? {
            thing = action.thing
            return self
        }
    }

    /// A store of things, and a counter to which each thing adds when it is released.
    struct Rig: Sendable {
        let dispatcher = FluxDispatcher()
        let store: FluxStore<Holder>
        let counter: FluxStore<Counter>

        init() {
            store = FluxStore(initialState: Holder(), dispatcher: dispatcher)
            counter = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        }

        /// A thing that, when released, dispatches to the counter and to the very store whose history forgets it.
        func thing() -> Farewell {
            Farewell { [dispatcher, weak store] in
                dispatcher.dispatch(action: Counter.Action.add(1))
                store?.dispatch(action: .init())
            }
        }

        func check(_ count: Int) {
            guard counter.state.count == count else { fatalError("\(counter.state.count) have gone, not \(count)") }
        }
    }

    @Test func `An object of a dropped entry may dispatch when released by an action to the store`() async {
        await #expect(processExitsWith: .success) {
            let rig = Rig()
            let history = FluxHistory(rig.store, limit: 2)
            rig.store.dispatch(action: .init(thing: rig.thing()))
            for _ in 0..<5 { rig.store.dispatch(action: .init()) }
            rig.check(1)
            withExtendedLifetime(history) {}
        }
    }

    @Test func `An object of a dropped entry may dispatch when released by an action to the dispatcher`() async {
        await #expect(processExitsWith: .success) {
            let rig = Rig()
            let history = FluxHistory(rig.store, limit: 2)
            rig.dispatcher.dispatch(action: Holder.Hold(thing: rig.thing()))
            for _ in 0..<5 { rig.dispatcher.dispatch(action: Holder.Hold()) }
            rig.check(1)
            withExtendedLifetime(history) {}
        }
    }

    @Test func `An object of an undone entry may dispatch when released by an action to the store`() async {
        await #expect(processExitsWith: .success) {
            Self.replaceWhatWasUndone(1)
        }
    }

    @Test func `An object of several undone entries may dispatch when one action replaces them`() async {
        await #expect(processExitsWith: .success) {
            Self.replaceWhatWasUndone(2)
        }
    }

    /// Undoes this many of two actions, the last of which holds a thing, and replaces them with another one.
    private static func replaceWhatWasUndone(_ count: Int) {
        let rig = Rig()
        let history = FluxHistory(rig.store, limit: 5)
        rig.store.dispatch(action: .init())
        rig.store.dispatch(action: .init(thing: rig.thing()))
        for _ in 0..<count { history.undo() }
        rig.store.dispatch(action: .init())
        rig.check(1)
    }

    @Test func `An object of an undone entry may dispatch when released by an action to the dispatcher`() async {
        await #expect(processExitsWith: .success) {
            let rig = Rig()
            let history = FluxHistory(rig.store, limit: 5)
            rig.dispatcher.dispatch(action: Holder.Hold())
            rig.dispatcher.dispatch(action: Holder.Hold(thing: rig.thing()))
            history.undo()
            rig.dispatcher.dispatch(action: Holder.Hold())
            rig.check(1)
        }
    }

    @Test func `An object released with its history may dispatch`() async {
        await #expect(processExitsWith: .success) {
            let rig = Rig()
            var history: FluxHistory<Holder>? = FluxHistory(rig.store, limit: 5)
            rig.store.dispatch(action: .init(thing: rig.thing()))
            rig.store.dispatch(action: .init())
            withExtendedLifetime(history) {}
            history = nil
            rig.check(1)
        }
    }

    @Test func `An object that two histories kept may dispatch when a reaction drops it`() async {
        await #expect(processExitsWith: .success) {
            let rig = Rig()
            let histories = (FluxHistory(rig.store, limit: 1), FluxHistory(rig.store, limit: 3))
            rig.store.on(LogOut.self) { state, _ in state.thing = nil }
            for _ in 0..<20 { rig.dispatcher.dispatch(action: Holder.Hold(thing: rig.thing())) }
            for _ in 0..<5 { rig.dispatcher.dispatch(action: LogOut()) }
            rig.check(20)
            withExtendedLifetime(histories) {}
        }
    }
}
