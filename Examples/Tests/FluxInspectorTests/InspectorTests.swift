import FluxCore
import FluxDiagnostics
import FluxEffects
import Foundation
import ProgramTesting
import Testing

@testable import FluxInspector

@Suite("FluxInspector", .timeLimit(.minutes(3)))
struct InspectorTests {
    private let inspector = FluxInspector(limit: 10_000)
    private let store = FluxStore(initialState: Shop(), dispatcher: nil)

    @Test("The inspector shows an event, its actions and its end, what each changed, and its origin")
    func facts() async throws {
        inspector.inspect(store, name: "corner shop")
        let creator = FluxActionCreator<OrderConverter>(store: store)
        try await serving(inspector) { [store] served in
            let stream = try await served.stream()
            let stores: [ShownStore] = try await stream.next("stores")
            #expect(stores.map(\.name) == ["corner shop"])
            #expect(stores.map(\.type) == ["Shop"])
            store.dispatch(action: .look)
            let task = creator.fire(Order(item: "milk", count: 2))
            let rows = try await stream.rows { $0.kind == "completed" }
            #expect(rows.map(\.kind) == ["action", "event", "action", "action", "completed"])
            #expect(rows.map(\.number) == [1, 2, 3, 4, 5])
            #expect(rows.map(\.origin) == [nil, task.id, task.id, task.id, task.id])
            #expect(rows.map(\.revision) == [nil, nil, 1, 2, nil])
            #expect(rows.allSatisfy { $0.store == stores[0].id })
            #expect(rows[1].type + rows[1].text == #"Order(item: "milk", count: 2)"#)
            #expect(rows[3].type == "Shop.Action")
            #expect(rows[3].text == #".add("milk", count: 1)"#)
            #expect(rows.map { ($0.nanoseconds ?? 0) > 0 } == [true, false, true, true, false])

            let second: ShownDetail = try await served.json("/inspect/rows/4")
            #expect(second.line.number == 4)
            #expect(second.arguments == "Shop.Action.add(\n  \"milk\",\n  count: 1\n)")
            let difference = try #require(second.difference)
            #expect(difference.contains("-     \"milk\": 1"), "\(difference)")
            #expect(difference.contains("+     \"milk\": 2"), "\(difference)")
            let look: ShownDetail = try await served.json("/inspect/rows/1")
            #expect(!look.hasState && look.difference == nil)
        }
    }

    @Test("The inspector shows a state at any action without touching the store")
    func timeTravel() async throws {
        inspector.inspect(store)
        for count in 1...3 { store.dispatch(action: .add("milk", count: count)) }
        try await serving(inspector) { [store] served in
            try await #expect(served.text("/inspect/rows/1/state").contains("\"milk\": 1"))
            try await #expect(served.text("/inspect/rows/2/state").contains("\"milk\": 3"))
            try await #expect(served.text("/inspect/stores/1").contains("\"milk\": 6"))
            #expect(store.state.items == ["milk": 6])
            #expect(store.revision == 3)
        }
    }

    @Test("The inspector shows a change by a reaction or by another state")
    func otherChanges() async throws {
        struct Delivery: FluxAction { var item: String }
        struct Idle: FluxAction {}
        inspector.inspect(store)
        let reaction = store.handle.route(Delivery.self) { delivery in
            .other(delivery) { shop in
                shop.items[delivery.item, default: 0] += 10
                return true
            }
        }
        let dispatcher = FluxDispatcher()
        dispatcher.attach(store)
        let history = FluxHistory(store, limit: 10)
        // Changes nothing, so it is not reported, and its start time must not be taken for that of another change.
        let nothing = store.handle.route(Idle.self) { .other($0) { _ in false } }
        dispatcher.dispatch(action: Delivery(item: "bread"))
        dispatcher.dispatch(action: Idle())
        history.undo()
        nothing.remove()
        try await serving(inspector) { served in
            let rows = try await served.stream().rows { $0.number == 2 }
            #expect(rows.map(\.kind) == ["reaction", "replaced"])
            #expect(rows[0].type.hasSuffix("Delivery"))
            #expect(rows[1].nanoseconds == nil)
            let undone: ShownDetail = try await served.json("/inspect/rows/2")
            #expect(try #require(undone.difference).contains("-     \"bread\": 10"))
        }
        reaction.remove()
    }

