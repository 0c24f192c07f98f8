import Dispatch
import FluxCore
import TestSupport
import Testing

@testable import FluxObservation

/// The delivery of elements to a queue, with each of its bounds.
@Suite struct QueueDeliveryTests {
    /// A delivery on a queue that is suspended until the test resumes it.
    final class Rig: Sendable {
        let queue = DispatchQueue(label: "held")
        let seen = Recorder<Int>()
        let delivery: FluxQueueDelivery<Int>

        init(_ bound: FluxQueueDelivery<Int>.Bound, first: Int? = nil) {
            queue.suspend()
            delivery = FluxQueueDelivery(on: queue, bound: bound, startingWith: first) { [seen] in seen.record($0) }
        }

        func put(_ numbers: ClosedRange<Int>) { for number in numbers { delivery.put(number)?.settle() } }

        func deliver() async -> [Int] {
            queue.resume()
            await delivery.flush()
            return seen.values
        }
    }

    @Test func `Without a bound, all elements are delivered in order after the initial one`() async {
        let rig = Rig(.none, first: 0)
        rig.put(1...1_000)
        #expect(await rig.deliver() == Array(0...1_000))
        #expect(rig.delivery.dropped == 0)
        rig.delivery.cancel()
    }

    /// Keeps the token of its own subscription until it is told to drop it.
    struct Holding: FluxState {
        enum Action: FluxAction { case keep(FluxSubscription), drop }
        var token: FluxSubscription?
        mutating func handle(action: Action) -> Holding? {
            if case .keep(let new) = action { token = new } else { token = nil }
            return self
        }
    }

    @Test func `A task that flushes continues outside handle if handle drops the token, on any executor`() async {
        let store = FluxStore(initialState: Holding(), dispatcher: nil)
        let queue = DispatchQueue(label: "held")
        queue.suspend()
        defer { queue.resume() }
        // In no variable, so that the state has the only reference.
        store.dispatch(
            action: .keep(store.subscribe(to: { $0.token == nil }, on: queue, startingWithCurrent: true) { _ in }))
        // Runs on this thread until it waits for the delivery; the thread that wakes it continues it.
        let revisions = Recorder<UInt64>()
        Task(executorPreference: InlineExecutor()) {
            await store.flush()
            revisions.record(store.revision)
        }
        store.dispatch(action: .drop)
        await revisions.count(1)
        #expect(revisions.values == [2])
    }

    @Test func `latest: only the newest element is delivered`() async {
        let rig = Rig(.latest)
        rig.put(1...100)
        #expect(await rig.deliver() == [100])
        rig.put(101...101)
        await rig.delivery.flush()
        #expect(rig.seen.values == [100, 101])
        rig.delivery.cancel()
    }

    @Test func `latest: a delivery starts with its initial element or with a newer one`() async {
        let (alone, newer) = (Rig(.latest, first: 0), Rig(.latest, first: 0))
        #expect(await alone.deliver() == [0])
        newer.put(1...3)
        #expect(await newer.deliver().last == 3)
        for rig in [alone, newer] { rig.delivery.cancel() }
    }

    @Test(arguments: [1, 2, 7]) func `newest: the oldest elements are dropped and counted`(limit: Int) async {
        let rig = Rig(.newest(limit))
        rig.put(1...100)
        #expect(await rig.deliver() == Array((101 - limit)...100))
        #expect(rig.delivery.dropped == 100 - limit)
        rig.delivery.cancel()
    }

    @Test(arguments: [1, 2, 7]) func `oldest: new elements are dropped and counted`(limit: Int) async {
        let rig = Rig(.oldest(limit))
        rig.put(1...100)
        #expect(await rig.deliver() == Array(1...limit))
        #expect(rig.delivery.dropped == 100 - limit)
        rig.put(101...101)
        await rig.delivery.flush()
        #expect(rig.seen.values.last == 101)
        rig.delivery.cancel()
    }

    @Test(arguments: [1, 2, 7]) func `failing: waiting elements come, then the last, then no more`(limit: Int) async {
        let rig = Rig(.failing(limit, last: -1))
        rig.put(1...100)
        #expect(await rig.deliver() == Array(1...limit) + [-1])
        rig.put(1...3)
        await rig.delivery.flush()
        #expect(rig.seen.values.count == limit + 1)
        rig.delivery.cancel()
    }

