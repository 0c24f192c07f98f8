import Dispatch
import FluxCore
import Foundation
import Testing

/// C8: a slow or blocked handler delays nobody but subscriptions on its own queue.
@Suite struct C8SlowConsumersTests {
    @Test func `A handler blocked for good delays no dispatch, no other queue and no other store`() async {
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let other = FluxStore(initialState: Counter(), dispatcher: dispatcher)
        let (entered, gate) = (Gate(), Gate())
        let blocked = store.subscribe { _ in
            entered.open()
            gate.wait()
        }
        dispatcher.dispatch(action: Counter.Action.add(1))
        await entered.opened()

        let elsewhere = Recorder<Int>()
        let others = Recorder<Int>()
        let subscriptions = [
            store.subscribe(on: DispatchQueue(label: "elsewhere")) { elsewhere.record($0.count) },
            other.subscribe { others.record($0.count) },
        ]
        for _ in 0..<1_000 { dispatcher.dispatch(action: Counter.Action.add(1)) }
        #expect(store.state.count == 1_001)
        await elsewhere.count(1_000)
        await others.count(1_000)
        await other.flush()
        #expect(elsewhere.values == Array(2...1_001))
        #expect(others.values == Array(2...1_001))
        gate.open()
        await store.flush()
        (subscriptions + [blocked]).forEach { $0.unsubscribe() }
    }

    @Test func `What a blocked handler missed is all there when it goes on`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let gate = Gate()
        let seen = Recorder<Int>()
        let subscription = store.subscribe { state in
            gate.wait()
            seen.record(state.count)
        }
        for _ in 0..<10_000 { store.dispatch(action: .add(1)) }
        gate.open()
        await store.flush()
        #expect(seen.isCounting(to: 10_000))
        subscription.unsubscribe()
    }

    @Test func `Without subscribers nothing is kept behind a handler that is still blocked`() async {
        let store = FluxStore(initialState: Holding(), dispatcher: nil)
        let (entered, gate, gone) = (Gate(), Gate(), Gate())
        let subscription = store.subscribe { _ in
            entered.open()
            gate.wait()
        }
        store.dispatch(action: .hold(nil))
        await entered.opened()
        store.dispatch(action: .hold(Canary(gone)))
        store.dispatch(action: .hold(nil))
        #expect(!gone.isOpen, "the subscription is due the state that holds it")
        subscription.unsubscribe()
        await gone.opened()
        gate.open()
    }

    struct Holding: FluxState {
        enum Action: FluxAction { case hold(Canary?) }
        var canary: Canary?
        mutating func handle(action: Action) -> Holding? {
            if case .hold(let new) = action { canary = new }
            return self
        }
    }

    @Test func `Stress: 20,000 stores active at once stay under 32 threads`() async {
        await #expect(processExitsWith: .success) {
            let dispatcher = FluxDispatcher()
            let stores = (0..<20_000).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
            let most = Locked(0)
            let calls = Locked(0)
            let subscriptions = stores.map { store in
                store.subscribe { _ in
                    let number = calls.withLock { calls in
                        calls += 1
                        return calls
                    }
                    if number % 500 == 0 {
                        let threads = threadCount()
                        most.withLock { $0 = max($0, threads) }
                    }
                }
            }
            await onThreads(2) { _ in
                for _ in 0..<5 { dispatcher.dispatch(action: Counter.Action.add(1)) }
            }
            for store in stores { await store.flush() }
            precondition(calls.current == 200_000, "\(calls.current) calls")
            precondition((1..<32).contains(most.current), "\(most.current) threads")
            subscriptions.forEach { $0.unsubscribe() }
        }
    }
}

/// The number of threads of this process.
func threadCount() -> Int {
    #if os(Linux)
        return (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").count) ?? 0
    #else
        var threads: thread_act_array_t?
        var count: mach_msg_type_number_t = 0
        guard task_threads(mach_task_self_, &threads, &count) == KERN_SUCCESS else { return 0 }
        return Int(count)
    #endif
}
