import FluxCore
import Foundation
import TestSupport
import Testing

@testable import FluxRouting

/// A store that is given a name while another thread is in the middle of detaching it.
@Suite(.timeLimit(.minutes(5))) struct NamesWhileStoresGoTests {
    /// Runs a closure while a store is being detached.
    final class Watching: FluxDispatcherObserver {
        let body: @Sendable () -> Void
        init(_ body: @escaping @Sendable () -> Void) { self.body = body }
        func attached<State>(_ handle: FluxStoreHandle<State>) {}
        func detached<State>(_ handle: FluxStoreHandle<State>) { body() }
    }

    let dispatcher = FluxDispatcher()
    let store = FluxStore(initialState: Log(), dispatcher: nil)

    /// Attaches the store as "new" while it is being detached, so that the name is given before the detaching frees it.
    ///
    /// `freed` runs after that.
    func attachWhileDetached(freed: @escaping @Sendable (FluxNames) -> Void = { _ in }) throws {
        let (names, started) = (Locked<FluxNames?>(nil), Gate())
        let isFirst = Locked(true)
        let before = Watching {
            guard isFirst.withLock({ $0 }), let names = names.withLock({ $0 }) else { return }
            started.open()
            while names.holder(of: "new") == nil { sched_yield() }
        }
        let after = Watching {
            let isDue = isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst
            }
            if isDue, let names = names.withLock({ $0 }) { freed(names) }
        }
        // The order matters: the names of the dispatcher are an observer between these two.
        dispatcher.observe(before)
        try dispatcher.attach(store, as: "old")
        dispatcher.observe(after)
        names.withLock { $0 = dispatcher.featureIfAny(FluxNames.self) }
        let detaching = DispatchGroup()
        DispatchQueue.global().async(group: detaching) { [dispatcher, store] in dispatcher.detach(store) }
        started.wait()
        defer { detaching.wait() }
        try dispatcher.attach(store, as: "new")
    }

    @Test func `A store attached under a new name during its detachment has that name`() throws {
        try attachWhileDetached()
        #expect(dispatcher.stores.map(\.name) == ["new"])
        #expect(dispatcher.dispatch(action: Counter.Action.add(1), to: "new"))
        #expect(dispatcher.detach(named: "new") && dispatcher.stores.isEmpty)
    }

    @Test func `A store that is given its first name keeps no other name waiting while it is busy`() async throws {
        let quick = FluxStore(initialState: Log(), dispatcher: nil)
        try dispatcher.attach(quick, as: "quick")
        try await whileLocked(store.handle) {
            try dispatcher.attach(store, as: "busy")
            #expect(dispatcher.dispatch(action: Counter.Action.add(1), to: "quick"))
        }
        #expect(dispatcher.stores.map(\.name) == ["quick", "busy"])
    }

    @Test func `Once a store is detached, an action to its name no longer reaches it`() throws {
        for _ in 0..<20 {
            let (passed, detaching) = (Gate(), DispatchGroup())
            let dispatcher = FluxDispatcher()
            dispatcher.add(FluxInterceptor.before { _ in passed.open() })
            dispatcher.observe(
                Watching { [dispatcher] in
                    // The name is still there, and the dispatcher's lock is held.
                    DispatchQueue.global().async(group: detaching) {
                        dispatcher.dispatch(action: Counter.Action.add(1), to: "one")
                    }
                    passed.wait()
                    for _ in 0..<1_000 { sched_yield() }
                })
            try dispatcher.attach(store, as: "one")
            dispatcher.detach(store)
            let entries = store.state.entries
            detaching.wait()
            #expect(store.state.entries == entries)
        }
    }

    @Test func `The store stays detached if another store has taken the name meanwhile`() throws {
        let other = FluxStore(initialState: Log(), dispatcher: dispatcher)
        #expect(throws: FluxNameTaken.self) {
            try attachWhileDetached { names in #expect(names.give("new", to: other.handle) == nil) }
        }
        #expect(dispatcher.stores.count == 1 && dispatcher.stores[0].isOf(other))
    }
}
