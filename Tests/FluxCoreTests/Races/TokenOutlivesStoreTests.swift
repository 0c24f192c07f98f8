import FluxCore
import TestSupport
import Testing

/// A token that is kept holds neither handler nor store, even if the store ends while threads unsubscribe.
@Suite struct TokenOutlivesStoreTests {
    @Test(arguments: [0, 1, 2, 3])
    func `A kept token keeps neither the handler nor the store`(cancelling: Int) async {
        for round in 0..<3_000 {
            let (storeGone, handlerGone) = (Gate(), Gate())
            let store = Locked<FluxStore<Held>?>(FluxStore(initialState: Held(Canary(storeGone)), dispatcher: nil))
            let subscription = subscribe(store.current!, Canary(handlerGone))
            if round % 2 == 0 { store.current!.dispatch(action: .touch) }
            await onThreads(1 + cancelling) { index in
                if index == 0 { store.withLock { $0 = nil } } else { subscription.unsubscribe() }
            }
            await handlerGone.opened()
            await storeGone.opened()
            subscription.unsubscribe()
        }
    }

    private func subscribe(_ store: FluxStore<Held>, _ canary: Canary) -> FluxSubscription {
        store.subscribe { _ in withExtendedLifetime(canary) {} }
    }
}

/// A state that opens a gate when it is released.
private struct Held: FluxState {
    enum Action: FluxAction { case touch }

    let canary: Canary

    init(_ canary: Canary) {
        self.canary = canary
    }

    mutating func handle(action: Action) -> Held? { self }
}
