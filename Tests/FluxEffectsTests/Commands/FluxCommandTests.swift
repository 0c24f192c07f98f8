import FluxCore
import FluxEffects
import Foundation
import TestSupport
import Testing

/// Commands and mutations: operations without a switch.
@Suite struct FluxCommandTests {
    struct Feed: FluxState, Equatable {
        typealias Action = FluxMutation<Feed>
        var items: [Int] = []
        var isLoading = false
        var message: String?
    }

    struct Load: FluxCommand {
        static let rules: [FluxRule<Load>] = [
            .unique(cancelling: .earlier, for: FluxRule.caseName),
            .retry(for: FluxRule.caseName, limit: 1),
        ]
        let page: Int

        func begin(state: inout Feed) { state.isLoading = true }
        func execute(state: Feed, dependency: Server) async throws -> [Int] {
            try await dependency.page(page, state)
        }
        func reduce(state: inout Feed, output: [Int]) {
            state.items += output
            state.isLoading = false
        }
        func reduce(state: inout Feed, error: any Error) {
            state.message = "\(error)"
            state.isLoading = false
        }
    }

    final class Server: Sendable {
        let calls = Recorder<String>()
        let gate = Gate()
        let failures: Locked<Int>

        init(failures: Int = 0) {
            self.failures = Locked(failures)
        }

        func page(_ page: Int, _ state: Feed) async throws -> [Int] {
            calls.record("\(page) \(state.isLoading)")
            if page < 0 { await gate.opened() }
            let fails = failures.withLock { failures in
                failures -= 1
                return failures >= 0
            }
            if fails { throw WorkConverter.Failure(number: page) }
            return [page, page + 1]
        }
    }

    struct CancelAll: FluxCommand {
        func execute(state: Feed, dependency: Void) async throws {}
    }

    struct Hold: FluxCommand {
        let page: Int
        func execute(state: Feed, dependency: Server) async throws -> [Int] { try await dependency.page(page, state) }
        func reduce(state: inout Feed, output: [Int]) { state.items += output }
    }

    @Test func `A command that replaces all others cancels what is in flight, and then nothing dispatches any more`()
        async
    {
        let (store, server) = (FluxStore(initialState: Feed(), dispatcher: nil), Server())
        let rules = FluxRules<any FluxEvent>([.unique(cancelling: .earlier, when: { fired, _ in fired is CancelAll })])
        let tasks = [-1, -2, -3].map { store.run(Hold(page: $0), dependency: server, rules: rules) }
        await server.calls.count(3)
        #expect(await store.run(CancelAll(), rules: rules).outcome.isCompleted)
        server.gate.open()
        for task in tasks { #expect(await task.outcome.isCancelled) }
        #expect(store.state.items.isEmpty)
    }

    @Test func `An observer that keeps the actions of a command does not keep its dependency`() async {
        final class Keeping: FluxStoreObserver {
            let changes = Recorder<FluxChange<Feed>>()
            func applied(_ change: FluxChange<Feed>, _ state: Feed, revision: UInt64?) -> (any FluxSettling)? {
                changes.record(change)
                return nil
            }
        }
        let store = FluxStore(initialState: Feed(), dispatcher: nil)
        let keeping = Keeping()
        store.handle.withAccess { $0.observe(keeping) }
        for failures in [0, 2] {
            var server: Server? = Server(failures: failures)
            let known = Weak(server!)
            if let server { _ = await store.run(Load(page: 1), dependency: server).outcome }
            server = nil
            #expect(await known.isGone())
        }
        #expect(keeping.changes.values.count == 4 && store.state.message != nil)
    }

    @Test func `A command begins, executes with the state it has left, and applies its output`() async {
        let store = FluxStore(initialState: Feed(), dispatcher: nil)
        let seen = Recorder<Feed>()
        let subscription = store.subscribe { seen.record($0) }
        let server = Server()
        #expect(await store.run(Load(page: 1), dependency: server).outcome.name == "completed")
        await store.flush()
        #expect(server.calls.values == ["1 true"])
        #expect(seen.values == [Feed(isLoading: true), Feed(items: [1, 2])])
        #expect(store.revision == 2)
        subscription.unsubscribe()
    }

    struct Journal: FluxState {
        typealias Action = FluxMutation<Journal>
        var begun: [Int: [Int]] = [:]
    }

    /// A command whose type differs for each `Kind`.
    struct Enter<Kind>: FluxCommand {
        let thread: Int
        let number: Int
        func begin(state: inout Journal) { state.begun[thread, default: []].append(number) }
        func execute(state: Journal, dependency: Void) async throws {}
    }

    /// C3: This also holds while the store is loading, when the beginning of each command is held back.
    @Test(arguments: [false, true]) func `Commands that one thread runs begin in that order, whatever their types`(
        isLoading: Bool
    ) async {
        let store = FluxStore(initialState: Journal(), dispatcher: nil)
        let load = isLoading ? HeldBack(store) : nil
        let tasks = Recorder<FluxTask>()
        await onThreads(3) { thread in
            for number in 0..<200 {
                switch number % 4 {
                case 0: tasks.record(store.run(Enter<Int>(thread: thread, number: number)))
                case 1: tasks.record(store.run(Enter<String>(thread: thread, number: number)))
                case 2: tasks.record(store.run(Enter<Bool>(thread: thread, number: number)))
                default: tasks.record(store.run(Enter<Int>(thread: thread, number: number)))
                }
            }
        }
        load?.letGo()
        for task in tasks.values { #expect(await task.outcome.name == "completed") }
        for thread in 0..<3 { #expect(store.state.begun[thread] == Array(0..<200)) }
    }

    /// Shows when its result is being applied, and waits there for its gate.
    struct Deposit: FluxCommand {
        static let rules: [FluxRule<Deposit>] = [.unique(cancelling: .earlier, for: { $0.key })]
        var key: Int?
        var fails = false
        var inside = Gate.open
        var gate = Gate.open

        func execute(state: Counter, dependency: Void) async throws {
            if fails { throw WorkConverter.Failure(number: 1) }
        }
        func reduce(state: inout Counter, output: Void) { state.count += take() }
        func reduce(state: inout Counter, error: any Error) { state.count += take() }
        private func take() -> Int {
            inside.open()
            gate.wait()
            return 1
        }
    }

    @Test(arguments: [false, true]) func `A command cancelled while its result is applied ends with that result`(
        fails: Bool
    ) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let (inside, gate, cancelled) = (Gate(), Gate(), Gate())
        let task = store.run(Deposit(fails: fails, inside: inside, gate: gate))
        await inside.opened()
        Thread {
            task.cancel()
            cancelled.open()
        }.start()
        gate.open()
        #expect(await task.outcome.name == (fails ? "failed" : "completed"))
        await cancelled.opened()
        #expect(store.state.count == 1)
    }

    @Test(.stress, arguments: [false, true])
    func `Stress: the result of a command is applied unless the command was cancelled`(byRule: Bool) async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let ended = Locked(0)
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<4_000 {
                group.addTask {
                    let task = store.run(Deposit(key: byRule ? number % 4 : nil, fails: number % 3 == 0))
                    if !byRule { task.cancel() }
                    let outcome = await task.outcome.name
                    if outcome != "cancelled" { ended.withLock { $0 += 1 } }
                }
            }
        }
        #expect(store.state.count == ended.current)
    }

