import FluxCore
import FluxObservation
import TestSupport
import Testing

/// A view of a group follows the members as they come and go, and keeps none of them alive.
@Suite struct GroupViewTests {
    private final class Desk: Sendable {
        let store: FluxStore<Counter>
        init(_ store: FluxStore<Counter>) { self.store = store }
    }

    private func store(_ count: Int = 0, _ dispatcher: FluxDispatcher? = nil) -> FluxStore<Counter> {
        FluxStore(initialState: Counter(count: count), dispatcher: dispatcher)
    }

    @Test func `A view of a group shows the current members, whether it is watched or not`() async {
        let rooms = Group<FluxStore<Counter>>()
        let view = FluxView(rooms) { $0.mapValues(\.count) }
        let same = FluxView(rooms, by: { $0 == $1 }) { $0.mapValues(\.count) }
        #expect(view.state == [:])
        for isWatched in [false, true] {
            let token = isWatched ? view.subscribe { _ in } : nil
            rooms.open(1, store(1))
            rooms.open(2, store(2))
            #expect(view.state == [1: 1, 2: 2])
            rooms.state[2]?.dispatch(action: .addSilently(1))
            #expect(view.state == [1: 1, 2: 3])
            rooms.close(1)
            #expect(view.state == [2: 3])
            rooms.open(2, store(9))
            #expect(view.state == [2: 9], "another under the same key")
            #expect(same.state == view.state)
            rooms.close(2)
            #expect(view.state == [:])
            token?.unsubscribe()
        }
        #expect(view.stores == rooms.stores)
    }

    @Test func `A view notices a replaced member even if the total number of changes is the same as before`() {
        let rooms = Group<FluxStore<Counter>>()
        let view = FluxView(rooms) { $0.mapValues(\.count) }
        let busy = store()
        rooms.open(1, busy)
        for _ in 0..<10 { busy.dispatch(action: .add(1)) }
        #expect(view.state == [1: 10])
        let next = store(100)
        rooms.close(1)
        rooms.open(1, next)
        for _ in 0..<8 { next.dispatch(action: .add(1)) }
        #expect(view.state == [1: 108], "though there are as many changes in all as before")
    }

    @Test func `A view notices a member replaced during a read even if the total number of changes is the same`() {
        let (busy, next, swap) = (store(), store(100), Locked<(@Sendable () -> Void)?>(nil))
        let rooms = Group<FluxStore<Counter>> { _ in swap.withLock { $0.take() }?() }
        let view = FluxView(rooms) { $0.mapValues(\.count) }
        rooms.open(1, busy)
        #expect(view.state == [1: 0])
        busy.dispatch(action: .add(1))
        swap.withLock { swap in swap = { rooms.store.dispatch(action: .open(1, next)) } }
        #expect(view.state == [1: 100], "though as many changes of the group and of its members were counted before")
    }

    @Test(.timeLimit(.minutes(1))) func `A watched view of a group follows a store that replaces another one`() async {
        let (rooms, first, second) = (Group<FluxStore<Counter>>(), store(), store())
        rooms.open(1, first)
        let view = FluxView(rooms) { $0.mapValues(\.count) }
        let seen = Recorder<Int?>()
        let subscription = view.subscribe { seen.record($0[1]) }
        first.dispatch(action: .add(1))
        await seen.count(1)
        rooms.open(1, second)
        await seen.count(2)
        second.dispatch(action: .add(7))
        await seen.count(3)
        #expect(seen.values == [1, 0, 7])
        subscription.unsubscribe()
    }

    /// A store as a source that counts its watchers.
    private struct Watched: WrappedSource {
        let base = FluxStore(initialState: Counter(), dispatcher: nil)
        let watching: Locked<Int>

        func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
            watching.withLock { $0 += 1 }
            let token = base.watch(changed)
            let isOver = Locked(false)
            return FluxSubscription {
                token.unsubscribe()
                let isFirst = isOver.withLock { isOver in
                    defer { isOver = true }
                    return !isOver
                }
                if isFirst { watching.withLock { $0 -= 1 } }
            }
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `A watcher that unsubscribes while members are looked up watches none, even if its token is kept`() async {
        let (look, watching) = (Locked<(@Sendable () -> Void)?>(nil), Locked(0))
        let rooms = Group<Watched> { _ in look.withLock { $0.take() }?() }
        rooms.open(1, Watched(watching: watching))
        let view = FluxView(rooms) { $0.count }
        let told = Recorder<Int>()
        let token = view.watch {
            told.record(watching.current)
            return nil
        }
        await told.count(1)
        look.withLock { look in look = { token.unsubscribe() } }
        rooms.open(2, Watched(watching: watching))
        await told.count(2)
        #expect(told.values == [1, 0])
        withExtendedLifetime(token) {}
    }

