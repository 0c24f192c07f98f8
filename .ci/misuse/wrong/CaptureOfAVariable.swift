// Two threads would change the sum at once.
// says: mutation of captured var 'sum' in concurrently-executing code
func wrong(store: FluxStore<Shop>) {
    var sum = 0
    _ = store.subscribe { sum += $0.n }
    print(sum)
}
