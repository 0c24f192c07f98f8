import Dispatch
import TestSupport
import Testing

@testable import FluxCore

/// A `flush()` that already waits: it must return, and not before the last handler.
@Suite struct FlushWhileSomethingIsDueTests {
    @Test func `flush returns when the last subscription ends, even if its queue does not run`() async {
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

    @Test func `flush returns after the handler, not before`() async {
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

    @Test(arguments: [[0, 1, 2], [2, 1, 0]])
    func `flush returns after the handlers on every queue, in whichever order they return`(order: [Int]) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gates) = ((0..<3).map { _ in Gate() }, (0..<3).map { _ in Gate() })
        let seen = Recorder<Int>()
        let subscriptions = gates.enumerated().map { index, gate in
            store.subscribe(on: DispatchQueue(label: "queue \(index)")) { _ in
                entered[index].open()
                gate.wait()
                seen.record(index)
            }
        }
        store.dispatch(action: .add(1))
        // When a drain begins, it takes the waiting flushes out of the mailbox, where `waiters` looks for them.
        for gate in entered { await gate.opened() }
        let flushing = Task {
            await store.flush()
            return seen.values.sorted()
        }
        // It waits for one queue after another.
        await waiters(of: store, are: 1)
        for (count, index) in order.enumerated() {
            await patience()
            gates[index].open()
            await seen.count(count + 1)
        }
        #expect(await flushing.value == [0, 1, 2])
        subscriptions.forEach { $0.unsubscribe() }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [FluxDelivery.every, .latest])
    func `flush returns when a subscription with pending changes ends in its handler`(delivery: FluxDelivery) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate) = (Gate(), Gate())
        let kept = Locked<(any Sendable)?>(nil)
        let token = store.subscribe(delivery, on: DispatchQueue(label: "blocked")) { _ in
            entered.open()
            gate.wait()
            let gone = kept.withLock { $0.take() }
            withExtendedLifetime(gone) {}
        }
        kept.withLock { $0 = token }
        store.dispatch(action: .add(1))
        await entered.opened()
        for _ in 0..<5 { store.dispatch(action: .add(1)) }
        // A child task, because the time limit then ends its wait.
        async let flushing: Void = store.flush()
        await waiters(of: store, are: 1)
        gate.open()
        await flushing
        // A later flush has nothing to wait for.
        store.dispatch(action: .add(1))
        await store.flush()
    }

    @Test(.timeLimit(.minutes(1)))
    func `finish returns when the store is released, even if the subscription's queue is suspended`() async {
        var store: FluxStore<Counter>? = FluxStore(initialState: Counter(), dispatcher: nil)
        let handle = store!.handle
        let queue = DispatchQueue(label: "stands still")
        let (entered, gate) = (Gate(), Gate())
        let token = store!.subscribe(.latest, on: queue) { _ in
            entered.open()
            gate.wait()
            queue.suspend()
        }
        store!.dispatch(action: .add(1))
        await entered.opened()
        async let finishing: Void = token.finish()
        await waiters(of: store!, are: 1)
        gate.open()
        // Waits until the drain has paused and is scheduled again.
        func isDraining() -> Bool {
            handle.lock.withLock { machine in
                var isDraining = false
                machine.mailboxes.list.updateEach { isDraining = isDraining || $0.phase == .draining }
                return isDraining
            }
        }
        while isDraining() { await Task.yield() }
        store = nil
        await finishing
        queue.resume()
    }

    @Test func `A flush that waits for a slow queue keeps no copy of another queue's pending states`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (slow, quick) = (DispatchQueue(label: "slow"), DispatchQueue(label: "quick"))
        slow.suspend()
        quick.suspend()
        let tokens = [store.subscribe(.latest, on: slow) { _ in }, store.subscribe(on: quick) { _ in }]
        for _ in 0..<100 { store.dispatch(action: .add(1)) }
        let flushing = Task { await store.flush() }
        await waiters(of: store, are: 1)
        // If the flush kept a copy, adding one more state would copy the buffer of the pending states.
        let before = pending(of: store)
        store.dispatch(action: .add(1))
        #expect(before.capacity > 101)
        #expect(pending(of: store) == before)
        slow.resume()
        quick.resume()
        await flushing.value
        for token in tokens { token.unsubscribe() }
    }

    /// Returns the address and capacity of the last mailbox's buffer of pending states.
    private func pending(of store: FluxStore<Counter>) -> Buffer {
        store.handle.lock.withLock { machine in
            var buffer = Buffer()
            machine.mailboxes.list.updateEach { mailbox in
                mailbox.pending.withUnsafeBufferPointer { buffer.address = $0.baseAddress.map { UInt(bitPattern: $0) } }
                buffer.capacity = mailbox.pending.capacity
            }
            return buffer
        }
    }

    private struct Buffer: Equatable {
        var address: UInt?
        var capacity = 0
    }

    private func waiters(of store: FluxStore<Counter>, are count: Int) async {
        func current() -> Int {
            store.handle.lock.withLock { machine in
                var count = 0
                machine.mailboxes.list.updateEach { count += $0.waiters.count }
                return count
            }
        }
        while current() != count { await Task.yield() }
    }

    /// Gives a task that must not continue the opportunity to do so.
    ///
    /// A correct task passes the test without it, too.
    private func patience() async {
        for _ in 0..<1_000 { await Task.yield() }
    }
}