    @Test func `A view watches its source once for all its subscriptions, and only while there is one`() {
        let watching = Locked(0)
        let view = FluxView(Watched(watching: watching)) { $0.count }
        #expect(watching.current == 0)
        for _ in 0..<2 {
            let tokens = (0..<3).map { _ in view.subscribe { _ in } }
            #expect(watching.current == 1)
            for token in tokens.dropFirst() { token.unsubscribe() }
            #expect(watching.current == 1)
            tokens[0].unsubscribe()
            #expect(watching.current == 0)
        }
    }

    /// The progress of a cut, and what another thread does at each point of it while this one waits.
    private final class Moments: Sendable {
        enum Moment { case before, joined, reading, read, over }

        private let moment = Locked(Moment.before)
        private let (joins, acts, moves): (@Sendable () -> Void, @Sendable () -> Void, @Sendable () -> Void)

        init(
            joins: @escaping @Sendable () -> Void, acts: @escaping @Sendable () -> Void,
            moves: @escaping @Sendable () -> Void
        ) { (self.joins, self.acts, self.moves) = (joins, acts, moves) }

        private func go(from one: Moment, to next: Moment, _ body: @escaping @Sendable () -> Void) {
            let isNow = moment.withLock { moment in
                defer { if moment == one { moment = next } }
                return moment == one
            }
            if isNow { elsewhere(body) }
        }

        func looks() {
            go(from: .read, to: .over, moves)
            go(from: .before, to: .joined, joins)
        }

        func reads() {
            go(from: .reading, to: .read) {}
            go(from: .joined, to: .reading, acts)
        }
    }

    /// A store as a source that reports the moments of a cut.
    private struct Probe: WrappedSource {
        let base: FluxStore<Counter>
        var moments: Moments?
        var isLate = false

        var stores: [FluxStoreInfo] {
            moments?.looks()
            return base.stores
        }

        func capture(in cut: FluxCut) -> @Sendable () -> Counter {
            let captured = base.capture(in: cut)
            if isLate { moments?.reads() }
            return captured
        }
    }

    @Test func `Members that join before a cut and then move to a dispatcher it has paused are in step`() {
        let (one, other, rooms) = (FluxDispatcher(), FluxDispatcher(), Group<Probe>())
        let (first, second) = (store(0, one), store(0, one))
        let moments = Locked<Moments?>(nil)
        let joined = Moments {
            for (key, store) in [first, second].enumerated() {
                rooms.open(key + 1, Probe(base: store, moments: moments.current, isLate: true))
            }
        } acts: {
            one.dispatch(action: Counter.Action.add(1))
        } moves: {
            for store in [first, second] { other.attach(store) }
        }
        rooms.open(0, Probe(base: store(0, other)))
        let view = FluxView(rooms) { $0.mapValues(\.count) }
        moments.withLock { $0 = joined }
        rooms.open(0, Probe(base: store(0, other), moments: joined))
        let state = view.state
        #expect(state[1] == state[2], "torn: \(state)")
        moments.withLock { $0 = nil }
    }

    /// A user's own source, which names no stores.
    private final class Feed: WrappedSource {
        let base = FluxStore(initialState: Counter(), dispatcher: nil)
        var stores: [FluxStoreInfo] { [] }

        func add(_ amount: Int) { base.dispatch(action: .add(amount)) }
    }

    @Test func `A custom source that replaces another one is watched, even if neither names a store`() async {
        let (feeds, first, second) = (Group<Feed>(), Feed(), Feed())
        feeds.open(1, first)
        let view = FluxView(feeds) { $0.mapValues(\.count) }
        let seen = Recorder<Int?>()
        let subscription = view.subscribe { seen.record($0[1]) }
        first.add(1)
        await seen.count(1)
        feeds.open(1, second)
        await seen.count(2)
        second.add(7)
        await seen.count(3)
        #expect(seen.values == [1, 0, 7])
        subscription.unsubscribe()
    }