    @Test("The inspector shows a silent change with the next announced one")
    func silence() async throws {
        inspector.inspect(store)
        store.dispatch(action: .whisper("psst"))
        store.dispatch(action: .add("milk", count: 1))
        try await serving(inspector) { served in
            let silent: ShownDetail = try await served.json("/inspect/rows/1")
            #expect(!silent.hasState)
            try await #expect(served.get("/inspect/rows/1/state").status == .notFound)
            let announced: ShownDetail = try await served.json("/inspect/rows/2")
            #expect(try #require(announced.difference).contains("+     [0]: \"psst\""), "\(announced)")
        }
    }

    @Test("The inspector shows an event that fails, and each of its attempts")
    func failure() async throws {
        inspector.inspect(store)
        let creator = FluxActionCreator<OrderConverter>(
            dependency: (), store: store, rules: [.retry(limit: 1, backoff: .none)], onFailure: { _, _ in })
        _ = await creator.fire(Order(item: "eggs", count: 0)).outcome
        try await serving(inspector) { served in
            let rows = try await served.stream().rows { $0.kind == "failed" }
            #expect(rows.map(\.kind) == ["event", "retry", "failed"])
            #expect(rows.last?.error == #"SoldOut(item: "eggs")"#)
            #expect(Set(rows.map(\.origin)).count == 1)
        }
    }

    @Test("The inspector shows the stores of a dispatcher as they come and go, and the events sent there")
    func dispatcher() async throws {
        let dispatcher = FluxDispatcher()
        inspector.inspect(dispatcher, name: "town")
        try await serving(inspector) { served in
            let stream = try await served.stream()
            let none: [ShownStore] = try await stream.next("stores")
            #expect(none.isEmpty)
            var shop: FluxStore<Shop>? = FluxStore(initialState: Shop(), dispatcher: dispatcher)
            let one: [ShownStore] = try await stream.next("stores")
            #expect(one.map(\.name) == ["FluxStore<Shop>"])
            #expect(one.map(\.dispatcher) == ["town"])
            let creator = FluxActionCreator<OrderConverter>(dispatcher: dispatcher)
            creator.fire(Order(item: "milk", count: 1))
            let rows = try await stream.rows { $0.kind == "completed" }
            #expect(rows.map(\.kind) == ["event", "action", "completed"])
            #expect(rows.map(\.dispatcher) == ["town", nil, "town"])
            #expect(rows[1].store == one[0].id)
            let number = rows[1].number
            try await #expect(served.get("/inspect/rows/\(number)").status == .ok)
            shop = nil
            #expect(shop == nil)
            let left: [ShownStore] = try await stream.next("stores")
            #expect(left.isEmpty)
            try await #expect(served.get("/inspect/rows/\(number)").status == .notFound)
            try await #expect(served.get("/inspect/stores/\(one[0].id)").status == .notFound)
        }
    }

    @Test("A store inspected by itself and through its dispatcher is shown once, until both have ended")
    func twice() async throws {
        let dispatcher = FluxDispatcher()
        dispatcher.attach(store)
        let byDispatcher = inspector.inspect(dispatcher)
        let byItself = inspector.inspect(store, name: "corner shop")
        store.dispatch(action: .look)
        try await serving(inspector) { [store] served in
            try await #expect(served.json("/inspect/stores", as: [ShownStore].self).map(\.name) == ["corner shop"])
            try await #expect(served.stream().rows { $0.number == 1 }.count == 1)
            try await #expect(served.get("/inspect/rows/2").status == .notFound)
            dispatcher.detach(store)
            try await #expect(served.json("/inspect/stores", as: [ShownStore].self).count == 1)
            byItself.remove()
            try await #expect(served.json("/inspect/stores", as: [ShownStore].self).isEmpty)
            #expect(store.handle.eventObservers.isEmpty)
            byDispatcher.remove()
            #expect(dispatcher.interceptors.isEmpty)
        }
    }

    // MARK: - Memory and cost

