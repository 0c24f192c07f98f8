// Views of what there is in every shape: a pack, a collection, and a group whose members come and go.
struct Desk: Sendable {
    let store: FluxStore<Shop>
}

func views(
    _ store: FluxStore<Shop>, _ stores: [String: FluxStore<Shop>], _ sources: [String: any FluxSource<Shop>],
    _ rooms: FluxView<[String: FluxStore<Shop>]>, _ desks: FluxView<[String: Desk]>
) -> [FluxView<Int>] {
    let view = FluxView(store, by: { $0.n == $1.n }) { $0 }
    return [
        FluxView(store, view) { $0.n + $1.n },
        FluxView([store, view]) { $0.count },
        FluxView(stores.values) { shops in shops.reduce(0) { $0 + $1.n } },
        FluxView(stores.values.lazy.filter { $0.state.n > 0 }, by: { $0 == $1 }) { $0.count },
        FluxView(sources.values) { shops in shops.reduce(0) { $0 + $1.n } },
        FluxView(sources.values, by: { $0 == $1 }) { $0.count },
        FluxView(rooms) { shops in shops.values.reduce(0) { $0 + $1.n } },
        FluxView(rooms) { $0.count },
        FluxView(rooms, by: { $0 == $1 }) { shops in shops["a"]?.n ?? 0 },
        FluxView(desks, \.store) { shops in shops.values.reduce(0) { $0 + $1.n } },
        FluxView(desks, { $0.store.view(\.n) }) { numbers in numbers.values.reduce(0, +) },
        FluxView(desks, \.store, by: { $0 == $1 }) { shops in shops["a"]?.n ?? 0 },
    ]
}