    /// A store as a source that runs a closure when its stores are listed, and one when it is captured.
    private final class Slow: WrappedSource {
        let base: FluxStore<Counter>
        private let found: @Sendable () -> Void
        private let captured: @Sendable () -> Void

        init(
            _ base: FluxStore<Counter>, found: @escaping @Sendable () -> Void = {},
            captured: @escaping @Sendable () -> Void = {}
        ) { (self.base, self.found, self.captured) = (base, found, captured) }

        var stores: [FluxStoreInfo] {
            found()
            return base.stores
        }

        func capture(in cut: FluxCut) -> @Sendable () -> Counter {
            defer { captured() }
            return base.capture(in: cut)
        }
    }

    /// Retains a view, and runs a closure when its stamp is read and one when it is released.
    private final class Keeping: WrappedSource {
        let base: FluxStore<Counter>
        private let look: Locked<(@Sendable () -> Void)?>
        private let released: @Sendable () -> Void
        let view = Locked<FluxView<Int>?>(nil)

        init(
            _ base: FluxStore<Counter>, _ look: Locked<(@Sendable () -> Void)?>,
            released: @escaping @Sendable () -> Void = {}
        ) { (self.base, self.look, self.released) = (base, look, released) }

        var stamp: UInt64 {
            look.current?()
            return base.stamp
        }

        deinit { released() }
    }

    @Test func `An action does not tear a view if members join during the read and then leave their dispatcher`() {
        let (dispatcher, desks) = (FluxDispatcher(), Group<Slow>())
        let (one, other) = (store(0, dispatcher), store(0, dispatcher))
        let steps = Locked((isBegun: false, hasCome: false, captures: 0))
        let captured: @Sendable () -> Void = {
            let count = steps.withLock { steps in
                steps.captures += 1
                return steps.captures
            }
            if count == 1 { elsewhere { dispatcher.add(1) } }
            if count == 2 { elsewhere { for store in [one, other] { dispatcher.detach(store) } } }
        }
        let members = [one, other].map { Slow($0, captured: captured) }
        let first = Slow(store(0, FluxDispatcher())) {
            let comes = steps.withLock { steps in
                defer { steps.hasCome = steps.isBegun }
                return steps.isBegun && !steps.hasCome
            }
            if comes { elsewhere { for (key, member) in zip([1, 2], members) { desks.open(key, member) } } }
        }
        desks.open(0, first)
        let view = FluxView(desks, by: { $0 == $1 }) { $0.mapValues(\.count) }
        #expect(view.state == [0: 0])
        steps.withLock { $0.isBegun = true }
        first.base.dispatch(action: .add(5))
        #expect(view.state == [0: 5, 1: 1, 2: 1])
    }

    @Test func `A member that leaves its dispatcher after a view has read it does not make the view read again`() {
        let (dispatcher, desks, steps) = (FluxDispatcher(), Group<Slow>(), Locked((captures: 0, moves: 0)))
        let leaving = store(1, dispatcher)
        let member = Slow(leaving) {
            let isNext = steps.withLock { steps in
                if steps.captures == steps.moves || steps.moves == 100 { return false }
                steps.moves += 1
                return true
            }
            if isNext {
                elsewhere {
                    dispatcher.detach(leaving)
                    dispatcher.attach(leaving)
                }
            }
        } captured: {
            steps.withLock { $0.captures += 1 }
        }
        desks.open(1, member)
        let view = FluxView(desks) { $0.mapValues(\.count) }
        steps.withLock { $0 = (0, 0) }
        leaving.dispatch(action: .add(1))
        #expect(view.state == [1: 2])
        #expect(steps.current == (1, 1))
    }

    /// A source that reads a pair of stores, and may get another pair between naming its stores and reading them.
    private final class Pair: WrappedSource {
        let base: FluxStore<Counter>
        private let pair: Locked<[FluxStore<Counter>]>
        private let next = Locked<(pair: [FluxStore<Counter>], acts: @Sendable () -> Void)?>(nil)

        init(_ base: FluxStore<Counter>, _ pair: [FluxStore<Counter>]) { (self.base, self.pair) = (base, Locked(pair)) }

        func replace(with pair: [FluxStore<Counter>], acts: @escaping @Sendable () -> Void) {
            next.withLock { $0 = (pair, acts) }
        }

