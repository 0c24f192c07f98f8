// A closure in parentheses, of every kind of source and with every option before it.
func parentheses(
    _ store: FluxStore<Shop>, _ view: FluxView<Shop>, _ source: some FluxSource<Shop>, _ queue: DispatchQueue
) -> [FluxSubscription] {
    [
        store.subscribe({ print($0.n) }),
        store.subscribe({ state in print(state.n) }),
        store.subscribe({ (state: Shop) in print(state.n) }),
        store.subscribe(.latest, { print($0.n) }),
        store.subscribe(on: queue, { print($0.n) }),
        store.subscribe(startingWithCurrent: true, { print($0.n) }),
        view.subscribe({ print($0.n) }),
        view.subscribe({ state in print(state.n) }),
        view.subscribe(.latest, on: queue, startingWithCurrent: true, { print($0.n) }),
        source.subscribe({ print($0.n) }),
        source.subscribe(.latest, { print($0.n) }),
    ]
}
