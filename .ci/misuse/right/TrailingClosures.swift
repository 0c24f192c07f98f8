// A closure behind the call, of several lines too, whose type the compiler does not infer from inside.
func trailingClosures(
    _ store: FluxStore<Shop>, _ view: FluxView<Shop>, _ source: some FluxSource<Shop>, _ queue: DispatchQueue
) -> [FluxSubscription] {
    [
        store.subscribe { print($0.n) },
        store.subscribe { _ in },
        store.subscribe { state in
            let n = state.n
            print(n)
        },
        store.subscribe(.latest, on: queue, startingWithCurrent: true) { state in print(state.n) },
        view.subscribe { print($0.n) },
        view.subscribe(.buffered(newest: 3)) { state in
            let n = state.n
            print(n)
        },
        source.subscribe { print($0.n) },
    ]
}