        var stores: [FluxStoreInfo] { base.stores + pair.current.flatMap(\.stores) }

        func capture(in cut: FluxCut) -> @Sendable () -> Counter {
            let next = next.withLock { $0.take() }
            if let next { pair.withLock { $0 = next.pair } }
            let pair = pair.current
            let first = pair[0].capture(in: cut)
            if let next { elsewhere { next.acts() } }
            let second = pair[1].capture(in: cut)
            return { Counter(count: first().count * 10 + second().count) }
        }
    }

    @Test func `A member that reads other stores than it has named is read again`() {
        let (one, other, rooms) = (FluxDispatcher(), FluxDispatcher(), Group<Pair>())
        let room = Pair(store(), [store(0, one), store(0, one)])
        rooms.open(1, room)
        let view = FluxView(rooms) { $0.mapValues(\.count) }
        room.replace(with: [store(0, other), store(0, other)]) { other.add(1) }
        room.base.dispatch(action: .add(1))
        #expect(view.state == [1: 11], "not 1, which is one store before the action and the other after it")
    }

    @Test func `A member that closes while a view counts its changes is released while no lock is held`() async {
        let (rooms, busy, isFree) = (Group<Keeping>(), store(), Recorder<Bool>())
        let look = Locked<(@Sendable () -> Void)?>(nil)
        for (key, store) in [store(1), busy].enumerated() {
            let room = Keeping(store, look) {
                let isNow = Locked(false)
                // Runs at once only if the thread holds no lock of the library.
                FluxPureCode.after { isNow.withLock { $0 = true } }
                isFree.record(isNow.current)
            }
            rooms.open(key, room)
        }
        let view = FluxView(rooms) { $0.values.reduce(0) { $0 + $1.count } }
        let token = view.subscribe { _ in }
        look.withLock { closes in
            closes = {
                look.withLock { $0 = nil }
                elsewhere { rooms.close(0) }
            }
        }
        busy.dispatch(action: .add(1))
        await isFree.count(1)
        #expect(isFree.values == [true])
        await view.flush()
        #expect(view.state == 1)
        token.unsubscribe()
    }

    @Test(.timeLimit(.minutes(1)))
    func `A member that leaves while a view reads it may hold the last reference to that view`() async {
        let (desks, look, store, ended) = (Group<Keeping>(), Locked<(@Sendable () -> Void)?>(nil), store(), Gate())
        func watch() -> FluxSubscription {
            let (member, view) = (Keeping(store, look), FluxView(desks) { $0.values.reduce(0) { $0 + $1.count } })
            member.view.withLock { $0 = view }
            desks.open(1, member)
            return view.subscribe(.every, on: nil, startingWithCurrent: false, ended: { ended.open() }) { _ in }
        }
        let token = watch()
        look.withLock { hook in
            hook = {
                // Once, and on another thread, because this one holds a lock of the view.
                if look.withLock({ $0.take() }) != nil { elsewhere { desks.close(1) } }
            }
        }
        store.dispatch(action: .add(1))
        await ended.opened()
        withExtendedLifetime(token) {}
    }

    @Test func `A store released while its dispatcher is paused for a view leaves the dispatcher afterwards`() {
        let (dispatcher, look) = (FluxDispatcher(), Locked<(@Sendable () -> Void)?>(nil))
        let (rooms, houses, looks) = (Group<Slow>(), Group<FluxView<Int>>(), Locked(0))
        rooms.open(1, Slow(store(0, dispatcher), found: { look.current?() }))
        houses.open(1, FluxView(rooms) { $0.count })
        let outer = FluxView(houses) { $0.values.reduce(0, +) }
        #expect(outer.state == 1)
        look.withLock { hook in
            hook = {
                let count = looks.withLock { looks in
                    looks += 1
                    return looks
                }
                if count == 2 { elsewhere { rooms.close(1) } }
            }
        }
        dispatcher.add(1)
        #expect([0, 1].contains(outer.state))
        #expect(looks.current >= 2 && outer.state == 0)
        // The same without a view, and without a race.
        var last: FluxStore<Counter>? = store(0, dispatcher)
        FluxDispatcher.paused([dispatcher]) { last = nil }
        #expect(last?.state == nil)
    }

