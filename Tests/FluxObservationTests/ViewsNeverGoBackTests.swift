import FluxCore
import FluxObservation
import TestSupport
import Testing

/// C11: the values of one view never go back in any store, even if no dispatcher holds the stores still.
///
/// Without a dispatcher, two threads may take their cuts of many stores at the same time, each reading some stores
/// before a change and some after it. Then neither cut is the newer one, whatever their sums are: shown one after the
/// other, one store advances and another goes back.
@Suite struct ViewsNeverGoBackTests {
    /// Sees values one after the other, and counts those in which some store is behind its previous value.
    private final class Follower: Sendable {
        private let state = Locked((highest: [Int](), steps: 0, backs: 0))

        var backs: Int { state.withLock { $0.backs } }
        var last: [Int] { state.withLock { $0.highest } }

        func see(_ counts: [Int]) {
            state.withLock { state in
                if zip(counts, state.highest).contains(where: { $0 < $1 }) { state.backs += 1 }
                state.highest = counts
                state.steps += 1
            }
        }
    }

    private static let storeCount = 20
    private static let rounds = 40_000

    /// Two threads change the stores, each its own half, while two others read views of them.
    ///
    /// - Returns: How often each subscription and each reader saw an older state of a store than before.
    private func storm(_ stores: [FluxStore<Counter>], _ views: [FluxView<[Int]>]) async -> [Int] {
        let (every, latest) = (Follower(), Follower())
        let readers = [[Follower(), Follower()], [Follower(), Follower()]]
        let isOver = Locked(0)
        let token = FluxSubscription([
            views[0].subscribe { every.see($0) }, views[views.count - 1].subscribe(.latest) { latest.see($0) },
        ])
        await onThreads(4) { thread in
            if thread < 2 {
                for round in 0..<Self.rounds {
                    stores[(round * 2 + thread) % stores.count].dispatch(action: .add(1))
                }
                isOver.withLock { $0 += 1 }
            } else {
                while isOver.current < 2 {
                    for (view, reader) in zip(views, readers[thread - 2]) { reader.see(view.state) }
                }
            }
        }
        for view in views { await view.flush() }
        let sum = Self.rounds * 2
        for view in views { #expect(view.state.reduce(0, +) == sum, "all is seen in the end") }
        for follower in [every, latest] { #expect(follower.last.reduce(0, +) == sum, "and delivered") }
        token.unsubscribe()
        let followers: [Follower] = [every, latest] + readers[0] + readers[1]
        return followers.map(\.backs)
    }

    private func stores() -> [FluxStore<Counter>] {
        (0..<Self.storeCount).map { _ in FluxStore(initialState: Counter(), dispatcher: nil) }
    }

    @Test(.stress) func `Stress: a view of stores without a dispatcher never goes back in any store`() async {
        let stores = stores()
        let view = FluxView(stores) { $0.map(\.count) }
        let backs = await storm(stores, [view])
        #expect(backs.max() == 0, "\(backs)")
    }

    @Test(.stress) func `Stress: two views of two shared views never go back in any store`() async {
        let stores = stores()
        let half = FluxView(Array(stores[10...])) { $0.map(\.count) }
        let other = FluxView(Array(stores[..<10])) { $0.map(\.count) }
        let views: [FluxView<[Int]>] = [
            FluxView(other, half) { (one: [Int], two: [Int]) in one + two },
            FluxView(half, other) { (one: [Int], two: [Int]) in one + two },
        ]
        let backs = await storm(stores, views)
        #expect(backs.max() == 0, "\(backs)")
    }

    @Test(.stress) func `Stress: a view of stores that have a dispatcher each never goes back in any store`() async {
        let dispatchers = (0..<Self.storeCount).map { _ in FluxDispatcher() }
        let stores = dispatchers.map { FluxStore(initialState: Counter(), dispatcher: $0) }
        let view = FluxView(stores) { $0.map(\.count) }
        let backs = await storm(stores, [view])
        #expect(backs.max() == 0, "what goes past a dispatcher is not held up by it: \(backs)")
    }

    @Test(.stress) func `Stress: once a thread has seen a change in a view, no other gets an older value`() async {
        let stores = stores()
        let view = FluxView(stores) { $0.map(\.count) }
        // What a read has seen is recorded under a lock, which every read takes first: so the reads have an order.
        let seen = Locked([Int](repeating: 0, count: stores.count))
        let backs = Locked(0)
        let isOver = Locked(0)
        await onThreads(4) { thread in
            if thread < 2 {
                for round in 0..<Self.rounds {
                    stores[(round * 2 + thread) % stores.count].dispatch(action: .add(1))
                }
                isOver.withLock { $0 += 1 }
                return
            }
            while isOver.current < 2 {
                let before = seen.current
                let counts = view.state
                if zip(counts, before).contains(where: { $0 < $1 }) { backs.withLock { $0 += 1 } }
                seen.withLock { seen in seen = zip(seen, counts).map { max($0, $1) } }
            }
        }
        #expect(backs.current == 0)
    }
}
