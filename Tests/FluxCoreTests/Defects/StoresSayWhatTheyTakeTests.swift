import FluxCore
import TestSupport
import Testing

/// A store can be asked what it takes, by the type of an action or by an action of which nothing else is known.
@Suite struct StoresSayWhatTheyTakeTests {
    struct Unknown: FluxAction {}

    let store = FluxStore(initialState: Counter(), dispatcher: nil)

    @Test func `It takes the actions of its state, and those that it reacts to`() {
        #expect(takes(Counter.Action.self))
        #expect(!takes(LogOut.self))
        let reaction = store.on(LogOut.self) { state, _ in state.count = 0 }
        #expect(takes(LogOut.self))
        reaction.remove()
        #expect(!takes(LogOut.self) && takes(Counter.Action.self))
    }

    @Test func `It is asked of an action too, of any type`() {
        let reaction = store.on(LogOut.self) { state, _ in state.count = 0 }
        let actions: [any FluxAction] = [Counter.Action.add(1), LogOut(), Unknown()]
        #expect(actions.map { takes(type(of: $0)) } == [true, true, false])
        reaction.remove()
        #expect(actions.map { takes(type(of: $0)) } == [true, false, false])
        #expect(store.revision == 0, "asking changes nothing")
    }

    @Test func `And with a type that is known only while it runs`() {
        let types: [any FluxAction.Type] = [Counter.Action.self, LogOut.self]
        #expect(types.map { takes($0) } == [true, false])
    }

    @Test func `Where it is attached makes no difference`() {
        let dispatcher = FluxDispatcher()
        dispatcher.attach(store)
        #expect(takes(Counter.Action.self) && !takes(LogOut.self))
        dispatcher.detach(store)
        #expect(takes(Counter.Action.self) && !takes(LogOut.self))
    }

    private func takes(_ type: any FluxAction.Type) -> Bool { FluxStoreInfo(store.handle).takes(type) }
}
