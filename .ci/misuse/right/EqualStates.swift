// One word skips equal states, where a state is Equatable.
struct Shelf: FluxState, Equatable {
    var goods: [String] = []

    mutating func handle(action: LogOut) -> Shelf? { self }
}

func equalStates(_ store: FluxStore<Shelf>, handler: @escaping @Sendable (Shelf) -> Void) -> [FluxSubscription] {
    [
        store.subscribe(to: \.self) { shelf in print(shelf.goods) },
        store.subscribe(to: \.self, .latest) { shelf in print(shelf.goods) },
        store.subscribe(to: \.self, handler),
    ]
}
