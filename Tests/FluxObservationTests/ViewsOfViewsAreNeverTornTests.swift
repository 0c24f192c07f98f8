import Dispatch
import FluxCore
import FluxObservation
import TestSupport
import Testing

/// C11 through other views: unannounced changes of a store are in the same cut as the announced changes of others.
///
/// A view that keeps its value until something is *announced*, and passes that value to the view above it, passes on an
/// old value next to the current states of other stores. One thread is enough to see this.
@Suite struct ViewsOfViewsAreNeverTornTests {
    /// Counts what `Counter` counts, and announces nothing.
    struct Quiet: FluxState {
        var count = 0

        mutating func handle(action: Counter.Action) -> Quiet? {
            if case .add(let amount) = action { count += amount }
            return nil
        }
    }

    let dispatcher = FluxDispatcher()
    let quiet: FluxStore<Quiet>
    let loud: FluxStore<Counter>

    init() {
        quiet = FluxStore(initialState: Quiet(), dispatcher: dispatcher)
        loud = FluxStore(initialState: Counter(), dispatcher: dispatcher)
    }

    @Test func `A view of two stores shows both effects of an action`() {
        let view = FluxView(loud, quiet) { [$0.count, $1.count] }
        for count in 1...3 {
            dispatcher.add(1)
            #expect(view.state == [count, count])
        }
    }

    @Test func `A view of one store and of a view of the other shows both effects of an action`() {
        let outer = FluxView(loud, quiet.view { $0.count }) { [$0.count, $1] }
        for count in 1...3 {
            dispatcher.add(1)
            #expect(outer.state == [count, count])
        }
    }

    @Test func `A view of two views shows both effects of an action, in either order`() {
        let one = FluxView(quiet.view { $0.count }, loud.view { $0.count }) { [$0, $1] }
        let other = FluxView(loud.view { $0.count }, quiet.view { $0.count }) { [$0, $1] }
        for count in 1...3 {
            dispatcher.add(1)
            #expect(one.state == [count, count])
            #expect(other.state == [count, count])
        }
    }

