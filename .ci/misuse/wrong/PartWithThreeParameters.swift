// Of a part there are an old and a new value.
// says: expects 1 argument, but 3 were used in closure body
func wrong(store: FluxStore<Shop>) {
    _ = store.subscribe(to: \.n) { old, new, more in print(old, new, more) }
}
