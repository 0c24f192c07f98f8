import Dispatch
import FluxCore
import Foundation
import Testing

/// C7: once `unsubscribe()` has returned, or the token is gone, no call of the handler begins.
@Suite struct C7UnsubscribeTests {
    @Test func `Inside the handler it takes effect at once, for the rest of the batch too`() async {
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

    @Test func `A token dropped in the handler ends it at once, and the handler is released`() async {
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

    @Test func `Inside one handler, another subscription on the same queue is ended for the rest of the batch`() async {
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

    @Test func `Twice, or from many threads at once, is as good as once`() async {
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

    @Test func `The handler is released promptly while the token is kept`() async {
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

    @Test(arguments: [0, 1, 2])
    func `The handler is released before a long batch is over`(calledBefore: Int) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (started, unsubscribed, gone) = (Gate(), Gate(), Gate())
        let canary = Locked<Canary?>(Canary(gone))
        let others = (0..<calledBefore).map { _ in store.subscribe { _ in } }
        let subscription = store.subscribe { [canary = canary.current] _ in withExtendedLifetime(canary) {} }
        canary.withLock { $0 = nil }
        let slow = store.subscribe { state in
            switch state.count {
            case 1:
                started.open()
                unsubscribed.wait()
            case 2: break
            default: gone.wait()
            }
        }
        for _ in 0..<3 { store.dispatch(action: .add(1)) }
        await started.opened()
        subscription.unsubscribe()
        unsubscribed.open()
        await store.flush()
        (others + [slow]).forEach { $0.unsubscribe() }
    }

    @Test func `The handler is released before the next batch, not after it`() async {
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

    /// A drain goes to the end of its queue every so many batches; one who leaves in the last before that counts too.
    @Test(arguments: 1...20) func `The handler is released in whichever batch it ends`(batch: Int) async {
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

    @Test func `A queue that never runs keeps neither the handler nor what was due`() async {
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

    @Test func `A blocked handler does not hang the one who unsubscribes it`() async {
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

    @Test func `Many blocked handlers are given the time of one, also by tokens of tokens`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let view = store.view(\.count)
        let gate = Gate()
        let entered = Recorder<Int>()
        let seen = Recorder<Int>()
        let blocked: @Sendable (Int) -> Void = { number in
            if number > 1 { seen.record(number) }
            entered.record(number)
            gate.wait()
        }
        let tokens = (0..<40).map { index in
            let queue = DispatchQueue(label: "blocked \(index)")
            return index % 4 == 0
                ? view.subscribe(on: queue) { blocked($0) } : store.subscribe(on: queue) { blocked($0.count) }
        }
        let all = FluxSubscription([FluxSubscription(Array(tokens[..<20]))] + tokens[20...])
        store.dispatch(action: .add(1))
        await entered.count(40)
        store.dispatch(action: .add(1))
        let time = ContinuousClock().measure { all.unsubscribe() }
        gate.open()
        await store.flush()
        await view.flush()
        #expect(time < .seconds(2), "one after the other takes 4 seconds")
        #expect(time >= .milliseconds(90), "each of them is given its tenth of a second")
        #expect(seen.values.isEmpty)
    }

    enum Ending: CaseIterable { case unsubscribing, dropping, many }

    /// The handler is called all the time; each round ends it from another thread and looks for a call that begins after.
    @Test(.stress, arguments: Ending.allCases)
    func `Stress: ended from another thread, no call begins afterwards`(by ending: Ending) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let isDone = Locked(false)
        let late = Locked(0)
        let delivered = Locked(0)
        let keeper = store.subscribe { state in delivered.withLock { $0 = state.count } }
        await onThreads(2) { index in
            if index > 0 {
                var sent = 0
                while !isDone.current {
                    // Never far ahead, so that a subscription of the other thread is soon among those called.
                    if sent - delivered.current > 64 {
                        sched_yield()
                        continue
                    }
                    store.dispatch(action: .add(1))
                    sent += 1
                }
                return
            }
            for _ in 0..<5_000 {
                let (isCalled, hasEnded) = (Flag(), Flag())
                let subscription = Locked<FluxSubscription?>(
                    store.subscribe { _ in
                        if hasEnded.isSet { late.withLock { $0 += 1 } }
                        isCalled.set()
                    })
                while !isCalled.isSet { sched_yield() }
                switch ending {
                case .dropping: subscription.withLock { $0 = nil }
                case .unsubscribing: subscription.current?.unsubscribe()
                case .many: FluxSubscription([store.subscribe { _ in }, subscription.current!]).unsubscribe()
                }
                hasEnded.set()
            }
            isDone.withLock { $0 = true }
        }
        #expect(late.current == 0)
        keeper.unsubscribe()
        await store.flush()
    }
}
