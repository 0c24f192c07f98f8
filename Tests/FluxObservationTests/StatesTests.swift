import Dispatch
import FluxCore
import Foundation
import TestSupport
import Testing

@testable import FluxObservation

/// States as sequences.
@Suite struct StatesTests {
    @Test func `Each iterator starts with the current state unless startingWithCurrent is false`() async {
        let store = FluxStore(initialState: Counter(count: 5), dispatcher: nil)
        for delivery in [AnyDelivery.latest, .every, .newest(2), .oldest(2)] {
            var iterator = delivery.states(store).makeAsyncIterator()
            #expect(await iterator.next()?.count == store.state.count)
            var later = delivery.states(store, startingWithCurrent: false).makeAsyncIterator()
            store.dispatch(action: .add(1))
            #expect(await later.next()?.count == store.state.count)
            #expect(await iterator.next()?.count == store.state.count)
        }
        var values = store.values(of: \.count, startingWithCurrent: false).makeAsyncIterator()
        store.dispatch(action: .mark(producer: 1, number: 1))
        #expect(await values.next() == 10)
    }

    @Test(arguments: [AnyDelivery.latest, .every, .newest(2), .oldest(2)])
    func `An iterator that starts with the next state waits for it`(delivery: AnyDelivery) async {
        let store = FluxStore(initialState: Counter(count: 5), dispatcher: nil)
        let view = store.view(\.count)
        var later = delivery.states(store, startingWithCurrent: false).makeAsyncIterator()
        var ofView = delivery.states(view, startingWithCurrent: false).makeAsyncIterator()
        await view.flush()
        await store.flush()
        let change = Task {
            for _ in 0..<10 { await Task.yield() }
            store.dispatch(action: .add(1))
        }
        #expect(await later.next()?.count == 6)
        #expect(await ofView.next() == 6)
        await change.value
    }