    @Test func `end delivers waiting elements and releases the handler; cancel releases both`() async {
        for isCancelled in [false, true] {
            let (gone, gate, seen) = (Gate(), Gate(), Recorder<Int>())
            let canary = Locked<Canary?>(Canary(gone))
            let delivery = FluxQueueDelivery<Int>(on: DispatchQueue(label: "own")) { [canary = canary.current] number in
                gate.wait()
                withExtendedLifetime(canary) { seen.record(number) }
            }
            canary.withLock { $0 = nil }
            for number in 1...3 { delivery.put(number)?.settle() }
            if isCancelled { delivery.cancel() } else { delivery.end() }
            delivery.put(4)?.settle()
            gate.open()
            await gone.opened()
            if isCancelled { #expect(seen.values.count <= 1) } else { #expect(seen.values == [1, 2, 3]) }
            await delivery.finish()
        }
    }

    @Test(arguments: [false, true]) func `finish returns after the last call`(ofToken: Bool) async {
        let (entered, gate, isOver) = (Gate(), Gate(), Flag())
        let delivery = FluxQueueDelivery<Int> { _ in
            entered.open()
            gate.wait()
            isOver.set()
        }
        delivery.put(1)?.settle()
        await entered.opened()
        let token = delivery.token
        let finishing = Task {
            if ofToken { await token.finish() } else { await delivery.finish() }
            return isOver.isSet
        }
        for _ in 0..<1_000 { await Task.yield() }
        gate.open()
        #expect(await finishing.value)
    }

    @Test func `Elements that are dropped or never delivered are released`() async {
        let bounds: [FluxQueueDelivery<Canary>.Bound] = [.none, .latest, .newest(1), .oldest(1)]
        for bound in bounds {
            let queue = DispatchQueue(label: "held")
            queue.suspend()
            let gone = (0..<3).map { _ in Gate() }
            do {
                let delivery = FluxQueueDelivery<Canary>(on: queue, bound: bound) { _ in }
                for gate in gone { delivery.put(Canary(gate))?.settle() }
                delivery.cancel()
            }
            for gate in gone { await gate.opened() }
            queue.resume()
        }
    }

    @Test(.timeLimit(.minutes(1))) func `A flush ends once a subscription on a suspended queue is cancelled`() async {
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let token = store.subscribe(to: \.count, on: queue) { _ in }
        store.dispatch(action: .add(1))
        let isFlushed = Flag()
        let flushing = Task {
            await store.flush()
            isFlushed.set()
        }
        for _ in 0..<1_000 { await Task.yield() }
        #expect(!isFlushed.isSet)
        token.unsubscribe()
        await flushing.value
        queue.resume()
    }

    @Test(.timeLimit(.minutes(1))) func `flush and finish end for a cancelled delivery on a suspended queue`() async {
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let delivery = FluxQueueDelivery<Int>(on: queue) { _ in }
        delivery.put(1)?.settle()
        delivery.cancel()
        await delivery.flush()
        await delivery.finish()
        queue.resume()
    }

    /// Reads a store when it is released, which is allowed only while no lock is held.
    private final class Reading: Sendable {
        let store: FluxStore<Counter>
        let gone: Recorder<Int>
        init(_ store: FluxStore<Counter>, _ gone: Recorder<Int>) { (self.store, self.gone) = (store, gone) }
        deinit { gone.record(store.state.count) }
    }

    @Test func `An element that makes room is released while no lock is held, without waiting for the handler`() {
        let (store, gone) = (FluxStore(initialState: Counter(), dispatcher: nil), Recorder<Int>())
        let queue = DispatchQueue(label: "suspended")
        queue.suspend()
        let delivery = FluxQueueDelivery<Reading>(on: queue, bound: .newest(1)) { _ in }
        for count in 0..<3 {
            let due = store.handle.withAccess { _ in delivery.put(Reading(store, gone)) }
            due?.settle()
            #expect(gone.values.count == count)
        }
        delivery.cancel()
        queue.resume()
    }

    @Test func `A flush that waits for a replaced element waits for its replacement`() async {
        let (queue, seen, entered, gate) = (DispatchQueue(label: "suspended"), Recorder<Int>(), Gate(), Gate())
        queue.suspend()
        let delivery = FluxQueueDelivery<Int>(on: queue, bound: .latest) { element in
            entered.open()
            gate.wait()
            seen.record(element)
        }
        delivery.put(1)?.settle()
        let isFlushed = Flag()
        let flushing = Task {
            await delivery.flush()
            isFlushed.set()
        }
        for _ in 0..<1_000 { await Task.yield() }
        delivery.put(2)?.settle()
        queue.resume()
        await entered.opened()
        for _ in 0..<1_000 { await Task.yield() }
        #expect(!isFlushed.isSet)
        gate.open()
        await flushing.value
        #expect(seen.values == [2])
        delivery.cancel()
    }

    /// If the element were released while the lock of a store is held, a user's `deinit` could run into that lock.
    @Test func `An element that a bound drops is released by settle, and not before`() async {
        let bounds: [FluxQueueDelivery<Canary>.Bound] = [
            .latest, .newest(1), .oldest(1), .failing(1, last: Canary(Gate())),
        ]
        for bound in bounds {
            let queue = DispatchQueue(label: "held")
            queue.suspend()
            let gates = [Gate(), Gate(), Gate()]
            func open() -> Int { gates.count { $0.isOpen } }
            let delivery = FluxQueueDelivery<Canary>(on: queue, bound: bound) { _ in }
            var due = gates.prefix(2).map { delivery.put(Canary($0)) }
            #expect(open() == 0, "\(bound)")
            delivery.end()
            due.append(delivery.put(Canary(gates[2])))
            #expect(open() == 0, "\(bound)")
            for one in due { one?.settle() }
            await gates[2].opened()
            #expect(open() == 2, "\(bound)")
            queue.resume()
            await delivery.flush()
            #expect(open() == 3, "\(bound)")
        }
    }

    @Test func `A handler that cancels gets no more elements, even if they were taken out with its own`() async {
        let (queue, seen) = (DispatchQueue(label: "held"), Recorder<Int>())
        queue.suspend()
        let token = Locked<FluxSubscription?>(nil)
        let delivery = FluxQueueDelivery<Int>(on: queue) { number in
            seen.record(number)
            token.current?.unsubscribe()
        }
        token.withLock { $0 = delivery.token }
        for number in 1...3 { delivery.put(number)?.settle() }
        queue.resume()
        await seen.count(1)
        await delivery.finish()
        #expect(seen.values == [1])
        token.withLock { $0 = nil }
    }

    @Test func `A flush during a call waits until the call ends, even if the delivery ends before`() async {
        let (entered, gate, isOver) = (Gate(), Gate(), Flag())
        let delivery = FluxQueueDelivery<Int> { _ in
            entered.open()
            gate.wait()
            isOver.set()
        }
        delivery.put(1)?.settle()
        await entered.opened()
        let flushing = Task {
            await delivery.flush()
            return isOver.isSet
        }
        while delivery.lock.withLock({ $0.waiters.isEmpty }) { await Task.yield() }
        delivery.end()
        #expect(delivery.lock.withLock { $0.waiters.count } == 1)
        gate.open()
        #expect(await flushing.value)
        delivery.cancel()
    }

    @Test(.timeLimit(.minutes(1)))
    func `A flush waits for the waiting elements, even if the delivery ends before they come`() async {
        let rig = Rig(.none)
        rig.put(1...2)
        let flushing = Task {
            await rig.delivery.flush()
            return rig.seen.values
        }
        while rig.delivery.lock.withLock({ $0.waiters.isEmpty }) { await Task.yield() }
        rig.delivery.end()
        for _ in 0..<1_000 { await Task.yield() }
        rig.queue.resume()
        #expect(await flushing.value == [1, 2])
    }

    @Test(.timeLimit(.minutes(1)))
    func `An element comes even if one that was dropped before has not been released yet`() async {
        let rig = Rig(.latest)
        let settling = (rig.delivery.put(1), rig.delivery.put(2))
        settling.0?.settle()
        #expect(await rig.deliver() == [2])
        // Another thread would settle the second one only now.
        rig.delivery.put(3)?.settle()
        await rig.seen.count(2)
        #expect(rig.seen.values == [2, 3])
        settling.1?.settle()
    }

    @Test func `A flush in a cancelled task returns and leaves nothing behind`() async {
        let queue = DispatchQueue(label: "held")
        queue.suspend()
        let delivery = FluxQueueDelivery<Int>(on: queue) { _ in }
        delivery.put(1)?.settle()
        let flushing = Task { await delivery.flush() }
        while delivery.lock.withLock({ $0.waiters.isEmpty }) { await Task.yield() }
        flushing.cancel()
        await flushing.value
        #expect(delivery.lock.withLock { $0.waiters.isEmpty })
        delivery.cancel()
        queue.resume()
    }

    @Test func `A waiter for an element that a bound drops does not wait for another element`() {
        for (bound, turns) in [(FluxQueueDelivery<Int>.Bound.newest(1), [1, 0]), (.oldest(1), [0, 1])] {
            var machine = FluxQueueDelivery<Int>.Machine(bound) { _ in }
            var batch = FluxWaiting<Int>()
            _ = machine.put(1)
            #expect(machine.wait(FluxLatch()) != nil)
            _ = machine.put(2)
            // The first turn comes before the call with the waiting element, the second one after it.
            let opened = (0..<2).map { _ in machine.next(&batch, isPausing: false).waiters.count }
            #expect(opened == turns, "\(bound)")
        }
    }

    @Test func `An element put after the end is released at once and does not count as dropped`() {
        let queue = DispatchQueue(label: "held")
        queue.suspend()
        let failing = FluxQueueDelivery<Canary>(on: queue, bound: .failing(1, last: Canary(Gate()))) { _ in }
        failing.put(Canary(Gate()))?.settle()
        let every = FluxQueueDelivery<Canary>(on: queue) { _ in }
        for delivery in [failing, every] {
            delivery.end()
            let gone = Gate()
            delivery.put(Canary(gone))?.settle()
            #expect(gone.isOpen)
            #expect(delivery.dropped == 0)
        }
        queue.resume()
    }

    @Test func `Neither a delivery nor its handler outlives its token`() async {
        let (gone, deliveryGone) = (Gate(), Locked<Weak?>(nil))
        do {
            let canary = Canary(gone)
            let delivery = FluxQueueDelivery<Int> { _ in withExtendedLifetime(canary) {} }
            deliveryGone.withLock { $0 = .init(delivery) }
            let token = delivery.token
            delivery.put(1)?.settle()
            await delivery.flush()
            withExtendedLifetime(token) {}
        }
        await gone.opened()
        #expect(await deliveryGone.current!.isGone())
    }

    @Test(.stress) func `Stress: elements that four threads put in one order are delivered in that order`() async {
        let (order, seen) = (Locked([Int]()), Recorder<Int>())
        let delivery = FluxQueueDelivery<Int> { seen.record($0) }
        await onThreads(4) { thread in
            for number in 0..<2_000 {
                let due = order.withLock { order in
                    order.append(thread * 10_000 + number)
                    return delivery.put(thread * 10_000 + number)
                }
                due?.settle()
            }
        }
        await delivery.flush()
        #expect(seen.values == order.current)
        delivery.cancel()
    }

    @Test(.stress) func `Delivering bounded elements takes linear time, even if a waiter waits for each`() async {
        await #expect(processExitsWith: .success) {
            func cost(of count: Int) -> Int {
                var machine = FluxQueueDelivery<Int>.Machine(.newest(count)) { _ in }
                var (batch, opened) = (FluxWaiting<Int>(), 0)
                for number in 0..<count {
                    _ = machine.put(number)
                    _ = machine.wait(FluxLatch())
                }
                return processorTime {
                    for number in 0..<count {
                        opened += machine.next(&batch, isPausing: false).waiters.count
                        guard batch.popFirst() == number, opened == number else { fatalError("\(opened) at \(number)") }
                    }
                    guard machine.next(&batch, isPausing: false).waiters.count == 1 else { fatalError("the last") }
                }
            }
            _ = cost(of: 500)
            let (few, many) = (cost(of: 500), cost(of: 5_000))
            guard many < 30 * few else { fatalError("\(few) for 500, \(many) for 5,000") }
        }
    }
}
