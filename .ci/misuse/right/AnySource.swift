// All of it on a source of which nothing is known but its state.
func anySource(
    _ source: any FluxSource<Shop>, handler: @escaping @Sendable (Shop) -> Void,
    number: @escaping @Sendable (Int) -> Void
) -> [FluxSubscription] {
    [
        source.subscribe(handler),
        source.subscribe({ print($0.n) }),
        source.subscribe { print($0.n) },
        source.subscribe(.latest) { print($0.n) },
        source.subscribe(to: \.n, number),
        source.subscribe(to: \.n) { print($0) },
        source.subscribe(toAnyOf: \.n, \.cart) { state, changed in print(state.n, changed.count) },
    ]
}
