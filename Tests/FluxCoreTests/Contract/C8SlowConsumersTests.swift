import Dispatch
import FluxCore
import Foundation
import TestSupport
import Testing

/// C8: a slow or blocked handler delays only the subscriptions on its own queue.
@Suite struct C8SlowConsumersTests {
    @Test func `A blocked handler delays no dispatch, no other queue and no other store`() async {
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

    @Test func `A blocked handler receives every missed change when it resumes`() async {
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

    @Test func `unsubscribe releases pending states while the handler is still blocked`() async {
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

    @Test func `A latest subscription holds no state while it waits for the current one`() {
        let (queue, gone) = (DispatchQueue(label: "suspended"), Gate())
        queue.suspend()
        let store = FluxStore(initialState: Holding(canary: Canary(gone)), dispatcher: nil)
        let token = store.subscribe(.latest, on: queue, startingWithCurrent: true) { _ in }
        store.dispatch(action: .hold(nil))
        #expect(gone.isOpen)
        token.unsubscribe()
        queue.resume()
    }

    @Test func `Subscriptions that start and end before their queue has its turn leave nothing behind`() async {
        await #expect(processExitsWith: .success) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let queue = DispatchQueue(label: "suspended")
            queue.suspend()
            let stays = store.subscribe(on: queue) { _ in }
            let kept = await Heap.bytesKept { count in
                for _ in 0..<count { store.subscribe(on: queue, startingWithCurrent: true) { _ in }.unsubscribe() }
            }
            #expect(kept < 24, "\(kept) bytes for each")
            queue.resume()
            stays.unsubscribe()
        }
    }

    struct Holding: FluxState {
        enum Action: FluxAction { case hold(Canary?) }
        var canary: Canary?
        mutating func handle(action: Action) -> Holding? {
            if case .hold(let new) = action { canary = new }
            return self
        }
    }

    @Test func `A store that always has pending changes lets other stores on its queue have their turn`() async {
        let queue = DispatchQueue(label: "shared")
        let chatty = FluxStore(initialState: Counter(), dispatcher: nil)
        let other = FluxStore(initialState: Counter(), dispatcher: nil)
        let turn = Recorder<Int>()
        let subscriptions = [
            chatty.subscribe(on: queue) { [weak chatty] state in
                if state.count == 1 { other.dispatch(action: .add(1)) }
                if state.count < 1_000 { chatty?.dispatch(action: .add(1)) }
            },
            other.subscribe(on: queue) { [weak chatty] _ in turn.record(chatty?.state.count ?? 0) },
        ]
        chatty.dispatch(action: .add(1))
        await turn.count(1)
        #expect(turn.values[0] < 1_000)
        await chatty.flush()
        subscriptions.forEach { $0.unsubscribe() }
    }

    @Test(arguments: [1, 15, 16, 17, 100])
    func `Events that a converter fires on its own creator are converted, however long the chain`(length: Int) async {
        let left = Locked(length)
        let chatter = Chatter()
        chatter.start {
            left.withLock { left in
                left -= 1
                return left > 0
            }
        }
        await chatter.done.opened()
        #expect(left.current == 0)
    }

    /// A creator whose converter fires the next event on it, as long as a closure returns true.
    final class Chatter: Sendable {
        let done = Gate()
        private let creator = Locked<FluxActionCreator<Converter>?>(nil)

        func start(while goesOn: @escaping @Sendable () -> Bool) {
            let made = FluxActionCreator<Converter>(dependency: self, dispatcher: FluxDispatcher())
            creator.withLock { $0 = made }
            made.fire(Converter.Event(goesOn: goesOn))
        }

        enum Converter: FluxActionConverter {
            struct Event: FluxEvent { let goesOn: @Sendable () -> Bool }
            static func convert(event: Event, dependency: Chatter, actionHandler: @escaping (Counter.Action) -> Void) {
                if event.goesOn() {
                    dependency.creator.current?.fire(event)
                } else {
                    dependency.creator.withLock { $0 = nil }
                    dependency.done.open()
                }
            }
        }
    }

    @Test(.stress) func `Stress: 2,000 creators active at once stay under 32 threads`() async {
        await #expect(processExitsWith: .success) {
            let most = Locked(0)
            let creators = (0..<2_000).map { _ in
                FluxActionCreator<Measuring>(dependency: { most.withLock { $0 = max($0, threadCount()) } })
            }
            await onThreads(2) { _ in
                for _ in 0..<5 { creators.forEach { $0.fire(Measuring.Event()) } }
            }
            for creator in creators { await creator.flush() }
            precondition((1..<32).contains(most.current), "\(most.current) threads")
        }
    }

    enum Measuring: FluxActionConverter {
        struct Event: FluxEvent {}
        static func convert(
            event: Event, dependency: @escaping @Sendable () -> Void, actionHandler: @escaping (Counter.Action) -> Void
        ) {
            dependency()
        }
    }

    @Test(.stress) func `Stress: 20,000 stores active at once stay under 32 threads`() async {
        await #expect(processExitsWith: .success) {
            let dispatcher = FluxDispatcher()
            // A smaller number still shows a race, and under the sanitizer seconds become a minute.
            let count = isSanitized ? 2_000 : 20_000
            let stores = (0..<count).map { _ in FluxStore(initialState: Counter(), dispatcher: dispatcher) }
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
            precondition(calls.current == 10 * count, "\(calls.current) calls")
            precondition((1..<32).contains(most.current), "\(most.current) threads")
            subscriptions.forEach { $0.unsubscribe() }
        }
    }

