// A handler that is a value, of every kind of source and with every option before it.
func functionValues(
    _ store: FluxStore<Shop>, _ view: FluxView<Shop>, _ source: some FluxSource<Shop>, _ queue: DispatchQueue,
    handler: @escaping @Sendable (Shop) -> Void
) -> [FluxSubscription] {
    [
        store.subscribe(handler),
        store.subscribe(.latest, handler),
        store.subscribe(on: queue, handler),
        store.subscribe(startingWithCurrent: true, handler),
        store.subscribe(.latest, on: queue, startingWithCurrent: true, handler),
        view.subscribe(handler),
        view.subscribe(.latest, handler),
        view.subscribe(on: queue, handler),
        view.subscribe(startingWithCurrent: true, handler),
        view.subscribe(.latest, on: queue, startingWithCurrent: true, handler),
        source.subscribe(handler),
        source.subscribe(.latest, handler),
        source.subscribe(on: queue, startingWithCurrent: true, handler),
    ]
}
