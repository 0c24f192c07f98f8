// A handler of the main actor, which may use what belongs to that.
@MainActor final class Label {
    var text = ""
}

@MainActor func mainActor(
    _ store: FluxStore<Shop>, _ view: FluxView<Shop>, _ label: Label,
    handler: @escaping @MainActor @Sendable (Shop) -> Void
) -> [FluxSubscription] {
    [
        store.subscribe(on: .main, handler),
        store.subscribe(on: .main) { label.text = $0.name },
        store.subscribe(.latest, on: .main, startingWithCurrent: true) { label.text = $0.name },
        store.subscribe(to: \.name, on: .main) { label.text = $0 },
        store.subscribe(to: \.name, .latest, on: .main) { old, new in label.text = old + new },
        store.subscribe(toAnyOf: \.n, \.name, on: .main) { state, changed in
            if changed.contains(\.name) { label.text = state.name }
        },
        store.subscribe(.buffered(newest: 3), on: .main) { label.text = $0.name },
        store.subscribe(failingAfter: 3, on: .main) { label.text = (try? $0.get().name) ?? "" },
        view.subscribe(on: .main, handler),
        view.subscribe(on: .main) { label.text = $0.name },
        view.subscribe(to: \.name, on: .main) { label.text = $0 },
    ]
}
