// The delivery of several parts stands where it does elsewhere, without a label.
func anyOfByADelivery(
    _ store: FluxStore<Shop>, _ view: FluxView<Shop>, _ queue: DispatchQueue
) -> [FluxSubscription] {
    [
        store.subscribe(toAnyOf: \.n, .latest) { state, changed in print(state.n, changed.count) },
        store.subscribe(toAnyOf: \.n, \.cart, .latest) { state, changed in print(state.n, changed.count) },
        store.subscribe(toAnyOf: \.n, \.cart, .latest, on: queue) { state, changed in
            print(state.n, changed.count)
        },
        view.subscribe(toAnyOf: \.n, \.cart, .latest) { state, changed in print(state.n, changed.count) },
    ]
}