    /// C8: A drain that only goes to the end of its creator's queue continues there and never gives its thread back.
    @Test func `Creators that always have events to convert let other creators have their turn`() async {
        await #expect(processExitsWith: .success) {
            let chatty = (0..<ProcessInfo.processInfo.activeProcessorCount * 2).map { _ in
                C8SlowConsumersTests.Chatter()
            }
            chatty.forEach { chatter in chatter.start { true } }
            let quiet = C8SlowConsumersTests.Chatter()
            quiet.start { false }
            quiet.done.wait()
        }
    }

    /// C8: A drain on a subscriber's queue continues on that queue alone, however many batches it has delivered.
    @Test func `Delivery on a subscription's own queue needs no thread of other queues`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (queue, done, last, found) = (DispatchQueue(label: "own"), Gate(), Highest(), Locked<[Int]>([]))
        let token = store.subscribe(on: queue) { [weak store] counter in
            let count = counter.count
            last.see(count)
            // The inner block runs after the drain has given the queue back, and must find the next batch delivered.
            queue.async { queue.async { found.withLock { $0.append(last.current - count) } } }
            if count == 200 { done.open() } else { store?.dispatch(action: .add(1)) }
        }
        store.dispatch(action: .add(1))
        await done.opened()
        await withCheckedContinuation { ended in queue.async { queue.async { ended.resume() } } }
        #expect(found.current.count == 200 && found.current.prefix(180).allSatisfy { $0 > 0 }, "\(found.current)")
        token.unsubscribe()
    }

    /// C8: The same for stores: handlers dispatch to their own store, on twice as many stores as there are processors.
    @Test func `Stores that always have pending changes let other stores have their turn`() async {
        await #expect(processExitsWith: .success) {
            let stores = (0..<ProcessInfo.processInfo.activeProcessorCount * 2).map { _ in
                FluxStore(initialState: Counter(), dispatcher: nil)
            }
            let echoes = stores.map { store in store.subscribe { [weak store] _ in store?.dispatch(action: .add(1)) } }
            stores.forEach { $0.dispatch(action: .add(1)) }
            let quiet = FluxStore(initialState: Counter(), dispatcher: nil)
            let called = Gate()
            let subscription = quiet.subscribe { _ in called.open() }
            quiet.dispatch(action: .add(1))
            called.wait()
            withExtendedLifetime((stores, echoes, subscription)) {}
        }
    }
}

/// Returns the number of threads of this process.
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
