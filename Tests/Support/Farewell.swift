import FluxCore

/// An object that dispatches when it is released, as anything held by a state or a closure may do.
public final class Farewell: Sendable {
    private let store: FluxStore<Counter>

    /// Creates an object that will add one to the count of a store.
    public init(to store: FluxStore<Counter>) {
        self.store = store
    }

    deinit { store.dispatch(action: .add(1)) }
}

/// A state that holds an object until it is emptied, which releases the object inside `handle`.
public struct Drawer: FluxState {
    /// The action that empties the drawer.
    public enum Action: FluxAction { case empty }

    private var content: (any Sendable)?

    /// Creates a drawer that holds a value.
    public init(_ content: any Sendable) {
        self.content = content
    }

    /// Releases the content.
    public mutating func handle(action: Action) -> Drawer? {
        content = nil
        return self
    }

    /// Empties many drawers, each holding a farewell indirectly, and returns once all farewells have been dispatched.
    public static func emptyMany(_ count: Int = 2_000, _ make: (Farewell) -> any Sendable) async {
        let (target, said) = (FluxStore(initialState: Counter(), dispatcher: nil), Highest())
        let subscription = target.subscribe { said.see($0.count) }
        for _ in 0..<count {
            FluxStore(initialState: Drawer(make(Farewell(to: target))), dispatcher: nil).dispatch(action: .empty)
        }
        await said.reaches(count)
        subscription.unsubscribe()
    }
}