    @Test func `A failed command is retried without beginning again, and then its result is applied`() async {
        let store = FluxStore(initialState: Feed(), dispatcher: nil)
        #expect(await store.run(Load(page: 1), dependency: Server(failures: 1)).outcome.name == "completed")
        #expect(store.revision == 2, "begin and output")
        #expect(await store.run(Load(page: 2), dependency: Server(failures: 2)).outcome.name == "failed")
        #expect(store.state == Feed(items: [1, 2], message: "Failure(number: 2)"))
    }

    @Test func `Rules apply to the commands of one type on one store`() async {
        let (one, other) = (
            FluxStore(initialState: Feed(), dispatcher: nil), FluxStore(initialState: Feed(), dispatcher: nil)
        )
        let server = Server()
        let first = one.run(Load(page: -1), dependency: server)
        let elsewhere = other.run(Load(page: -5), dependency: server)
        await server.calls.count(2)
        #expect(await one.run(Load(page: 3), dependency: server).outcome.name == "completed")
        #expect(await first.outcome.name == "cancelled")
        server.gate.open()
        #expect(await elsewhere.outcome.name == "completed")
        #expect(one.state.items == [3, 4])
        #expect(other.state.items == [-5, -4])
    }

    @Test func `The default parts of a command announce nothing`() async {
        struct Ping: FluxCommand {
            func execute(state: Feed, dependency: Server) async throws {
                if state.items.isEmpty { throw WorkConverter.Failure(number: 0) }
            }
        }
        let store = FluxStore(initialState: Feed(), dispatcher: nil)
        #expect(await store.run(Ping(), dependency: Server()).outcome.name == "failed")
        store.dispatch(action: .init("fill") { $0.items = [1] })
        #expect(await store.run(Ping(), dependency: Server()).outcome.name == "completed")
        #expect(store.revision == 1)
    }

    @Test func `A command can do without a dependency, for a state that has its own actions`() async {
        struct Add: FluxCommand {
            let amount: Int
            func execute(state: Counter, dependency: Void) async throws -> Int { amount + state.count }
            func reduce(state: inout Counter, output: Int) { state.count = output }
        }
        let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil)
        #expect(await store.run(Add(amount: 4)).outcome.name == "completed")
        #expect(store.state.count == 5)
    }

    @Test func `A released store with a running command is gone after the command has ended`() async {
        let gone = Gate()
        let server = Server()
        do {
            struct Owner: FluxState {
                let canary: Canary
                mutating func handle(action: Counter.Action) -> Owner? { self }
            }
            struct Touch: FluxCommand {
                func execute(state: Owner, dependency: Server) async throws { await dependency.gate.opened() }
            }
            let store = FluxStore(initialState: Owner(canary: Canary(gone)), dispatcher: nil)
            store.run(Touch(), dependency: server)
        }
        server.gate.open()
        await gone.opened()
    }

    @Test func `A mutation is named after the function that creates it`() {
        let store = FluxStore(initialState: Feed(), dispatcher: nil)
        store.dispatch(action: .say("hello"))
        #expect(store.state.message == "hello")
        #expect("\(FluxMutation<Feed>.say("x"))" == "say(_:)")
    }
}

extension FluxMutation<FluxCommandTests.Feed> {
    static func say(_ text: String) -> Self { Self { $0.message = text } }
}