    @Test func `A subscription to a view of a group is notified when members come, change and go`() async {
        let desks = Group<Desk>()
        let view = FluxView(desks, \.store) { $0.mapValues(\.count) }
        let other = FluxView(desks, \.store, by: { $0 == $1 }) { $0.count }
        let seen = Locked([[Int: Int]]())
        let gates = [Gate(), Gate(), Gate()]
        let token = view.subscribe { state in
            seen.withLock { $0.append(state) }
            switch state {
            case [1: 0]: gates[0].open()
            case [1: 5]: gates[1].open()
            case [:]: gates[2].open()
            default: break
            }
        }
        desks.open(1, Desk(store()))
        await gates[0].opened()
        #expect(other.state == 1)
        desks.state[1]?.store.dispatch(action: .add(5))
        await gates[1].opened()
        desks.close(1)
        await gates[2].opened()
        #expect(seen.current == [[1: 0], [1: 5], [:]])
        withExtendedLifetime(token) {}
    }

    @Test func `A view of views of groups follows members that come later`() async {
        let dispatcher = FluxDispatcher()
        let rooms = Group<FluxStore<Counter>>()
        let count = FluxView(rooms) { $0.values.reduce(0) { $0 + $1.count } }
        let house = store(0, dispatcher)
        let both = FluxView(count, house) { [$0, $1.count] }
        let last = Highest()
        let token = both.subscribe { last.see($0.reduce(0, +)) }
        for key in 0..<10 { rooms.open(key, store(0, dispatcher)) }
        await both.flush()
        #expect(both.stores.count == 12)
        dispatcher.add(3)
        await last.reaches(33)
        #expect(both.state == [30, 3])
        let parts = Group<FluxView<Int>>()
        let ofParts = FluxView(parts.store.view(\.all.count), FluxView(parts) { $0.values.reduce(0, +) }) { [$0, $1] }
        parts.open(1, count)
        parts.open(2, house.view(\.count))
        #expect(ofParts.state == [2, 33])
        withExtendedLifetime(token) {}
    }

    /// A house whose rooms are a part of its state, with a view of them.
    private struct House: Sendable {
        let rooms = Group<FluxStore<Counter>>()
        let guests: FluxView<[Int: Int]>

        init(_ dispatcher: FluxDispatcher) {
            dispatcher.attach(rooms.store)
            guests = FluxView(rooms.store.view({ $0.all }, by: { $0.keys == $1.keys })) { $0.mapValues(\.count) }
        }
    }

    @Test(.timeLimit(.minutes(1)))
    func `Members of a group may be views of groups that are views themselves, read and watched`() async {
        let (dispatcher, houses) = (FluxDispatcher(), Group<House>())
        let view = FluxView(houses, \.guests) { $0 }
        let last = Highest()
        for isWatched in [false, true] {
            let token = isWatched ? view.subscribe { last.see($0.values.reduce(0) { $0 + $1.count }) } : nil
            for number in 0..<2 {
                let house = House(dispatcher)
                houses.open(number, house)
                #expect(view.state[number] == [:])
                house.rooms.open(1, store(0, dispatcher))
                #expect(view.state[number] == [1: 0], "though its view of them has not been read since")
            }
            houses.state[1]?.rooms.open(2, store(0, dispatcher))
            dispatcher.add(3)
            #expect(view.state == [0: [1: 3], 1: [1: 3, 2: 3]])
            #expect(view.stores.count == 6, "that of the houses, two of rooms, and the rooms")
            if isWatched { await last.reaches(3) }
            for number in 0..<2 { houses.close(number) }
            #expect(view.state == [:])
            withExtendedLifetime(token) {}
        }
    }

