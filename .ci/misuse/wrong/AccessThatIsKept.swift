// What the lock of a store guards belongs to the closure that it is given to: it cannot be copied out of it.
// says: has no member 'revision'
func wrong(store: FluxStore<Shop>) {
    let kept = store.handle.withAccess { $0 }
    print(kept.revision)
}
