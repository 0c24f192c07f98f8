import FluxCore
import FluxRouting
import TestSupport
import Testing

/// Dispatchers in dispatchers: what passes, what is replaced and stopped, and in which order.
@Suite struct ChildDispatcherTests {
    let main = FluxDispatcher()
    let child = FluxDispatcher()

    @Test func `A child's stores get an action before the parent's own stores`() throws {
        let order = Locked<[Int]>([])
        let stores = [(main, 1), (child, 2)].map { dispatcher, number in
            FluxStore(initialState: Noting(number: number, order: order), dispatcher: dispatcher)
        }
        try main.attach(child)
        #expect(main.add(1) == 2)
        #expect(order.current == [2, 1])
        #expect(child.add(1) == 1)
        #expect(order.current == [2, 1, 2])
        withExtendedLifetime(stores) {}
    }

    @Test func `Changes announced by nested children are counted once, wherever middleware is added`() throws {
        let (middle, leaf, second) = (child, FluxDispatcher(), FluxDispatcher())
        let stores = [main, middle, leaf, second].map { FluxStore(initialState: Counter(), dispatcher: $0) }
        try middle.attach(leaf)
        try leaf.attach(second)
        try main.attach(middle)
        let counts = Locked<[Int]>([])
        let dispatchers = [main, middle, leaf, second]
        // None, some or all of the four have middleware, which reads the announcements before and after `next`.
        for chosen in 0..<16 {
            let added = dispatchers.enumerated().filter { chosen >> $0.offset & 1 == 1 }.map { _, dispatcher in
                dispatcher.add(
                    .on(Counter.Action.self) { action, next in
                        let before = next.announced
                        let announced = next(action)
                        counts.withLock { $0.append(next.announced - before - announced) }
                    }, priority: 1)
            }
            #expect(main.add(1) == 4)
            #expect(middle.add(1) == 3)
            for registration in added { registration.remove() }
        }
        #expect(counts.current.allSatisfy { $0 == 0 } && counts.current.count == 16 * 4 - 8)
        withExtendedLifetime(stores) {}
    }

