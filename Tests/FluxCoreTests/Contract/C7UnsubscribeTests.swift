import Dispatch
import FluxCore
import Foundation
import TestSupport
import Testing

/// C7: once `unsubscribe()` has returned, or the token is gone, the store decides on no further call of the handler.
///
/// On the subscription's own serial queue, and inside the handler, no further call comes. Elsewhere a call that was
/// already decided on may still run, and `finish()` waits for it.
@Suite struct C7UnsubscribeTests {
    @Test func `Unsubscribing inside the handler takes effect at once, also for the rest of the batch`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gate = Gate()
        let blocked = store.subscribe { _ in gate.wait() }
        let token = Locked<FluxSubscription?>(nil)
        let seen = Recorder<Int>()
        token.withLock {
            $0 = store.subscribe { state in
                seen.record(state.count)
                token.withLock { $0 }?.unsubscribe()
            }
        }
        for _ in 0..<10 { store.dispatch(action: .add(1)) }
        gate.open()
        await store.flush()
        #expect(seen.values == [1])
        blocked.unsubscribe()
    }

    @Test func `A token released in its handler ends the subscription at once and releases the handler`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let token = Locked<FluxSubscription?>(nil)
        let seen = Recorder<Int>()
        let gone = Gate()
        token.withLock {
            let canary = Canary(gone)
            $0 = store.subscribe { state in
                withExtendedLifetime(canary) { seen.record(state.count) }
                let dropped = token.withLock { $0.take() }
                withExtendedLifetime(dropped) {}
            }
        }
        for _ in 0..<10 { store.dispatch(action: .add(1)) }
        await gone.opened()
        await store.flush()
        #expect(seen.values == [1])
    }

    @Test func `A handler can end another subscription on its queue for the rest of the batch`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let other = Locked<FluxSubscription?>(nil)
        let seen = Recorder<Int>()
        let first = store.subscribe { state in
            if state.count == 3 { other.withLock { $0 }?.unsubscribe() }
        }
        other.withLock { $0 = store.subscribe { seen.record($0.count) } }
        for _ in 0..<10 { store.dispatch(action: .add(1)) }
        await store.flush()
        #expect(seen.values == [1, 2])
        first.unsubscribe()
    }

    @Test func `unsubscribe may be called twice, and by many threads at once`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let subscription = store.subscribe { _ in }
        subscription.unsubscribe()
        subscription.unsubscribe()
        for _ in 0..<200 {
            let subscription = store.subscribe { _ in }
            store.dispatch(action: .add(1))
            await onThreads(4) { _ in subscription.unsubscribe() }
        }
        await store.flush()
    }

    @Test func `unsubscribe releases the handler promptly while the token is kept`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gone = Gate()
        let canary = Locked<Canary?>(Canary(gone))
        let subscription = store.subscribe { [canary = canary.current] _ in withExtendedLifetime(canary) {} }
        canary.withLock { $0 = nil }
        store.dispatch(action: .add(1))
        await store.flush()
        #expect(!gone.isOpen)
        subscription.unsubscribe()
        await gone.opened()
        withExtendedLifetime(subscription) {}
    }

    @Test func `The handler of an ended subscription is released before the next batch, not after it`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gone = Gate()
        let token = Locked<FluxSubscription?>(nil)
        let canary = Locked<Canary?>(Canary(gone))
        token.withLock { $0 = store.subscribe { [canary = canary.current] _ in withExtendedLifetime(canary) {} } }
        canary.withLock { $0 = nil }
        let last = store.subscribe { [weak store] state in
            if state.count == 2 { return gone.wait() }
            store?.dispatch(action: .add(1))
            token.withLock { $0.take() }?.unsubscribe()
        }
        store.dispatch(action: .add(1))
        await store.flush()
        await gone.opened()
        await store.flush()
        last.unsubscribe()
    }

    /// After a few batches, a drain goes to the end of its queue; a subscription may end in the last batch before that.
    @Test(arguments: 1...20) func `The handler is released in whichever batch its subscription ends`(batch: Int) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gone = Gate()
        let token = Locked<FluxSubscription?>(nil)
        let canary = Locked<Canary?>(Canary(gone))
        token.withLock { $0 = store.subscribe { [canary = canary.current] _ in withExtendedLifetime(canary) {} } }
        canary.withLock { $0 = nil }
        let echo = store.subscribe { [weak store] state in
            if state.count == batch { token.withLock { $0.take() }?.unsubscribe() }
            if state.count < 40 { store?.dispatch(action: .add(1)) }
        }
        store.dispatch(action: .add(1))
        await gone.opened()
        await store.flush()
        echo.unsubscribe()
    }

    @Test func `A suspended queue keeps neither the handler nor the changes of an ended subscription`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let gone = Gate()
        let canary = Locked<Canary?>(Canary(gone))
        let subscription = store.subscribe(on: queue) { [canary = canary.current] _ in withExtendedLifetime(canary) {} }
        canary.withLock { $0 = nil }
        store.dispatch(action: .add(1))
        subscription.unsubscribe()
        await gone.opened()
        await store.flush()
        queue.resume()
    }

    @Test func `unsubscribe does not wait for a blocked handler`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate) = (Gate(), Gate())
        let subscription = store.subscribe { _ in
            entered.open()
            gate.wait()
        }
        store.dispatch(action: .add(1))
        await entered.opened()
        subscription.unsubscribe()
        gate.open()
        await store.flush()
    }

    @Test func `unsubscribe does not wait for 40 blocked handlers, and finish returns after the last call`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gate = Gate()
        let (entered, left) = (Recorder<Int>(), Recorder<Int>())
        let tokens = (0..<40).map { index in
            store.subscribe(on: DispatchQueue(label: "blocked \(index)")) { state in
                entered.record(state.count)
                gate.wait()
                left.record(state.count)
            }
        }
        let all = FluxSubscription([FluxSubscription(Array(tokens[..<20]))] + tokens[20...])
        store.dispatch(action: .add(1))
        await entered.count(40)
        store.dispatch(action: .add(1))
        all.unsubscribe()
        #expect(left.values.isEmpty)
        let finished = Flag()
        async let end: Void = {
            await all.finish()
            finished.set()
        }()
        for _ in 0..<1_000 { await Task.yield() }
        #expect(!finished.isSet)
        gate.open()
        await end
        #expect(left.values == Array(repeating: 1, count: 40))
        await store.flush()
        #expect(entered.values.count == 40)
    }

    @Test func `finish returns at once for a subscription that is idle, has ended or has not begun`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let idle = store.subscribe { _ in }
        await idle.finish()
        await idle.finish()
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let due = store.subscribe(on: queue, startingWithCurrent: true) { _ in Issue.record("called") }
        store.dispatch(action: .add(1))
        await due.finish()
        queue.resume()
        var gone: FluxStore<Counter>? = FluxStore(initialState: Counter(), dispatcher: nil)
        let orphan = gone!.subscribe { _ in }
        gone = nil
        await orphan.finish()
        await FluxSubscription([]).finish()
    }

    @Test func `A cancelled finish returns, and the subscription has ended nevertheless`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate, seen) = (Gate(), Gate(), Recorder<Int>())
        let subscription = store.subscribe { state in
            seen.record(state.count)
            entered.open()
            gate.wait()
        }
        store.dispatch(action: .add(1))
        store.dispatch(action: .add(1))
        await entered.opened()
        let finishing = Task { await subscription.finish() }
        finishing.cancel()
        await finishing.value
        gate.open()
        await subscription.finish()
        await store.flush()
        #expect(seen.values == [1])
    }

    @Test func `finish after unsubscribe inside the handler returns after that call`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let token = Locked<FluxSubscription?>(nil)
        let (ended, gate, isOver) = (Gate(), Gate(), Flag())
        token.withLock {
            $0 = store.subscribe { _ in
                token.current?.unsubscribe()
                ended.open()
                gate.wait()
                isOver.set()
            }
        }
        store.dispatch(action: .add(1))
        await ended.opened()
        let finishing = Task {
            await token.current?.finish()
            return isOver.isSet
        }
        for _ in 0..<1_000 { await Task.yield() }
        gate.open()
        #expect(await finishing.value)
    }

    @Test(.timeLimit(.minutes(1)))
    func `finish does not wait for a pending turn of its queue, even before the subscription has left`() async {
        let (store, queue) = (FluxStore(initialState: Counter(), dispatcher: nil), DispatchQueue(label: "suspended"))
        queue.suspend()
        let stays = store.subscribe(on: queue) { _ in }
        let token = store.subscribe(on: queue) { _ in Issue.record("it has ended") }
        store.dispatch(action: .add(1))
        let (ended, gate) = (Gate(), Gate())
        DispatchQueue.global().async {
            // The ended subscription leaves only when this closure has returned.
            FluxPureCode.run("a test") {
                token.unsubscribe()
                ended.open()
                gate.wait()
            }
        }
        await ended.opened()
        await token.finish()
        gate.open()
        queue.resume()
        await store.flush()
        stays.unsubscribe()
    }

    @Test func `finish does not wait for handlers on other queues`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (entered, gate) = (Gate(), Gate())
        let blocked = store.subscribe(on: DispatchQueue(label: "blocked")) { _ in
            entered.open()
            gate.wait()
        }
        let other = store.subscribe { _ in }
        store.dispatch(action: .add(1))
        await entered.opened()
        await other.finish()
        gate.open()
        await blocked.finish()
    }

    enum Ending: CaseIterable { case unsubscribing, dropping, many }

    /// The handler is called continuously; each round ends its subscription on the queue of the handler.
    @Test(.stress, arguments: Ending.allCases)
    func `Stress: no call follows once a subscription has been ended on its own serial queue`(by ending: Ending) async {
        let queue = DispatchQueue(label: "own")
        await storm(rounds: 1_000, on: queue) { store, token, hasEnded in
            queue.sync {
                switch ending {
                case .dropping: token.withLock { $0 = nil }
                case .unsubscribing: token.current?.unsubscribe()
                case .many: FluxSubscription([store.subscribe { _ in }, token.current!]).unsubscribe()
                }
                hasEnded.set()
            }
        }
    }

    @Test(.stress, arguments: [false, true])
    func `Stress: no call is running or follows once finish has returned`(isUnsubscribed: Bool) async {
        await storm(rounds: 1_000, on: nil) { _, token, hasEnded in
            if isUnsubscribed { token.current?.unsubscribe() }
            let done = Gate()
            Task {
                await token.current?.finish()
                hasEnded.set()
                done.open()
            }
            done.wait()
        }
    }

    /// Ends subscriptions that are called continuously, and looks for a call that runs afterwards.
    private func storm(
        rounds: Int, on queue: DispatchQueue?,
        ending: @escaping @Sendable (FluxStore<Counter>, Locked<FluxSubscription?>, Flag) -> Void
    ) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let isDone = Flag()
        let (late, delivered) = (Locked(0), Locked(0))
        let keeper = store.subscribe { state in delivered.withLock { $0 = state.count } }
        await onThreads(2) { index in
            if index > 0 {
                var sent = 0
                while !isDone.isSet {
                    // Stays close to the handlers, so a new subscription of the other thread is called before long.
                    if sent - delivered.current > 64 {
                        sched_yield()
                        continue
                    }
                    store.dispatch(action: .add(1))
                    sent += 1
                }
                return
            }
            for _ in 0..<rounds {
                let (isCalled, hasEnded) = (Flag(), Flag())
                let token = Locked<FluxSubscription?>(
                    store.subscribe(on: queue) { _ in
                        if hasEnded.isSet { late.withLock { $0 += 1 } }
                        isCalled.set()
                        if hasEnded.isSet { late.withLock { $0 += 1 } }
                    })
                while !isCalled.isSet { sched_yield() }
                ending(store, token, hasEnded)
            }
            isDone.set()
        }
        await store.flush()
        #expect(late.current == 0)
        keeper.unsubscribe()
    }
}
