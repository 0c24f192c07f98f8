// A part of a state, with a value for a handler, in parentheses and behind the call.
func parts(
    _ store: FluxStore<Shop>, _ view: FluxView<Shop>, _ queue: DispatchQueue,
    handler: @escaping @Sendable (Int) -> Void, change: @escaping @Sendable (Int, Int) -> Void
) -> [FluxSubscription] {
    [
        store.subscribe(to: \.n, handler),
        store.subscribe(to: \.n, .latest, handler),
        store.subscribe(to: \.n, on: queue, handler),
        store.subscribe(to: \.n, startingWithCurrent: true, handler),
        store.subscribe(to: { $0.n + 1 }, handler),
        store.subscribe(to: \.n, by: { $0 == $1 }, handler),
        store.subscribe(to: \.n, change),
        store.subscribe(to: \.n, { print($0) }),
        store.subscribe(to: \.n, { old, new in print(old, new) }),
        store.subscribe(to: \.n) { print($0) },
        store.subscribe(to: \.n) { old, new in print(old, new) },
        store.subscribe(to: \.cart.first) { first in print(first ?? "") },
        view.subscribe(to: \.n, handler),
        view.subscribe(to: \.n, .latest, handler),
        view.subscribe(to: \.n, { print($0) }),
        view.subscribe(to: \.n) { old, new in print(old, new) },
    ]
}