    @Test(.stress) func `Stress: members that are views of groups, which are views too, are read in one cut`() async {
        let (dispatcher, houses) = (FluxDispatcher(), Group<House>())
        let rooms = (0..<4).map { _ in store(0, dispatcher) }
        for number in 0..<2 { houses.open(number, House(dispatcher)) }
        let view = FluxView(houses, \.guests) { Set($0.values.flatMap(\.values)) }
        let seen = Locked(0)
        let token = view.subscribe { counts in seen.withLock { if counts.count > 1 { $0 += 1 } } }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for _ in 0..<1_000 { dispatcher.add(1) } }
            for number in 0..<2 {
                group.addTask {
                    let house = houses.state[number]
                    for round in 0..<500 {
                        let key = round % 2
                        house?.rooms.open(key, rooms[2 * number + key])
                        if round % 5 == 0 { house?.rooms.close(key) }
                        #expect(view.state.count < 2)
                    }
                }
            }
        }
        await view.flush()
        #expect(seen.current == 0 && view.state == [1_000])
        withExtendedLifetime((token, rooms)) {}
    }

    @Test func `A view of a group keeps no closed member alive, whether it is watched or not`() async {
        for isWatched in [false, true] {
            let desks = Group<Desk>()
            let view = FluxView(desks, \.store) { $0.count }
            let token = isWatched ? view.subscribe { _ in } : nil
            let gone: [Weak]
            do {
                let desk = Desk(store())
                gone = [Weak(desk), Weak(desk.store), Weak(desk.store.handle)]
                desks.open(1, desk)
            }
            await view.flush()
            #expect(view.state == 1)
            desks.close(1)
            for one in gone { #expect(await one.isGone()) }
            withExtendedLifetime((token, view)) {}
        }
    }

    /// Keeps the number of the last action.
    private struct Mark: FluxState {
        var last = 0
        mutating func handle(action: Number) -> Mark? {
            last = action.number
            return self
        }
    }

    private struct Number: FluxAction { let number: Int }

    @Test(.stress) func `Stress: while members come and go, every value of a view is a cut and none goes back`() async {
        let dispatcher = FluxDispatcher()
        let rooms = Group<FluxStore<Mark>>()
        let view = FluxView(rooms) { Set($0.values.map(\.last)).subtracting([0]).sorted() }
        let torn = Recorder<[Int]>()
        let newest = Locked([0, 0])
        let see: @Sendable (Int, [Int]) -> Void = { reader, numbers in
            guard let number = numbers.last else { return }
            let isBack = newest.withLock { newest in
                defer { newest[reader] = number }
                return number < newest[reader]
            }
            if isBack || numbers.count > 1 { torn.record(numbers) }
        }
        let token = view.subscribe { see(0, $0) }
        await onThreads(3) { thread in
            for round in 0..<2_000 {
                switch thread {
                case 0:
                    rooms.open(round % 20, FluxStore(initialState: Mark(), dispatcher: dispatcher))
                    if round % 3 == 0 { rooms.close((round + 7) % 20) }
                case 1: dispatcher.dispatch(action: Number(number: round + 1))
                default: see(1, view.state)
                }
            }
        }
        dispatcher.dispatch(action: Number(number: 10_000))
        await view.flush()
        #expect(torn.values == [])
        #expect(view.state == [10_000])
        #expect(newest.current[0] == 10_000, "told of the last")
        withExtendedLifetime(token) {}
    }

    @Test(.timeLimit(.minutes(1)))
    func `A view of a group can be read and watched even if each look causes a change without effect`() async {
        let (first, seen) = (store(1), Recorder<[Int: Int]>())
        // Closes a member that does not exist: a change that leaves the members as they are.
        let rooms = Group<FluxStore<Counter>> { $0.dispatch(action: .close(0)) }
        let view = FluxView(rooms) { $0.mapValues(\.count) }
        rooms.open(1, first)
        #expect(view.state == [1: 1])
        let token = view.subscribe { seen.record($0) }
        first.dispatch(action: .add(1))
        #expect(view.state == [1: 2])
        await view.flush()
        #expect(seen.values.last == [1: 2])
        token.unsubscribe()
    }

    @Test(.stress) func `Stress: 10,000 members that are opened and closed leave no memory behind`() async {
        await #expect(processExitsWith: .success) {
            let rooms = Group<FluxStore<Counter>>()
            let view = FluxView(rooms) { $0.count }
            let token = view.subscribe { _ in }
            func openAndClose(_ count: Int) async {
                for key in 0..<count {
                    rooms.open(key, FluxStore(initialState: Counter(), dispatcher: nil))
                }
                await view.flush()
                #expect(view.state == count)
                let last = rooms.state[count - 1].map { Weak($0.handle) }
                for key in 0..<count { rooms.close(key) }
                await view.flush()
                #expect(await last?.isGone() == true)
            }
            await openAndClose(10_000)
            let before = Heap.bytesInUse
            await openAndClose(10_000)
            // The last computation may still be running.
            _ = await becomes { Heap.bytesInUse <= before + 320_000 }
            #expect(Heap.bytesInUse <= before + 320_000)
            withExtendedLifetime(token) {}
        }
    }
}
