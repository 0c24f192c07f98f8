// Of a part there are an old and a new value.
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(to: \.n) { old, new, more in print(old, new, more) }
}
