import FluxCore

/// Dispatches when it goes, as what a state or a closure holds may do.
public final class Farewell: Sendable {
    private let store: FluxStore<Counter>

    /// Will add one to the count of a store.
    public init(to store: FluxStore<Counter>) {
        self.store = store
    }

    deinit { store.dispatch(action: .add(1)) }
}

/// A state that holds anything until it is emptied: what it held then goes inside `handle`.
public struct Drawer: FluxState {
    /// What empties it.
    public enum Action: FluxAction { case empty }

    private var content: (any Sendable)?

    /// Holds something.
    public init(_ content: any Sendable) {
        self.content = content
    }

    /// Lets go of what it holds.
    public mutating func handle(action: Action) -> Drawer? {
        content = nil
        return self
    }

    /// Empties drawers, each of which holds something that holds a farewell; returns once all have been said.
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
