// A handler that is a function or a method by its name.
@Sendable func show(_ shop: Shop) { print(shop.n) }

struct Screen: Sendable {
    func show(_ shop: Shop) { print(shop.n) }
    func show(number: Int) { print(number) }
}

func functions(_ store: FluxStore<Shop>, _ view: FluxView<Shop>, _ screen: Screen) -> [FluxSubscription] {
    [
        store.subscribe(show),
        store.subscribe(screen.show(_:)),
        view.subscribe(show),
        view.subscribe(screen.show(_:)),
        store.subscribe(to: \.n, screen.show(number:)),
    ]
}