    @Test func `A view of a view that announces little shows both effects, even if that view was read before`() {
        let coarse = loud.view(\.count, by: { $0 / 10 == $1 / 10 })
        let outer = FluxView(coarse, quiet) { [$0, $1.count] }
        for count in 1...12 {
            dispatcher.add(1)
            if count.isMultiple(of: 3) { #expect(coarse.state == count) }
            #expect(outer.state == [count, count])
        }
    }

    @Test func `A view compares a new value with the last one announced, so slow growth is announced too`() async {
        let told = FluxLock<[Int]>([])
        let coarse = loud.view(\.count, by: { abs($0 - $1) < 3 })
        let token = coarse.subscribe { count in told.withLock { $0.append(count) } }
        for _ in 1...7 {
            dispatcher.add(1)
            _ = coarse.state
        }
        await coarse.flush()
        withExtendedLifetime(token) { #expect(told.withLock { $0 } == [3, 6]) }
    }

    /// The last value may count as equal to one delivered before, although the value announced last does not.
    @Test(.timeLimit(.minutes(1)))
    func `A delivery that skips values ends on the newest, even if it counts as equal to an earlier one`() async {
        let coarse = loud.view(\.count, by: { abs($0 - $1) < 5 })
        let (queue, told) = (DispatchQueue(label: "slow"), Recorder<Int>())
        let token = coarse.subscribe(.latest, on: queue, startingWithCurrent: true) { count in
            told.record(count)
        }
        await coarse.flush()
        let states = coarse.states
        var iterators = [states.makeAsyncIterator(), states.makeAsyncIterator()]
        for index in iterators.indices { #expect(await iterators[index].next() == 0) }
        // 6 is announced, 3 is not. Then 0 and 10 are announced, of which 10 counts as equal to 6, but not to 3. Then 6
        // is not announced, and 1 is.
        for (changes, last) in [([6, -3], 3), ([-3, 10], 10), ([-4, -5], 1)] {
            queue.suspend()
            for change in changes {
                dispatcher.add(change)
                _ = coarse.state
            }
            for index in iterators.indices { #expect(await iterators[index].next() == last) }
            queue.resume()
            await coarse.flush()
        }
        withExtendedLifetime(token) { #expect(told.values == [0, 3, 10, 1]) }
    }

    @Test func `A view of views of views shows both effects of an action`() {
        let deep = quiet.view { $0.count }.view { $0 * 2 }.view { $0 / 2 }
        let outer = FluxView(FluxView(loud, deep) { [$0.count, $1] }, deep) { $0 + [$1] }
        for count in 1...3 {
            dispatcher.add(1)
            #expect(outer.state == [count, count, count])
        }
    }

    @Test(.stress) func `A view that many paths reach is computed once per cut, when read and when watched`() async {
        let (computed, seen) = (Locked(0), Recorder<Int>())
        var views = [loud.view { $0.count }]
        for _ in 0..<40 {
            views.append(
                FluxView(views.last!, views.last!) { one, other in
                    computed.withLock { $0 += 1 }
                    return one == other ? one : -1
                })
        }
        let last = views.last!
        let token = last.subscribe { seen.record($0) }
        for count in 1...3 {
            computed.withLock { $0 = 0 }
            dispatcher.add(1)
            #expect(last.state == count && last.stores.count == 1)
            await last.flush()
            #expect(seen.values.last == count)
            // Once per view for each cut: that of the read, those of the subscription at its start and with the change,
            // and that of the flush. Once for each path would be about 2 to the power of 40 times.
            #expect(computed.current <= 4 * 40)
        }
        token.unsubscribe()
    }

    @Test func `A view of an array of views shows both effects of an action`() {
        let counts = [loud.view { $0.count }, quiet.view { $0.count }, loud.view { $0.count }]
        let outer = FluxView(counts) { $0 }
        for count in 1...3 {
            dispatcher.add(1)
            #expect(outer.state == [count, count, count])
        }
    }

    @Test func `A view is not torn by an earlier read of one of its parts`() {
        let part = quiet.view { $0.count }
        let outer = FluxView(loud, part) { [$0.count, $1] }
        for count in 1...6 {
            dispatcher.add(1)
            if count % 2 == 0 { #expect(part.state == count) }
            #expect(outer.state == [count, count])
            #expect(part.state == count, "a view shows what its store shows")
        }
    }

    @Test func `A view shows changes of the quiet store alone, of the loud one alone, and of both`() {
        let outer = FluxView(loud, quiet.view { $0.count }) { [$0.count, $1] }
        quiet.dispatch(action: .add(5))
        #expect(outer.state == [0, 5])
        loud.dispatch(action: .add(1))
        #expect(outer.state == [1, 5])
        dispatcher.add(1)
        #expect(outer.state == [2, 6])
    }

    @Test func `A subscription to a view gets no torn value and ends on the last one`() async {
        let outer = FluxView(loud, quiet.view { $0.count }) { [$0.count, $1] }
        let (every, latest) = (Recorder<[Int]>(), Recorder<[Int]>())
        let token = FluxSubscription([
            outer.subscribe(startingWithCurrent: true) { every.record($0) },
            outer.subscribe(.latest, startingWithCurrent: true) { latest.record($0) },
        ])
        for count in 1...20 {
            dispatcher.add(1)
            await outer.flush()
            #expect(every.values.last == [count, count] && latest.values.last == [count, count])
        }
        #expect((every.values + latest.values).filter { $0[0] != $0[1] } == [])
        token.unsubscribe()
    }

    @Test func `A sequence of the states of a view has no torn value`() async {
        let outer = FluxView(loud, quiet.view { $0.count }) { [$0.count, $1] }
        var iterator = outer.states.makeAsyncIterator()
        #expect(await iterator.next() == [0, 0])
        for count in 1...20 {
            dispatcher.add(1)
            #expect(await iterator.next() == [count, count])
        }
    }

    @Test(.stress) func `The cost of a read after a change grows with the depth of views, not with its square`() async {
        await #expect(processExitsWith: .success) {
            func cost(of depth: Int) -> Int {
                let store = FluxStore(initialState: Counter(), dispatcher: nil)
                var views = [store.view { $0.count }]
                for _ in 1..<depth { views.append(views.last!.view { $0 }) }
                return processorTime {
                    for count in 1...20 {
                        store.dispatch(action: .add(1))
                        guard views.last!.state == count else { fatalError("\(views.last!.state) after \(count)") }
                    }
                }
            }
            _ = cost(of: 50)
            let (few, many) = (cost(of: 50), cost(of: 800))
            guard many < 64 * few else { fatalError("\(few) for a row of 50, \(many) for one of 800") }
        }
    }

    @Test(.stress) func `Stress: none of three views is torn when read and watched during many changes`() async {
        let part = quiet.view { $0.count }
        let views = [
            FluxView(loud, part) { [$0.count, $1] },
            FluxView(part, loud.view { $0.count }, quiet) { [$0, $1, $2.count] },
            FluxView(FluxView(part, loud) { [$0, $1.count] }, part.view { $0 }) { $0 + [$1] },
        ]
        let torn = Recorder<[Int]>()
        let see: @Sendable ([Int]) -> Void = { if Set($0).count > 1 { torn.record($0) } }
        let token = FluxSubscription(
            views.flatMap { view in [view.subscribe { see($0) }, view.subscribe(.latest) { see($0) }] })
        await onThreads(3) { [dispatcher] thread in
            for round in 0..<3_000 {
                if thread == 0 { dispatcher.add(1) } else { see(views[(round + thread) % 3].state) }
            }
        }
        for view in views { await view.flush() }
        token.unsubscribe()
        #expect(torn.values.count == 0)
        for view in views { #expect(Set(view.state) == [3_000]) }
    }
}
