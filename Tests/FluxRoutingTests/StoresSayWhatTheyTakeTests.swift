import FluxCore
import FluxRouting
import TestSupport
import Testing

/// A store reports what it accepts, by the type of an action or by an action of unknown type.
@Suite struct StoresSayWhatTheyTakeTests {
    struct Unknown: FluxAction {}

    let store = FluxStore(initialState: Counter(), dispatcher: nil)

    @Test func `It takes the actions of its state, and those that it reacts to`() {
        #expect(store.responds(to: Counter.Action.self))
        #expect(!store.responds(to: LogOut.self))
        let reaction = store.on(LogOut.self) { state, _ in state.count = 0 }
        #expect(store.responds(to: LogOut.self))
        reaction.remove()
        #expect(!store.responds(to: LogOut.self) && store.responds(to: Counter.Action.self))
    }

    @Test func `It is asked with an action too, of any type`() {
        let reaction = store.on(LogOut.self) { state, _ in state.count = 0 }
        let actions: [any FluxAction] = [Counter.Action.add(1), LogOut(), Unknown()]
        #expect(actions.map { store.responds(to: $0) } == [true, true, false])
        reaction.remove()
        #expect(actions.map { store.responds(to: $0) } == [true, false, false])
        #expect(store.revision == 0, "asking changes nothing")
    }

    @Test func `And with a type that is known only while it runs`() {
        let types: [any FluxAction.Type] = [Counter.Action.self, LogOut.self]
        #expect(types.map { store.responds(to: $0) } == [true, false])
    }

    @Test func `Where it is attached makes no difference`() {
        let dispatcher = FluxDispatcher()
        dispatcher.attach(store)
        #expect(store.responds(to: Counter.Action.self) && !store.responds(to: LogOut.self))
        dispatcher.detach(store)
        #expect(store.responds(to: Counter.Action.self) && !store.responds(to: LogOut.self))
    }
}