    @Test(.stress) func `The cost of an action grows linearly with the depth of children`() async {
        await #expect(processExitsWith: .success) {
            func cost(of depth: Int) throws -> Int {
                let dispatchers = (0..<depth).map { _ in FluxDispatcher() }
                for (outer, inner) in zip(dispatchers, dispatchers.dropFirst()) { try outer.attach(inner) }
                let store = FluxStore(initialState: Counter(), dispatcher: dispatchers.last!)
                let time = processorTime { for _ in 1...100 { _ = dispatchers[0].add(1) } }
                guard store.state.count == 100 else { fatalError("\(store.state)") }
                return time
            }
            _ = try cost(of: 25)
            let (few, many) = (try cost(of: 25), try cost(of: 400))
            // The sanitizer records the whole stack with each allocation, which alone takes quadratic time.
            guard isSanitized || many < 32 * few else { fatalError("\(few) for a depth of 25, \(many) for one of 400") }
        }
    }

    @Test func `A child may replace or stop an action for the stores and children behind it`() throws {
        let (first, second) = (child, FluxDispatcher())
        let stores = [first, second, main].map { FluxStore(initialState: Log(), dispatcher: $0) }
        try main.attach(second)
        try main.attach(first, priority: 1)
        first.add(
            .on(Counter.Action.self) { action, next in
                switch action {
                case .add(1): break
                case .add(2): next(Counter.Action.add(20))
                default: next(action)
                }
            })
        #expect(main.add(1) == 0)
        #expect(main.add(2) == 3)
        #expect(main.add(3) == 3)
        #expect(stores.map(\.state.entries) == [[20, 3], [20, 3], [20, 3]])
    }

    @Test func `A child is detached by token and by instance`() throws {
        let store = FluxStore(initialState: Log(), dispatcher: child)
        let token = try main.attach(child)
        #expect(main.responds(to: Counter.Action.self))
        token.remove()
        #expect(main.add(1) == 0)
        try main.attach(child)
        #expect(main.detach(child))
        #expect(!main.responds(to: Counter.Action.self))
        #expect(store.state.entries.isEmpty)
    }

    @Test func `A child that is attached again moves, and gets each action once`() throws {
        let other = FluxDispatcher()
        let order = Locked<[Int]>([])
        let stores = [(child, 1), (other, 2)].map { dispatcher, number in
            FluxStore(initialState: Noting(number: number, order: order), dispatcher: dispatcher)
        }
        let first = try main.attach(child)
        try main.attach(other)
        #expect(main.add(1) == 2)
        let second = try main.attach(child)
        #expect(main.add(1) == 2)
        try main.attach(child, priority: 1)
        #expect(main.add(1) == 2)
        #expect(order.current == [1, 2, 2, 1, 1, 2], "behind its equals, then before all")
        first.remove()
        second.remove()
        #expect(main.add(1) == 2, "they were of places that it has no more")
        #expect(main.detach(child))
        #expect(!main.detach(child))
        #expect(main.add(1) == 1)
        withExtendedLifetime(stores) {}
    }

    @Test func `A child that moves during an action gets that action once`() throws {
        let store = FluxStore(initialState: Log(), dispatcher: child)
        main.add(.before { [main, child] _ in _ = try? main.attach(child, priority: -1) }, priority: 1)
        try main.attach(child)
        #expect(main.add(1) == 1)
        #expect(main.add(2) == 1)
        #expect(store.state.entries == [1, 2])
    }

    @Test func `A child that moves and is then detached during an action does not get that action`() throws {
        let store = FluxStore(initialState: Log(), dispatcher: child)
        try main.attach(child)
        main.add(
            .before { [main, child] _ in
                _ = try? main.attach(child, priority: -1)
                main.detach(child)
            }, priority: 1)
        #expect(main.add(1) == 0)
        #expect(store.state.entries.isEmpty)
    }

    @Test func `A cycle of one, two or three dispatchers is refused`() throws {
        let third = FluxDispatcher()
        #expect(throws: FluxCycle.self) { try main.attach(main) }
        try main.attach(child)
        #expect(throws: FluxCycle.self) { try child.attach(main) }
        try child.attach(third)
        let error = #expect(throws: FluxCycle.self) { try third.attach(main) }
        #expect(error?.description.contains("would circulate") == true)
        main.detach(child)
        try child.attach(main)
    }

    @Test func `The searches below a dispatcher visit each once, even if many paths lead to it`() throws {
        // There are 2 to the power of 60 paths: a search that followed each of them would never end.
        var top = FluxDispatcher()
        let bottom = top
        for _ in 0..<60 {
            let (left, right, next) = (FluxDispatcher(), FluxDispatcher(), FluxDispatcher())
            for side in [left, right] {
                try side.attach(top)
                try next.attach(side)
            }
            top = next
        }
        #expect(throws: FluxCycle.self) { try bottom.attach(top) }
        #expect(!top.responds(to: Counter.Action.self))
    }

    @Test func `One of two threads that attach two dispatchers to each other is refused`() async {
        for _ in 0..<200 {
            let dispatchers = [FluxDispatcher(), FluxDispatcher()]
            let refused = Locked(0)
            await onThreads(2) { index in
                do { try dispatchers[index].attach(dispatchers[1 - index]) } catch { refused.withLock { $0 += 1 } }
            }
            #expect(refused.current == 1)
        }
    }

    @Test func `All stores of a child with two parents see the actions in the same order`() async throws {
        let other = FluxDispatcher()
        try main.attach(child)
        try other.attach(child)
        let stores = (0..<2).map { _ in FluxStore(initialState: Log(), dispatcher: child) }
        await onThreads(2) { [main] index in
            for number in 1...2_000 {
                (index == 0 ? main : other).dispatch(action: Counter.Action.mark(producer: index, number: number))
            }
        }
        #expect(stores[0].state.entries.count == 4_000)
        #expect(stores[0].state.entries == stores[1].state.entries)
    }
}
