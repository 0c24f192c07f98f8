import Dispatch
import FluxCore
import FluxObservation
import FluxRouting
import TestSupport
import Testing

/// Subscriptions to a dispatcher and to all below it, which follow as children come and go.
@Suite struct SubscribeToAllTests {
    let main = FluxDispatcher()
    let child = FluxDispatcher()
    let grandchild = FluxDispatcher()
    let log = FollowLog()

    @Test func `The actions of all stores of all dispatchers below arrive`() async throws {
        try main.attach(child)
        let stores = [main, child, grandchild].map { FluxStore(initialState: Counter(), dispatcher: $0) }
        let amounts = Locked<[Int]>([])
        let queue = DispatchQueue(label: "actions")
        let token = main.subscribeToAll { dispatcher in
            dispatcher.subscribeActions(of: Counter.Action.self, on: queue) { applied in
                if case .add(let amount) = applied.action { amounts.withLock { $0.append(amount) } }
            }
        }
        main.add(1)
        stores[1].dispatch(action: .add(2))
        grandchild.add(3)
        try child.attach(grandchild)
        stores[2].dispatch(action: .add(4))
        child.add(5)
        for store in stores { await store.flush() }
        // Between dispatchers there is no one order.
        #expect(amounts.current.sorted() == [1, 1, 2, 4, 5, 5])
        token.unsubscribe()
        main.add(6)
        for store in stores { await store.flush() }
        #expect(!amounts.current.contains(6))
    }

    @Test func `Each dispatcher is subscribed to once, however many ways lead to it`() throws {
        let other = FluxDispatcher()
        let token = main.subscribeToAll(log.subscribe)
        #expect(log.open == [main])
        try child.attach(grandchild)
        #expect(log.open == [main])
        try main.attach(child)
        #expect(log.open == [main, child, grandchild])
        try other.attach(grandchild)
        try main.attach(other)
        #expect(log.open == [main, child, grandchild, other])
        main.detach(child)
        #expect(log.open == [main, grandchild, other])
        other.detach(grandchild)
        #expect(log.open == [main, other])
        #expect(log.begun == 4)
        withExtendedLifetime(token) {}
    }

    @Test func `However a child is removed, its subscription ends; one that only moves keeps it`() async throws {
        let token = main.subscribeToAll(log.subscribe)
        try main.attach(child)
        let registration = try main.attach(child, priority: 1)
        #expect(log.open == [main, child] && log.begun == 2)
        registration.remove()
        await log.reaches([main])
        try main.attach(child)
        main.removeInterceptors { _ in true }
        await log.reaches([main])
        try main.attach(child)
        #expect(log.open == [main, child])
        main.detach(child)
        #expect(log.open == [main])
        #expect(throws: FluxCycle.self) { try main.attach(main) }
        #expect(log.open == [main] && log.begun == 4)
        withExtendedLifetime(token) {}
    }

    @Test func `A child that is released with its parent is left`() async throws {
        var middle: FluxDispatcher? = FluxDispatcher()
        try middle!.attach(child)
        let token = main.subscribeToAll(log.subscribe)
        let registration = try main.attach(middle!)
        #expect(log.begun == 3)
        registration.remove()
        middle = nil
        await log.reaches([main])
        withExtendedLifetime(token) {}
    }

    @Test func `After unsubscribe() the closure is released, though the token is kept`() async {
        func begin() -> (FluxSubscription, Weak) {
            let kept = FollowLog()
            let token = main.subscribeToAll { [log] dispatcher in
                withExtendedLifetime(kept) { log.subscribe(dispatcher) }
            }
            return (token, Weak(kept))
        }
        let (token, kept) = begin()
        #expect(kept.object != nil)
        token.unsubscribe()
        await token.finish()
        #expect(kept.object == nil)
    }

    @Test func `After the end nothing is followed, and finish waits for all`() async throws {
        let token = main.subscribeToAll(log.subscribe)
        try main.attach(child)
        await token.finish()
        #expect(log.open == [])
        #expect(log.finished == 2)
        #expect(token.dropped == 14)
        child.removeInterceptors { _ in true }
        try main.attach(grandchild)
        #expect(log.begun == 2)
        main.detach(child)
        #expect(log.open == [])
    }

