import Dispatch
import Testing

@testable import FluxCore

/// A `flush()` that has begun to wait: it may return neither before the last handler nor not at all.
@Suite struct FlushWhileSomethingIsDueTests {
    @Test func `It returns when the last subscription goes, though its queue never runs`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let subscription = store.subscribe(on: queue) { _ in }
        store.dispatch(action: .add(1))
        let flushing = Task { await store.flush() }
        await waiters(of: store, are: 1)
        subscription.unsubscribe()
        await flushing.value
        queue.resume()
    }

    @Test func `It returns after the handler, not before`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let (entered, gate) = (Gate(), Gate())
        let seen = Recorder<Int>()
        let subscription = store.subscribe(on: queue) { state in
            entered.open()
            gate.wait()
            seen.record(state.count)
        }
        store.dispatch(action: .add(1))
        let flushing = Task {
            await store.flush()
            return seen.values
        }
        await waiters(of: store, are: 1)
        queue.resume()
        await entered.opened()
        await patience()
        gate.open()
        #expect(await flushing.value == [1])
        subscription.unsubscribe()
    }

    @Test func `It returns after the handlers on every queue, not on the first that is done`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gates = (0..<3).map { _ in Gate() }
        let seen = Recorder<Int>()
        let subscriptions = gates.enumerated().map { index, gate in
            store.subscribe(on: DispatchQueue(label: "queue \(index)")) { _ in
                gate.wait()
                seen.record(index)
            }
        }
        store.dispatch(action: .add(1))
        let flushing = Task {
            await store.flush()
            return seen.values.sorted()
        }
        await waiters(of: store, are: 3)
        for (index, gate) in gates.enumerated() {
            await patience()
            gate.open()
            await seen.count(index + 1)
        }
        #expect(await flushing.value == [0, 1, 2])
        subscriptions.forEach { $0.unsubscribe() }
    }

    enum Way: CaseIterable, Sendable { case states, part, anyOf, owner, failing }

    @Test(
        .timeLimit(.minutes(1)), arguments: Way.allCases,
        [FluxDelivery.every, .latest, .buffered(newest: 2), .buffered(newest: 9), .buffered(oldest: 2)])
    func `It returns when the subscription ends inside its handler, whatever still waited for it`(
        way: Way, delivery: FluxDelivery
    ) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate) = (Gate(), Gate())
        // Its own: of those that stores share, few threads may be blocked.
        let queue = DispatchQueue(label: "blocked")
        let kept = Locked<(any Sendable)?>(nil)
        let handle: @Sendable () -> Void = {
            entered.open()
            gate.wait()
            let gone = kept.withLock { $0.take() }
            withExtendedLifetime(gone) {}
        }
        switch way {
        case .states: kept.withLock { $0 = store.subscribe(delivery, on: queue) { _ in handle() } }
        case .part: kept.withLock { $0 = store.subscribe(to: \.count, delivery, on: queue) { _ in handle() } }
        case .anyOf:
            kept.withLock { $0 = store.subscribe(toAnyOf: \.count, delivery: delivery, on: queue) { _, _ in handle() } }
        case .owner:
            let owner = Flag()
            kept.withLock { $0 = owner }
            store.subscribe(with: owner, delivery, on: queue) { _, _ in handle() }
        case .failing:
            let limit = delivery == .buffered(newest: 9) ? 9 : 2
            kept.withLock { $0 = store.subscribe(failingAfter: limit, on: queue) { _ in handle() } }
        }
        store.dispatch(action: .add(1))
        await entered.opened()
        for _ in 0..<5 { store.dispatch(action: .add(1)) }
        // A child, so that the time limit ends its wait.
        async let flushing: Void = store.flush()
        await waiters(of: store, are: 1)
        gate.open()
        await flushing
        // And none that comes later finds anything to wait for.
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(kept.current == nil)
    }

    private func waiters(of store: FluxStore<Counter>, are count: Int) async {
        func current() -> Int {
            store.core.lock.withLock { machine in
                var count = 0
                machine.entries.updateEach { count += $0.mailbox.waiters.count }
                return count
            }
        }
        while current() != count { await Task.yield() }
    }

    /// Gives a task that should not go on the occasion to do so.
    ///
    /// What passes passes without it.
    private func patience() async {
        for _ in 0..<1_000 { await Task.yield() }
    }
}
