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

    @Test func `However a child is removed, its subscription ends; one that only moves keeps it`() throws {
        let token = main.subscribeToAll(log.subscribe)
        try main.attach(child)
        let registration = try main.attach(child, priority: 1)
        #expect(log.open == [main, child] && log.begun == 2)
        registration.remove()
        #expect(log.open == [main])
        try main.attach(child)
        main.removeInterceptors { _ in true }
        #expect(log.open == [main])
        #expect(throws: FluxCycle.self) { try main.attach(main) }
        #expect(log.open == [main] && log.begun == 3)
        withExtendedLifetime(token) {}
    }

    @Test func `A child that is removed during an action is left once the action has passed`() throws {
        let token = main.subscribeToAll(log.subscribe)
        try main.attach(child)
        let duringAction = Locked<Set<FollowLog.Name>>([])
        main.add(
            FluxInterceptor.before { [main, child, log] _ in
                main.detach(child)
                duringAction.withLock { $0 = log.names }
            }, priority: 1)
        main.add(1)
        #expect(duringAction.current == FollowLog.names([main, child]))
        #expect(log.open == [main])
        withExtendedLifetime(token) {}
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

    private let table = Locked((open: Set<Name>(), begun: 0, finished: 0))

    static func names(_ dispatchers: [FluxDispatcher]) -> Set<Name> { Set(dispatchers.map { ObjectIdentifier($0) }) }

    var names: Set<Name> { table.withLock { $0.open } }
    var begun: Int { table.withLock { $0.begun } }
    var finished: Int { table.withLock { $0.finished } }
    /// What is open, to compare with dispatchers.
    var open: Opened { Opened(names: names) }

    func subscribe(_ dispatcher: FluxDispatcher) -> FluxSubscription {
        let name = ObjectIdentifier(dispatcher)
        table.withLock { table in
            table.begun += 1
            if !table.open.insert(name).inserted { Issue.record("subscribed twice at once") }
        }
        return FluxSubscription { [self] in
            _ = table.withLock { $0.open.remove(name) }
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
