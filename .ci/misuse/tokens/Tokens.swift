// How long a token in a local constant lasts, optimised: a class as long as its scope, an array until its last use.
//
// Built with `-O`. A line tells how often a handler was called for one change that came while its token was to last.

struct Tally: FluxState {
    struct Add: FluxAction {}

    var count = 0

    mutating func handle(action: Add) -> Tally? {
        count += 1
        return self
    }
}

final class Seen: Sendable {
    private let count = Atomic<Int>(0)

    func see() { count.add(1, ordering: .sequentiallyConsistent) }
    var text: String { "\(count.load(ordering: .sequentiallyConsistent))" }
}

@inline(never) func change(_ store: FluxStore<Tally>) async {
    store.dispatch(action: .init())
    await store.flush()
}

@inline(never) func array(_ store: FluxStore<Tally>, _ seen: Seen) async {
    let tokens = [store.subscribe { _ in seen.see() }]
    await change(store)
    _ = tokens
}

@inline(never) func extendedArray(_ store: FluxStore<Tally>, _ seen: Seen) async {
    let tokens = [store.subscribe { _ in seen.see() }]
    await change(store)
    withExtendedLifetime(tokens) {}
}

@inline(never) func tokenOfMany(_ store: FluxStore<Tally>, _ seen: Seen) async {
    let token = FluxSubscription([store.subscribe { _ in seen.see() }])
    await change(store)
    token.unsubscribe()
}

@inline(never) func ended(_ store: FluxStore<Tally>, _ seen: Seen) async {
    let token = store.subscribe { _ in seen.see() }
    await change(store)
    token.unsubscribe()
}

final class Owner {
    private var tokens: [FluxSubscription] = []

    func begin(_ store: FluxStore<Tally>, _ seen: Seen) {
        store.subscribe { _ in seen.see() }.store(in: &tokens)
    }
}

@inline(never) func property(_ store: FluxStore<Tally>, _ seen: Seen) async {
    let owner = Owner()
    owner.begin(store, seen)
    await change(store)
    withExtendedLifetime(owner) {}
}

typealias Way = (FluxStore<Tally>, Seen) async -> Void
let ways: [(String, Way)] = [
    ("array, and _ = tokens", array),
    ("array, withExtendedLifetime", extendedArray),
    ("token of many, unsubscribed", tokenOfMany),
    ("token, unsubscribed", ended),
    ("array in a property", property),
]
for (name, way) in ways {
    let (store, seen) = (FluxStore(initialState: Tally(), dispatcher: nil), Seen())
    await way(store, seen)
    print("\(name): \(seen.text)")
}
