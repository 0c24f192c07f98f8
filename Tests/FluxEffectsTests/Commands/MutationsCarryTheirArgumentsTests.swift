import FluxCore
import FluxEffects
import TestSupport
import Testing

/// A mutation carries its arguments, so a subscriber to actions sees these and not only its name.
@Suite struct MutationsCarryTheirArgumentsTests {
    struct Basket: FluxState {
        typealias Action = FluxMutation<Basket>
        var items: [String] = []
    }

    @Test func `The description of a mutation contains its argument`() {
        let store = FluxStore(initialState: Basket(items: ["milk", "eggs"]), dispatcher: nil)
        store.dispatch(action: .remove("milk"))
        #expect(store.state.items == ["eggs"])
        let text = "\(FluxMutation<Basket>.remove("milk"))"
        #expect(text.contains("remove") && text.contains("milk"), "\(text)")
    }

    @Test func `The description contains several arguments in order, and a mutation can have none`() {
        let text = "\(FluxMutation<Basket>.replace("milk", with: "oats"))"
        #expect(text.contains("replace"), "\(text)")
        let (first, last) = (text.firstRange(of: "milk"), text.firstRange(of: "oats"))
        #expect(first != nil && last != nil && first!.upperBound <= last!.lowerBound, "\(text)")
        #expect("\(FluxMutation<Basket>.clear)".contains("clear"))
        #expect("\(FluxMutation<Basket>.add("milk"))" == "add(milk)")
    }

    @Test func `An observer of the store sees the arguments of a mutation`() {
        let store = FluxStore(initialState: Basket(items: ["milk"]), dispatcher: nil)
        let actions = Actions(store)
        store.dispatch(action: .remove("milk"))
        #expect(actions.seen.values == ["remove(milk)"])
        #expect(FluxMutation<Basket>.replace("milk", with: "oats").arguments as? [String] == ["milk", "oats"])
    }
}

extension FluxMutation<MutationsCarryTheirArgumentsTests.Basket> {
    static func remove(_ item: String) -> Self { Self("remove", item) { $0.items.removeAll { $0 == item } } }
    static func replace(_ old: String, with new: String) -> Self {
        Self("replace", old, new) { state in state.items = state.items.map { $0 == old ? new : $0 } }
    }
    static func add(_ item: String) -> Self { Self(#function, item) { $0.items.append(item) } }
    static var clear: Self { Self("clear") { $0.items = [] } }
}
