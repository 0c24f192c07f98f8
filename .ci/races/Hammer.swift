// Does to one dispatcher, from several threads at once, all that the library allows, and checks the sums.
// `.ci/check-races` compiles it together with the sources, once with a lock that does not lock.
import Dispatch

enum HammerConverter: FluxActionConverter {
    enum Event: FluxEvent { case hit(Int) }
    enum Action: FluxAction { case add(Int) }

    static func convert(event: Event, dependency: Void, actionHandler: @escaping @Sendable (Action) -> Void) {
        switch event {
        case .hit(let amount): actionHandler(.add(amount))
        }
    }
}

struct HammerState: FluxState {
    private(set) var sum = 0
    /// Heap memory that moves now and then, as states have it.
    private(set) var last: [Int] = []

    mutating func handle(action: HammerConverter.Action) -> HammerState? {
        switch action {
        case .add(let amount):
            sum += amount
            if last.count == 64 { last = [] }
            last.append(amount)
        }
        return self
    }
}

/// What one subscription saw; unguarded, because one handler is never called twice at once.
final class Seen: @unchecked Sendable {
    var calls = 0
    var sum = 0
}

@main
enum Hammer {
    static func main() async {
        let (threads, rounds) = (4, 2_000)
        let dispatcher = FluxDispatcher()
        let stores = (0..<2).map { _ in FluxStore(initialState: HammerState(), dispatcher: dispatcher) }
        let queue = DispatchQueue(label: "handlers")
        let seen = (0..<6).map { _ in Seen() }
        let subscriptions = seen.enumerated().map { index, seen in
            stores[index % 2].subscribe(on: index < 2 ? queue : nil) { state in
                seen.calls += 1
                seen.sum = state.sum
            }
        }
        let creator = FluxActionCreator<HammerConverter>(dispatcher: dispatcher)

        DispatchQueue.concurrentPerform(iterations: threads) { thread in
            for round in 0..<rounds {
                dispatcher.dispatch(action: HammerConverter.Action.add(1))
                if round % 10 == 0 { creator.fire(.hit(1)) }
                if round % 10 == 1 { _ = stores[thread % 2].state.last.count }
                if round % 10 == 2 { _ = stores[thread % 2].subscribe { _ in } }
                if round % 50 == 3 { _ = FluxStore(initialState: HammerState(), dispatcher: dispatcher).revision }
            }
        }
        await creator.flush()
        for store in stores { await store.flush() }
        for subscription in subscriptions { subscription.unsubscribe() }

        let expected = threads * (rounds + rounds / 10)
        let sums = stores.map(\.state.sum) + seen.map(\.sum) + seen.map(\.calls)
        print("expected \(expected) in all places, found \(sums)")
        if sums.contains(where: { $0 != expected }) { fatalError("an update was lost") }
    }
}