    @Test func `The token keeps the dispatcher, but no child that is left, and nothing once it ends`() async throws {
        var outer: FluxDispatcher? = FluxDispatcher()
        var inner: FluxDispatcher? = FluxDispatcher()
        let (outerGone, innerGone) = (Weak(outer!), Weak(inner!))
        let token = outer!.subscribeToAll(log.subscribe)
        try outer!.attach(inner!)
        outer!.detach(inner!)
        inner = nil
        #expect(await innerGone.isGone())
        outer = nil
        #expect(outerGone.object != nil)
        token.unsubscribe()
        #expect(await outerGone.isGone())
    }

    @Test func `The subscription to a child that is left ends, though its token is kept`() throws {
        let kept = Locked<[FluxSubscription]>([])
        let token = main.subscribeToAll { [log] dispatcher in
            let token = log.subscribe(dispatcher)
            kept.withLock { $0.append(token) }
            return token
        }
        try main.attach(child)
        main.detach(child)
        #expect(log.open == [main] && kept.current.count == 2)
        withExtendedLifetime(token) {}
    }

    @Test(arguments: [false, true])
    func `Neither the dispatcher nor a child, left or not, keeps anything of what has ended`(isLeft: Bool) throws {
        func begin() throws -> [Weak] {
            let tokens = Locked<[Weak]>([])
            let token = main.subscribeToAll { [log] dispatcher in
                let token = log.subscribe(dispatcher)
                tokens.withLock { $0.append(Weak(token)) }
                return token
            }
            try main.attach(child)
            if isLeft { main.detach(child) }
            token.unsubscribe()
            return tokens.current
        }
        let tokens = try begin()
        #expect(tokens.count == 2 && tokens.allSatisfy { $0.object == nil })
    }

    @Test(.stress) func `A child is followed when its attaching returns, whatever other threads attach`() async {
        let children = (0..<4).map { _ in FluxDispatcher() }
        let token = main.subscribeToAll(log.subscribe)
        let missed = Locked(0)
        await onThreads(4) { [main, log] index in
            for round in 0..<500 {
                let parent = round % 2 == 0 ? main : children[(index + 1) % 4]
                // Refused if it would lead back.
                guard (try? parent.attach(children[index])) != nil else { continue }
                let isFollowed = log.names.contains(ObjectIdentifier(children[index]))
                if parent === main && !isFollowed { missed.withLock { $0 += 1 } }
                parent.detach(children[index])
            }
        }
        #expect(missed.current == 0)
        #expect(log.open == [main])
        withExtendedLifetime(token) {}
    }
}

/// Subscribes to nothing, and notes the dispatchers for which it does.
final class FollowLog: Sendable {
    typealias Name = ObjectIdentifier

    private struct Table {
        /// The subscriptions, two to one dispatcher at most while other threads attach and detach.
        var all: [Int: Name] = [:]
        var open: Set<Name> { Set(all.values) }
        var (begun, finished) = (0, 0)
        var waiting: [(names: Set<Name>, latch: FluxLatch)] = []
    }

    private let table = Locked(Table())

    static func names(_ dispatchers: [FluxDispatcher]) -> Set<Name> { Set(dispatchers.map { ObjectIdentifier($0) }) }

    var names: Set<Name> { table.withLock { $0.open } }
    var begun: Int { table.withLock { $0.begun } }
    var finished: Int { table.withLock { $0.finished } }
    /// What is open, to compare with dispatchers.
    var open: Opened { Opened(names: names) }

    /// Waits until exactly these are open.
    func reaches(_ opened: Opened) async {
        let latch = FluxLatch()
        table.withLock { $0.waiting.append((opened.names, latch)) }
        change { _ in }
        await latch.wait()
    }

    private func change(_ body: (inout Table) -> Void) {
        let due = table.withLock { table in
            body(&table)
            return table.waiting.filter { [open = table.open] in $0.names == open }.map(\.latch)
        }
        for latch in due { latch.open() }
    }

    func subscribe(_ dispatcher: FluxDispatcher) -> FluxSubscription {
        let name = ObjectIdentifier(dispatcher)
        let number = table.withLock { table in
            table.begun += 1
            return table.begun
        }
        change { $0.all[number] = name }
        return FluxSubscription { [self] in
            change { $0.all[number] = nil }
        } finish: { [self] in
            table.withLock { $0.finished += 1 }
        } dropped: {
            7
        }
    }

    struct Opened: Equatable, ExpressibleByArrayLiteral {
        let names: Set<Name>

        init(names: Set<Name>) { self.names = names }

        init(arrayLiteral dispatchers: FluxDispatcher...) { names = FollowLog.names(dispatchers) }
    }
}
