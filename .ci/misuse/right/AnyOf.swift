// Several parts of a state; the delivery stands where it does elsewhere, without a label.
func anyOf(
    _ store: FluxStore<Shop>, _ view: FluxView<Shop>, _ queue: DispatchQueue,
    handler: @escaping @Sendable (Shop, Set<PartialKeyPath<Shop>>) -> Void
) -> [FluxSubscription] {
    [
        store.subscribe(toAnyOf: \.n) { state, changed in print(state.n, changed.count) },
        store.subscribe(toAnyOf: \.n, \.cart) { state, changed in print(state.n, changed.count) },
        store.subscribe(toAnyOf: \.n, \.cart, \.name) { state, changed in
            if changed.contains(\.cart) { print(state.cart) }
        },
        store.subscribe(toAnyOf: \.n, \.cart, on: queue) { state, changed in print(state.n, changed.count) },
        store.subscribe(toAnyOf: \.n, \.cart) { print($0.n, $1.count) },
        store.subscribe(toAnyOf: \.n, \.cart) { _, _ in },
        view.subscribe(toAnyOf: \.n, \.cart) { state, changed in print(state.n, changed.count) },
        view.subscribe(toAnyOf: \.n, \.cart, on: queue) { state, changed in print(state.n, changed.count) },
    ]
}