    @Test("The inspector keeps as many rows as its limit, and releases the states of the others")
    func ring() async throws {
        let inspector = FluxInspector(limit: 10)
        let store = FluxStore(initialState: Bag(), dispatcher: nil)
        inspector.inspect(store)
        let tokens = Tokens()
        for _ in 1...25 { store.dispatch(action: .put(tokens.make())) }
        // The tokens of the ten rows, and that of the state before the oldest one.
        #expect(tokens.alive == 11)
        try await serving(inspector) { served in
            try await #expect(served.get("/inspect/rows/15").status == .notFound)
            try await #expect(served.get("/inspect/rows/16").status == .ok)
            try await #expect(served.get("/inspect/rows/25").status == .ok)
            try await #expect(served.get("/inspect/rows/26").status == .notFound)
            let stream = try await served.stream()
            let batch: ShownRows = try await stream.next("rows")
            // A new client has missed nothing.
            #expect(batch.missed == 0)
            #expect(batch.rows.map(\.number) == Array(16...25))
            for _ in 26...40 { store.dispatch(action: .put(Token())) }
            let next: ShownRows = try await served.stream(after: stream.id).next("rows")
            #expect(next.missed == 5)
            #expect(next.rows.map(\.number) == Array(31...40))
        }
    }

    @Test(
        "An inspector leaves nothing with a store once it is released, on or off, or inspects it no more")
    func inspectorLeavesNothing() async throws {
        let dispatcher = FluxDispatcher()
        dispatcher.attach(store)
        for isOn in [true, false] {
            var inspector: FluxInspector? = FluxInspector()
            weak let recorder = inspector?.recorder
            inspector?.inspect(store)
            inspector?.inspect(store, name: "corner shop")
            inspector?.inspect(dispatcher)
            store.dispatch(action: .look)
            inspector?.isEnabled = isOn
            inspector = nil
            #expect(inspector == nil)
            try await eventually("nothing of the inspector is left") { recorder == nil }
        }
        let byItself = inspector.inspect(store, name: "corner shop")
        let byDispatcher = inspector.inspect(dispatcher)
        inspector.isEnabled = false
        inspector.isEnabled = true
        #expect(inspector.recorder.stores.all.values.map(\.name) == ["corner shop"])
        func watches() -> Int? { store.handle.featureIfAny(StoreWatches.self)?.all.withLock { $0.count } }
        #expect(watches() == 1)
        byItself.remove()
        #expect(watches() == 1)
        byDispatcher.remove()
        #expect(watches() == 0)
    }

