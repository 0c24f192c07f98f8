import FluxCore
import FluxRouting
import TestSupport
import Testing

/// A store reports what it accepts, by the type of an action or by an action of unknown type.
@Suite struct StoresSayWhatTheyTakeTests {
    struct Unknown: FluxAction {}

    let store = FluxStore(initialState: Counter(), dispatcher: nil)

    @Test func `A store responds to the actions of its state, and to those it has reactions for`() {
        #expect(store.responds(to: Counter.Action.self))
        #expect(!store.responds(to: LogOut.self))
        let reaction = store.on(LogOut.self) { state, _ in state.count = 0 }
        #expect(store.responds(to: LogOut.self))
        reaction.remove()
        #expect(!store.responds(to: LogOut.self) && store.responds(to: Counter.Action.self))
    }

    @Test func `responds(to:) accepts an action of any type, and changes nothing`() {
        let reaction = store.on(LogOut.self) { state, _ in state.count = 0 }
        let actions: [any FluxAction] = [Counter.Action.add(1), LogOut(), Unknown()]
        #expect(actions.map { store.responds(to: $0) } == [true, true, false])
        reaction.remove()
        #expect(actions.map { store.responds(to: $0) } == [true, false, false])
        #expect(store.revision == 0, "asking changes nothing")
    }

    @Test func `responds(to:) accepts a type that is known only at run time`() {
        let types: [any FluxAction.Type] = [Counter.Action.self, LogOut.self]
        #expect(types.map { store.responds(to: $0) } == [true, false])
    }

    @Test func `Attaching or detaching a store does not change the actions it responds to`() {
        let dispatcher = FluxDispatcher()
        dispatcher.attach(store)
        #expect(store.responds(to: Counter.Action.self) && !store.responds(to: LogOut.self))
        dispatcher.detach(store)
        #expect(store.responds(to: Counter.Action.self) && !store.responds(to: LogOut.self))
    }
}
