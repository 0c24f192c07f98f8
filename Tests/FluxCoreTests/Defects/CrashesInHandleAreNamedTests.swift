import FluxCore
import TestSupport
import Testing

/// If a program stops inside `handle`, the message names the types of the state and the action.
///
/// Nothing else in the message points to the file with the faulty call, and a server has no debugger.
@Suite struct CrashesInHandleAreNamedTests {
    enum Feeding: FluxAction { case feedTheLobster(Int) }

    /// A state whose name appears in no message by chance.
    struct Aquarium: FluxState {
        typealias Action = Feeding

        let other: FluxStore<Counter>?

        mutating func handle(action: Action) -> Aquarium? {
            if case .feedTheLobster(let amount) = action { other?.dispatch(action: .add(amount)) }
            return self
        }
    }

    private func expect(_ result: ExitTest.Result?, names parts: [String]) {
        let text = result.said
        for part in parts { #expect(text.contains(part), "\(text)") }
    }

    @Test func `A forbidden call in handle stops the program and names the types of state and action`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let other = FluxStore(initialState: Counter(), dispatcher: nil)
            FluxStore(initialState: Aquarium(other: other), dispatcher: nil).dispatch(action: .feedTheLobster(41))
        }
        expect(result, names: ["inside FluxState.handle(action:)", "Aquarium", "handle(action: Feeding)"])
    }

    @Test func `A forbidden call in handle names both types for an action of a dispatcher too`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let (other, dispatcher) = (FluxStore(initialState: Counter(), dispatcher: nil), FluxDispatcher())
            let store = FluxStore(initialState: Aquarium(other: other), dispatcher: dispatcher)
            store.handle.label = "the big one"
            dispatcher.dispatch(action: Feeding.feedTheLobster(41))
            withExtendedLifetime(store) {}
        }
        let place = "handle(action: Feeding) of the store the big one"
        expect(result, names: ["inside FluxState.handle(action:)", "Aquarium", place])
    }
}