    @Test("The inspector releases a store, and all it has recorded about it, when the store is released")
    func storeGoes() async throws {
        let tokens = Tokens()
        var store: FluxStore<Bag>? = FluxStore(initialState: Bag(token: tokens.make()), dispatcher: nil)
        weak let handle = store?.handle
        inspector.inspect(try #require(store))
        for _ in 1...5 { store?.dispatch(action: .put(tokens.make())) }
        #expect(tokens.alive == 6)
        store = nil
        try await eventually("nothing of the store is left") { tokens.alive == 0 }
        #expect(handle == nil)
    }

    @Test("The inspector does not retain a store that is released while the inspector is off")
    func storeGoesWhileOff() async throws {
        let tokens = Tokens()
        inspector.isEnabled = false
        var store: FluxStore<Bag>? = FluxStore(initialState: Bag(token: tokens.make()), dispatcher: nil)
        inspector.inspect(try #require(store))
        store = nil
        #expect(store == nil)
        try await eventually("nothing of the store is left") { tokens.alive == 0 }
        inspector.isEnabled = true
    }

    @Test("A store continues by itself when the inspector is released")
    func inspectorGoes() async throws {
        let dispatcher = FluxDispatcher()
        let tokens = Tokens()
        let store = FluxStore(initialState: Bag(token: tokens.make()), dispatcher: dispatcher)
        var inspector: FluxInspector? = FluxInspector(limit: 10)
        inspector?.inspect(dispatcher)
        inspector?.inspect(store)
        for _ in 1...3 { dispatcher.dispatch(action: Bag.Action.put(tokens.make())) }
        inspector = nil
        #expect(inspector == nil)
        #expect(store.handle.eventObservers.isEmpty)
        #expect(dispatcher.interceptors.isEmpty)
        try await eventually("only the state of the store is left") { tokens.alive == 1 }
    }

    @Test("The inspector observes and keeps nothing while it is off, and starts over when it is on again")
    func off() async throws {
        let dispatcher = FluxDispatcher()
        let tokens = Tokens()
        let bag = FluxStore(initialState: Bag(token: tokens.make()), dispatcher: dispatcher)
        inspector.inspect(store)
        inspector.inspect(dispatcher)
        bag.dispatch(action: .put(tokens.make()))
        #expect(!store.handle.eventObservers.isEmpty && !bag.handle.eventObservers.isEmpty)
        #expect(!dispatcher.interceptors.isEmpty)
        inspector.isEnabled = false
        #expect(store.handle.eventObservers.isEmpty && bag.handle.eventObservers.isEmpty)
        #expect(dispatcher.interceptors.isEmpty)
        try await eventually("only the state of the store is left") { tokens.alive == 1 }
        store.dispatch(action: .look)
        inspector.isEnabled = true
        store.dispatch(action: .add("milk", count: 1))
        try await serving(inspector) { served in
            try await #expect(served.json("/inspect/stores", as: [ShownStore].self).count == 2)
            let rows = try await served.stream().rows { $0.kind == "action" }
            #expect(rows.map(\.text) == [#".add("milk", count: 1)"#])
        }
    }

    @Test("The inspector shows hidden values nowhere")
    func hidden() async throws {
        let inspector = FluxInspector(limit: 100) { name, value in name == "password" || name == "secret" }
        inspector.inspect(store)
        store.dispatch(action: .add("secret", count: 4711))
        store.dispatch(action: .add("milk", count: 2))
        store.dispatch(action: .signIn(name: "Ann", password: "hunter2"))
        store.dispatch(action: .add("milk", count: 1))
        try await serving(inspector) { served in
            let rows = try await served.stream().rows { $0.number == 4 }
            #expect(rows[2].text == #".signIn(name: "Ann", password: •••)"#)
            var all = "\(rows)"
            for number in 1...4 {
                all += try await served.text("/inspect/rows/\(number)")
                all += try await served.text("/inspect/rows/\(number)/state")
            }
            all += try await served.text("/inspect/stores/1")
            #expect(!all.contains("hunter2"))
            let detail: ShownDetail = try await served.json("/inspect/rows/3")
            #expect(try #require(detail.difference).contains("+       password: •••"), "\(detail)")
            let state = try await served.text("/inspect/rows/4/state")
            #expect(state.contains("\"secret\": •••") && state.contains("\"milk\": 3"), "\(state)")
            #expect(state.hasPrefix("Shop(\n  items: ["), "\(state)")
            #expect(state.contains("Shop.Customer(\n      name: \"Ann\""), "\(state)")
        }
    }

    /// Has secrets in keys, and objects that refer to each other.
    struct Vault: FluxState {
        struct Key: Hashable { let secret: String }
        final class Node: @unchecked Sendable { var others: [Node] = [] }
        enum Action: FluxAction {
            case enter(Key, by: String)
            case draw(Node)
        }

        var sessions: [Key: String] = [:]
        var byCode: [String: Key] = [:]

        mutating func handle(action: Action) -> Vault? {
            if case .enter(let key, let name) = action { (sessions[key], byCode[name]) = (name, key) }
            return self
        }
    }

    @Test("The inspector hides keys as it hides values, and shows objects in a cycle once")
    func hiddenKeys() async throws {
        let inspector = FluxInspector(limit: 100) { _, value in value is Vault.Key }
        let store = FluxStore(initialState: Vault(), dispatcher: nil)
        inspector.inspect(store)
        store.dispatch(action: .enter(Vault.Key(secret: "hunter2"), by: "Ann"))
        store.dispatch(action: .enter(Vault.Key(secret: "hunter3"), by: "Ben"))
        let nodes = (0..<12).map { _ in Vault.Node() }
        for node in nodes { node.others = nodes }
        store.dispatch(action: .draw(nodes[0]))
        try await serving(inspector) { served in
            let rows = try await served.stream().rows { $0.number == 3 }
            var all = "\(rows)"
            for number in 1...3 {
                all += try await served.text("/inspect/rows/\(number)")
                all += try await served.text("/inspect/rows/\(number)/state")
            }
            #expect(!all.contains("hunter"), "\(all)")
            let detail: ShownDetail = try await served.json("/inspect/rows/2")
            #expect(try #require(detail.difference).contains("+     •••: \"Ben\""), "\(detail)")
            let drawn: ShownDetail = try await served.json("/inspect/rows/3")
            #expect(drawn.arguments.contains("Node(↩︎)"), "\(drawn)")
        }
        for node in nodes { node.others = [] }
    }

    /// Has one object in two places.
    struct Choice: FluxState {
        final class Card: Sendable {
            let title: String
            init(_ title: String) { self.title = title }
        }
        enum Action: FluxAction { case choose(Card) }

        let cards: [Card]
        var chosen: Card?

        mutating func handle(action: Action) -> Choice? {
            if case .choose(let card) = action { chosen = card }
            return self
        }
    }

    @Test("The inspector shows a difference when one object replaces another, even one shown before")
    func sharedObjects() async throws {
        let inspector = FluxInspector(limit: 100) { name, _ in name == "password" }
        let cards = [Choice.Card("one"), Choice.Card("two")]
        let store = FluxStore(initialState: Choice(cards: cards), dispatcher: nil)
        inspector.inspect(store)
        for card in cards { store.dispatch(action: .choose(card)) }
        try await serving(inspector) { served in
            let second: ShownDetail = try await served.json("/inspect/rows/2")
            let lines = try #require(second.difference).split(separator: "\n")
            #expect(lines.contains { $0.hasPrefix("-") && $0.contains("one") }, "\(lines)")
            #expect(lines.contains { $0.hasPrefix("+") && $0.contains("two") }, "\(lines)")
            let first: ShownDetail = try await served.json("/inspect/rows/1")
            let changed = try #require(first.difference).split(separator: "\n").filter { "-+".contains($0.prefix(1)) }
            #expect(changed.allSatisfy { !$0.contains("[0]") }, "\(changed)")
        }
    }

    // MARK: - Large values

    /// Can be as deep and as large as a test needs.
    struct Heap: FluxState {
        indirect enum Chain: Sendable { case end, link(Int, Chain) }
        struct Item: Identifiable { let id: Int; var title = "" }
        enum Action: FluxAction {
            case number(Range<Int>)
            case name(Int, Chain)
            case link(Chain)
            case tell(String)
            case keep([Item])
        }

        var numbers: [Int] = []
        var names: [Int: Int] = [:]
        var chain = Chain.end
        var text = ""
        var items: [Item] = []
        var ticks = 0

        mutating func handle(action: Action) -> Heap? {
            switch action {
            case .number(let numbers): self.numbers = Array(numbers)
            case .name(let count, _): for name in 0..<count { names[name] = ticks }
            case .link(let chain): self.chain = chain
            case .tell(let text): self.text = text
            case .keep(let items): self.items = items
            }
            ticks += 1
            return self
        }
    }

    @Test("The inspector shows a readable part of a value, however deep and large it is")
    func large() async throws {
        let store = FluxStore(initialState: Heap(), dispatcher: nil)
        inspector.inspect(store)
        let chain = (0..<2_000).reduce(Heap.Chain.end) { .link($1, $0) }
        for numbers in [0..<100_000, 100_000..<200_000] { store.dispatch(action: .number(numbers)) }
        store.dispatch(action: .name(100_000, chain))
        store.dispatch(action: .link(chain))
        for word in ["a", "b"] {
            store.dispatch(action: .tell((0..<50_000).map { "\(word)\($0)" }.joined(separator: "\n")))
        }
        store.dispatch(action: .tell(String(repeating: "x", count: 10_000_000)))
        try await serving(inspector) { served in
            let rows = try await served.stream().rows { $0.number == 7 }
            #expect(rows[2].text.hasPrefix(".name(100000, .link(1999, "), "\(rows[2])")
            for number in 1...7 {
                let detail: ShownDetail = try await served.json("/inspect/rows/\(number)")
                let difference = try #require(detail.difference)
                #expect(difference.contains("Too large to compare completely"))
                #expect(difference.contains("+   ticks: \(number)"), "\(difference.suffix(1_000))")
                let state = try await served.text("/inspect/rows/\(number)/state")
                #expect(state.contains("[4]: ") && state.contains("95000 more") && state.contains("ticks: \(number)"))
            }
        }
    }

    @Test("The inspector distinguishes moved from changed values if they have an identity")
    func moved() async throws {
        let store = FluxStore(initialState: Heap(), dispatcher: nil)
        inspector.inspect(store)
        let items = (1...3).map { Heap.Item(id: $0) }
        store.dispatch(action: .keep(items))
        store.dispatch(action: .keep([Heap.Item(id: 0), Heap.Item(id: 1, title: "one")] + items[1...]))
        try await serving(inspector) { served in
            let detail: ShownDetail = try await served.json("/inspect/rows/2")
            let lines = try #require(detail.difference).split(separator: "\n").filter { "-+".contains($0.prefix(1)) }
                .map { $0.filter { $0 != " " } }
            #expect(
                lines == [
                    "+[0]:InspectorTests.Heap.Item(", "+id:0,", #"+title:"""#, "+),", #"-title:"""#, #"+title:"one""#,
                    "-ticks:1", "+ticks:2",
                ], "\(lines)")
        }
    }

    @Test("A rendering that no request waits for any more is skipped")
    func unwanted() async throws {
        let (begun, goOn) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let made = FluxLock(0)
        let rendering = Rendering { name, _ in
            guard name == "chosen" else { return false }
            made.withLock { $0 += 1 }
            begun.signal()
            goOn.wait()
            return false
        }
        let first = Task { try await rendering.state(Choice(cards: [])) }
        await withCheckedContinuation { next in
            DispatchQueue.global().async {
                begun.wait()
                next.resume()
            }
        }
        let others = (1...10).map { _ in Task { try await rendering.state(Choice(cards: [])) } }
        for other in others { other.cancel() }
        goOn.signal()
        #expect(try await first.value.contains("chosen: nil"))
        for other in others { await #expect(throws: CancellationError.self) { try await other.value } }
        #expect(made.withLock { $0 } == 1)
    }

    // MARK: - Readers

    @Test("A reader gets every one of thousands of actions in order, while they are applied")
    func manyActions() async throws {
        inspector.inspect(store)
        try await serving(inspector) { [store] served in
            let stream = try await served.stream()
            // As fast as a busy program: a thousand actions a second.
            let making = Task {
                for _ in 1...30 {
                    for _ in 1...100 { store.dispatch(action: .add("milk", count: 1)) }
                    try await Task.sleep(for: .milliseconds(100))
                }
            }
            let rows = try await stream.rows { $0.number == 3_000 }
            try await making.value
            #expect(rows.map(\.number) == Array(1...3_000))
            #expect(rows.last?.revision == 3_000)
        }
    }

    @Test("A reader resumes after its last row, or from the first one if the program was restarted")
    func resumes() async throws {
        inspector.inspect(store)
        for _ in 1...5 { store.dispatch(action: .look) }
        try await serving(inspector) { [store] served in
            let first = try await served.stream()
            _ = try await first.rows { $0.number == 5 }
            let id = try #require(first.id)
            store.dispatch(action: .look)
            try await #expect(served.stream(after: id).rows { $0.number == 6 }.map(\.number) == [6])
            try await #expect(served.stream(after: "other-3").rows { $0.number == 6 }.map(\.number) == Array(1...6))
        }
    }

    @Test(
        "A request with a body is refused, read or not, and does not prevent the shutdown",
        arguments: ["stream", "stores/1"])
    func body(path: String) async throws {
        inspector.inspect(store)
        let clients = FluxLock<[RawConnection]>([])
        try await serving(inspector) { served in
            for announced in [5, 100_000, 1_000_000] {
                let client = try RawConnection(port: served.port)
                clients.withLock { $0.append(client) }
                client.send("GET /inspect/\(path) HTTP/1.1\r\nHost: localhost\r\nContent-Length: \(announced)\r\n\r\n")
                client.send(String(repeating: "x", count: min(announced, 300_000)))
                let head = try await client.read { $0.contains("\r\n\r\n") }
                #expect(head.hasPrefix("HTTP/1.1 413 "), "\(head)")
            }
            // The body of this request has not arrived when the server ends.
            let silent = try RawConnection(port: served.port)
            clients.withLock { $0.append(silent) }
            silent.send("GET /inspect/\(path) HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n")
        }
        clients.withLock { #expect($0.count == 4) }
    }

    @Test("A client that reads nothing delays no other, and open streams do not prevent the shutdown")
    func deafReader() async throws {
        inspector.inspect(store)
        let text = String(repeating: "x", count: 150)
        // The readers outlive the server: the server is the side that ends.
        let readers = FluxLock<[any Sendable]>([])
        try await serving(inspector) { [store] served in
            let deaf = try RawConnection(port: served.port, hasSmallBuffer: true)
            #expect(deaf.send("GET /inspect/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"))
            let stream = try await served.stream()
            readers.withLock { $0 = [deaf, stream] }
            // More than all buffers on the way hold.
            for _ in 1...10_000 { store.dispatch(action: .whisper(text)) }
            let rows = try await stream.rows { $0.number == 10_000 }
            #expect(rows.last?.number == 10_000)
        }
        readers.withLock { #expect($0.count == 2) }
    }
}