    @Test func `An iterator that has read a later change early does not return it a second time`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        var iterator = store.states.makeAsyncIterator()
        #expect(await iterator.next()?.count == 0)
        store.dispatch(action: .add(1))
        await store.flush()
        // Notified of the first change, the iterator reads the second one as well, whose notification comes later.
        store.iteratorQueue.suspend()
        store.dispatch(action: .add(1))
        #expect(await iterator.next()?.count == 2)
        store.iteratorQueue.resume()
        await store.flush()
        let change = Task {
            for _ in 0..<10 { await Task.yield() }
            store.dispatch(action: .add(1))
        }
        #expect(await iterator.next()?.count == 3)
        await change.value
    }

    @Test(.timeLimit(.minutes(1)))
    func `An iterator returns every state a view announces, even one that counts as equal to the first`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let rough = store.view(\.count, by: { abs($0 - $1) < 5 })
        store.dispatch(action: .add(4))
        var iterator = rough.states(.every).makeAsyncIterator()
        #expect(await iterator.next() == 4)
        store.dispatch(action: .add(4))
        #expect(rough.state == 8, "announced, for the last that was is 0")
        store.dispatch(action: .add(9))
        #expect(rough.state == 17)
        #expect(await iterator.next() == 8)
    }

    /// Ends when the test calls `end()`.
    private final class Ending: WrappedSource {
        let base = FluxStore(initialState: Counter(), dispatcher: nil)
        private let ends = Locked([@Sendable () -> Void]())

        func end() { for end in ends.withLock({ $0 }) { end() } }

        func subscribe(
            _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool,
            ended: (@Sendable () -> Void)?, _ handler: @escaping @Sendable (Counter) -> Void
        ) -> FluxSubscription {
            if let ended { ends.withLock { $0.append(ended) } }
            return base.subscribe(
                delivery, on: queue, startingWithCurrent: startingWithCurrent, ended: nil, handler)
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [AnyDelivery.latest, .every, .newest(2), .oldest(2)])
    func `A sequence over a custom source ends when the source ends`(delivery: AnyDelivery) async {
        let source = Ending()
        var states = delivery.states(source).makeAsyncIterator()
        var counts = delivery.values(source, of: \.count).makeAsyncIterator()
        #expect(await states.next()?.count == 0)
        #expect(await counts.next() == 0)
        source.end()
        #expect(await states.next() == nil)
        #expect(await counts.next() == nil)
    }

    @Test func `A slow iterator gets the states its delivery promises and counts the dropped ones`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        var every = store.states(.every).makeAsyncIterator()
        var newest = store.states(.buffered(newest: 2)).makeAsyncIterator()
        var oldest = store.states(.buffered(oldest: 2)).makeAsyncIterator()
        var latest = store.states.makeAsyncIterator()
        var failing = store.states(failingAfter: 3).makeAsyncIterator()
        for _ in 0..<10 {
            store.dispatch(action: .add(1))
            await store.flush()
        }
        for count in 0...10 { #expect(await every.next()?.count == count) }
        #expect(await [newest.next()?.count, newest.next()?.count] == [9, 10])
        #expect(await [oldest.next()?.count, oldest.next()?.count] == [0, 1])
        #expect(await latest.next()?.count == 10)
        let dropped: [Int] = [newest.dropped, oldest.dropped, every.dropped, failing.dropped]
        #expect(dropped == [9, 9, 0, 8])
        for count in 0...2 {
            let next = try? await failing.next()
            #expect(next?.count == count)
        }
        await #expect(throws: FluxOverflow.self) { try await failing.next() }
        let rest = (try? await failing.next())?.count
        #expect(rest == nil, "an error is thrown once")
    }

    @Test func `values(of:) returns only changes of the part`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        var values = store.values(of: \.disorder, .every).makeAsyncIterator()
        for number in [1, 2, 3, 5, 6] { store.dispatch(action: .mark(producer: 1, number: number)) }
        #expect(await [values.next(), values.next()] == [0, 1])
    }

    /// If the part that differed was skipped, the part that is left may equal the one returned last.
    @Test(arguments: [AnyDelivery.latest, .newest(1)])
    func `An iterator returns no part twice in succession, even if it skipped another`(delivery: AnyDelivery) async {
        for isView in [false, true] {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let view = isView ? store.view(\.count) : nil
            let counts = view.map { delivery.states($0) } ?? delivery.values(store, of: \.count)
            var iterator = counts.makeAsyncIterator()
            #expect(await iterator.next() == 0)
            for amount in [1, -1] {
                store.dispatch(action: .add(amount))
                await view?.flush()
                await store.flush()
            }
            let change = Task {
                for _ in 0..<10 { await Task.yield() }
                store.dispatch(action: .add(5))
            }
            let last = await iterator.next()
            #expect(last == 5, "without the 0 that it has given already")
            await change.value
        }
    }

    @Test func `A bounded sequence never has more waiting states than it has room for`() async throws {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        var newest = store.states(.buffered(newest: 1)).makeAsyncIterator()
        var oldest = store.states(.buffered(oldest: 1)).makeAsyncIterator()
        var failing = store.states(failingAfter: 1).makeAsyncIterator()
        // No flush is needed: when a dispatch returns, its state is already waiting or has been left out.
        for count in 1...5 {
            store.dispatch(action: .add(1))
            let dropped: [Int] = [newest.dropped, oldest.dropped, failing.dropped]
            #expect(dropped == [count, count, count])
        }
        #expect(await [newest.next()?.count, oldest.next()?.count] == [5, 0])
        #expect(try await failing.next()?.count == 0)
        await #expect(throws: FluxOverflow.self) { try await failing.next() }
    }

    @Test func `An iterator returns no part twice in succession, even if it dropped another`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        var counts = store.values(of: \.count, .buffered(oldest: 1)).makeAsyncIterator()
        #expect(await counts.next() == 0)
        for amount in [1, 1] {
            store.dispatch(action: .add(amount))
            await store.flush()
        }
        #expect(await counts.next() == 1)
        store.dispatch(action: .add(-1))
        await store.flush()
        let isDone = Flag()
        let change = Task {
            while !isDone.isSet {
                store.dispatch(action: .add(1))
                await Task.yield()
            }
        }
        let last = await counts.next()
        isDone.set()
        await change.value
        #expect(last != 1, "which it has given already")
    }

    @Test func `An iterator that starts with the next part waits for one that differs from the initial part`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        var counts = store.values(of: \.count, startingWithCurrent: false).makeAsyncIterator()
        for amount in [1, -1] {
            store.dispatch(action: .add(amount))
            await store.flush()
        }
        store.dispatch(action: .add(3))
        let last = await counts.next()
        #expect(last == 3)
    }

    @Test(arguments: [AnyDelivery.latest, .newest(1), .every])
    func `A view delivers no value twice in succession, even if it skipped another`(delivery: AnyDelivery) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let view = store.view(\.count)
        let (entered, gate) = (Recorder<Int>(), Gate())
        let seen = Recorder<Int>()
        let token = delivery.subscribe(view, on: DispatchQueue(label: "one"), startingWithCurrent: true) { count in
            seen.record(count)
            entered.record(1)
            gate.wait()
        }
        await entered.count(1)
        for amount in [1, -1] {
            store.dispatch(action: .add(amount))
            #expect(view.state == store.state.count, "which announces it")
        }
        gate.open()
        await view.flush()
        #expect(seen.values == (delivery == .every ? [0, 1, 0] : [0]))
        token.unsubscribe()
    }

    /// The turn of the queue that reports the 1 comes too late, and has 0 once more.
    @Test(.timeLimit(.minutes(1)))
    func `An iterator of a view ends on the newest value, even if it equals the value at its start`() async {
        for _ in 0..<50 {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let view = store.view(\.count)
            var iterator = view.states.makeAsyncIterator()
            await view.flush()
            store.dispatch(action: .add(1))
            #expect(await iterator.next() == 1)
            store.dispatch(action: .add(-1))
            #expect(view.state == 0)
            #expect(await iterator.next() == 0)
        }
    }

    /// Applies a change just before it is watched.
    struct Changing: WrappedSource {
        let base: FluxStore<Counter>

        func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
            base.dispatch(action: .add(1))
            return base.watch(changed)
        }
    }

    @Test(.timeLimit(.minutes(1)), arguments: [AnyDelivery.newest(4), .oldest(4), .every, .latest])
    func `An iterator misses neither a change that happens while it starts nor the one after it`(
        delivery: AnyDelivery
    ) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let view = FluxView(Changing(base: store)) { $0.count }
        var iterator = delivery.states(view, startingWithCurrent: false).makeAsyncIterator()
        #expect(view.state == 1)
        store.dispatch(action: .add(-1))
        #expect(await iterator.next() == 0)
    }

    @Test func `Cancelling a task ends its iteration at once, even if states are waiting`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        for states in [store.states, store.states(.every)] {
            let (started, cancelled) = (Gate(), Gate())
            let task = Task {
                var count = 0
                for await _ in states {
                    count += 1
                    started.open()
                    if count == 1 { await cancelled.opened() }
                }
                return count
            }
            await started.opened()
            for _ in 0..<10 { store.dispatch(action: .add(1)) }
            await store.flush()
            task.cancel()
            cancelled.open()
            #expect(await task.value == 1)
        }
    }

    @Test(.stress) func `Stress: an iteration that is cancelled at any moment ends`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        await withTaskGroup(of: Void.self) { group in
            for index in 0..<1_000 {
                let task = Task { for await _ in store.states(index % 2 == 0 ? .latest : .every) {} }
                group.addTask {
                    if index % 3 == 0 { store.dispatch(action: .add(1)) }
                    if index % 5 == 0 { await Task.yield() }
                    task.cancel()
                    await task.value
                }
            }
        }
        await store.flush()
    }

    @Test func `An iterator keeps its source until it is released, even a view that nothing else keeps`() async {
        let gone = Gate()
        var store: FluxStore<Kept>? = FluxStore(initialState: Kept(canary: Canary(gone)), dispatcher: nil)
        do {
            var iterator = FluxView(store!, store!) { $0.count + $1.count }.states.makeAsyncIterator()
            #expect(await iterator.next() == 0)
            var every = store!.states(.every).makeAsyncIterator()
            weak let known = store
            store = nil
            for count in 1...3 {
                known?.dispatch(action: .add(1))
                #expect(await iterator.next() == 2 * count)
            }
            for count in 0...3 { #expect(await every.next()?.count == count) }
            #expect(known != nil && !gone.isOpen)
        }
        await gone.opened()
    }

    struct Kept: FluxState {
        let canary: Canary
        var count = 0
        mutating func handle(action: Counter.Action) -> Kept? {
            count += 1
            return self
        }
    }

    @Test func `A loop over a temporary view continues for as long as its iterator exists`() async {
        let stores = (0..<2).map { _ in FluxStore(initialState: Counter(), dispatcher: nil) }
        let isOver = Flag()
        let change = Task.detached {
            while !isOver.isSet {
                stores[0].dispatch(action: .add(1))
                await Task.yield()
            }
        }
        for await sum in FluxView(stores[0], stores[1], transform: { $0.count + $1.count }).states where sum > 10 {
            break
        }
        for await sum in FluxView(stores, transform: { $0[0].count }).values(of: \.self, .every) where sum > 20 {
            break
        }
        for await count in stores[0].view(\.count).states(.every) where count > 30 { break }
        var iterators = [
            stores[0].view(\.count).states.makeAsyncIterator(),
            stores[0].view(\.count).states(.every).makeAsyncIterator(),
            stores[0].view(\.count).values(of: \.self).makeAsyncIterator(),
        ]
        for index in iterators.indices {
            let first = await iterators[index].next() ?? .max
            var last: Int? = first
            while let count = last, count < first + 10 { last = await iterators[index].next() }
            #expect(last != nil, "though the sequence and the view are gone")
        }
        isOver.set()
        await change.value
    }

    @Test func `Sequences and views compare parts that are not Equatable with the given function`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let isSame: @Sendable (Counter, Counter) -> Bool = { $0.count / 10 == $1.count / 10 }
        let view = store.view({ $0 }, by: isSame)
        var parts = store.values(of: { $0 }, by: isSame, .every).makeAsyncIterator()
        var shown = view.states(.every).makeAsyncIterator()
        #expect(await parts.next()?.count == 0)
        #expect(await shown.next()?.count == 0)
        store.dispatch(action: .add(5))
        await view.flush()
        store.dispatch(action: .add(6))
        #expect(await parts.next()?.count == 11)
        #expect(await shown.next()?.count == 11)
    }

    /// 10,000 iterators, with FLUX_LONG for a minute at 1,000 changes a second; in its own process, to measure memory.
    @Test(.stress) func `Stress: 10,000 iterators all end on the last state, and memory is flat`() async {
        await #expect(processExitsWith: .success) {
            let isLong = ProcessInfo.processInfo.environment["FLUX_LONG"] != nil
            let (iterators, changes) = (10_000, isLong ? 60_000 : 300)
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            // The iterators that have begun, and those that have seen the second half begin.
            let (begun, halfway) = (Recorder<Int>(), Recorder<Int>())
            let tasks = (0..<iterators).map { _ in
                Task {
                    var last = -1
                    for await state in store.states {
                        if last < 0 { begun.record(state.count) }
                        if last < changes / 2 && state.count >= changes / 2 { halfway.record(state.count) }
                        last = state.count
                        if last >= changes { break }
                    }
                    return last
                }
            }
            await begun.count(iterators)
            for _ in 0..<changes / 2 {
                store.dispatch(action: .add(1))
                if isLong { try? await Task.sleep(for: .milliseconds(1)) }
            }
            // Nothing is pending at either of the two moments compared.
            await halfway.count(iterators)
            let middle = Heap.bytesInUse
            for _ in changes / 2..<changes {
                store.dispatch(action: .add(1))
                if isLong { try? await Task.sleep(for: .milliseconds(1)) }
            }
            var wrong = 0
            for task in tasks where await task.value != changes { wrong += 1 }
            #expect(wrong == 0)
            #expect(Heap.bytesInUse < middle + 1_000_000)
        }
    }

    @Test func `Two tasks that wait with one iterator stop the program`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            await Self.waitTwice(FluxStore(initialState: Counter(), dispatcher: nil).states(.every).makeAsyncIterator())
        }
        let text = result.said
        #expect(text.contains("FluxCore: two tasks wait with one iterator. Give each its own"), "\(text)")
    }

    @MainActor private static func waitTwice(_ iterator: FluxStates<Counter, Never>.Iterator) async {
        let tasks = (0..<3).map { _ in
            Task { @MainActor in
                var own = iterator
                _ = await own.next()
            }
        }
        for task in tasks { await task.value }
    }
}
