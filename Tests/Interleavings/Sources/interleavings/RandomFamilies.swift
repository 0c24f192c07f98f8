import Explorer
import Flux

/// Scenarios by chance about families: two tasks use, hold, close and flush stored members of two keys.
///
/// A seed always produces the same scenario; its title says what each task does. The task that ends last shuts the
/// family down.
enum RandomFamilies {
    static let scenarios = (1...8).map { scenario(UInt64($0)) }

    fileprivate enum Step: String, CaseIterable {
        case add, addDurably, addToOther, lease, releaseLeases, dispatch, hold, runFailing, run, close, closeOther,
            flush, look
    }

    /// What the family is like.
    fileprivate struct Kind {
        var (isIdleKept, isLimited, isLog, isLazy) = (false, false, false, false)
        var (isFaulty, isWatched, isShutEarly) = (false, false, false)

        init(_ chance: inout Chance) {
            (isIdleKept, isLimited) = (chance.isOne(in: 2), chance.isOne(in: 3))
            (isLog, isLazy, isFaulty) = (chance.isOne(in: 2), chance.isOne(in: 2), chance.isOne(in: 3))
            (isWatched, isShutEarly) = (chance.isOne(in: 3), chance.isOne(in: 4))
        }

        var title: String {
            [isLog ? "log" : "state", isLazy ? "loads late" : "loads first"].joined(separator: ", ")
                + (isIdleKept ? ", kept when idle" : "") + (isLimited ? ", one at most" : "")
                + (isFaulty ? ", faults" : "") + (isWatched ? ", watched" : "")
                + (isShutEarly ? ", shut down at any time" : "")
        }
    }

    private static func scenario(_ seed: UInt64) -> Scenario {
        // Families that follow each other would otherwise be much alike.
        var chance = Chance(seed &* 62)
        let kind = Kind(&chance)
        let tasks = (0..<2).map { _ in chance.some(2 + chance.number(below: 2)) as [Step] }
        return Scenario("random-families-\(seed)", "[\(kind.title)] \(Random.title(tasks))") { scene in
            let world = World(scene, kind, tasks: tasks)
            for (task, steps) in tasks.enumerated() { scene.task("\(task)") { await world.run(task, steps) } }
            if kind.isWatched { scene.task("follows") { await world.follow() } }
            if kind.isShutEarly { scene.task("shuts down") { await world.shutDown() } }
            scene.finally { world.check() }
            scene.finally { world.clear() }
        }
    }
}

private final class World: @unchecked Sendable {
    typealias Family = FluxFamily<String, FluxStore<Log>>

    let (scene, kind): (Scene, RandomFamilies.Kind)
    let dispatcher = FluxDispatcher()
    let books: [String: Book]
    /// Nil once everything is checked.
    var family: Family?
    var view: FluxView<[String: [Int]]>?
    var token: FluxSubscription?
    /// The entries whose dispatch has returned or whose command has succeeded, and those that a failed command took
    /// back.
    var (acknowledged, takenBack) = ([String: [Int]](), [Int]())
    /// How often the members of a key were created, and how often one could not be closed.
    var (made, kept) = ([String: Int](), [String: Int]())
    /// The keys that were open after each change, if the family is watched.
    var seen: [Set<String>] = [[]]
    /// What a task that follows the changes was told, if the family is watched.
    var followed: [FluxFamilyChange<String>] = []
    var (running, holds, isShut) = (2, 0, false)

    init(_ scene: Scene, _ kind: RandomFamilies.Kind, tasks: [[RandomFamilies.Step]]) {
        (self.scene, self.kind) = (scene, kind)
        holds = tasks.joined().count { $0 == .hold }
        books = Dictionary(uniqueKeysWithValues: ["a", "b"].map { ($0, Book(scene, failures: kind.isFaulty ? 3 : 0)) })
        let family = Family(
            idle: kind.isIdleKept ? .seconds(60) : .zero, limit: kind.isLimited ? 1 : .max, clock: ScenarioClock(),
            onFailure: { [unowned self] key, _ in kept[key, default: 0] += 1 }
        ) { [unowned self] key in try await make(key) }
        self.family = family
        // Creates the number of the last task, which is static, before any run with a preemption.
        FluxActionCreator<Working>(dispatcher: dispatcher).fire([])
        if !kind.isWatched { return }
        view = FluxView(family) { $0.mapValues(\.entries) }
        token = family.subscribe(.every) { [unowned self] in seen.append(Set($0.keys)) }
    }

    private func make(_ key: String) async throws -> FluxStore<Log> {
        let book = books[key]!
        // What is watched may keep a member for a while.
        scene.expect(kind.isWatched || book.find() == nil, "a member of \(key) is created while the last one is there")
        made[key, default: 0] += 1
        let store = try await create(book)
        book.find = { [weak store] in store }
        store.handle.withAccess { $0.observe(book) }
        return store
    }

    private func create(_ book: Book) async throws -> FluxStore<Log> {
        let (page, clock) = (Page(book), ScenarioClock())
        let told: @Sendable (FluxPersistenceFailure) -> Void = { _ in }
        switch (kind.isLog, kind.isLazy) {
        case (false, false):
            return try await FluxStore.restored(
                from: page, initialState: Log(), dispatcher: dispatcher, clock: clock, onFailure: told)
        case (false, true):
            return FluxStore(
                initialState: Log(), dispatcher: dispatcher, persistence: page, clock: clock, onFailure: told)
        case (true, false):
            return try await FluxStore.restored(
                from: PageOfLog(page), initialState: Log(), dispatcher: dispatcher, compactEvery: 2, clock: clock,
                onFailure: told)
        case (true, true):
            return FluxStore(
                initialState: Log(), dispatcher: dispatcher, log: PageOfLog(page), compactEvery: 2, clock: clock,
                onFailure: told)
        }
    }

    func run(_ task: Int, _ steps: [RandomFamilies.Step]) async {
        guard let family else { return }
        var leases: [FluxLease<FluxStore<Log>>] = []
        for (index, step) in steps.enumerated() {
            let number = task * 10 + index + 1
            do { try await take(step, number, family, &leases) } catch { expectAllowed(error) }
        }
        leases = []
        running -= 1
        if running == 0 { await shutDown() }
    }

    private func take(
        _ step: RandomFamilies.Step, _ number: Int, _ family: Family, _ leases: inout [FluxLease<FluxStore<Log>>]
    ) async throws {
        switch step {
        case .add: try await family.with("a") { add(number, "a", $0) }
        case .addDurably: try await family.with("a") { try await addDurably(number, $0) }
        case .addToOther: try await family.with("b") { add(number, "b", $0) }
        case .lease:
            let lease = try await family.lease("a")
            add(number, "a", lease.member)
            leases.append(lease)
        case .releaseLeases: leases = []
        case .dispatch: dispatcher.add(number)
        case .hold: try await family.with("a") { await hold(number, $0) }
        case .runFailing, .run:
            try await family.with("a") { store in
                let isFailing = step == .runFailing
                let outcome = await store.run(Adding(entry: number, isFailing: isFailing, scene: scene)).outcome
                scene.expect(outcome.isCompleted, is: !isFailing, "\(number) has succeeded")
                if isFailing { takenBack.append(number) } else { acknowledged["a", default: []].append(number) }
            }
        case .close, .closeOther:
            // It waits for all leases.
            leases = []
            let key = step == .close ? "a" : "b"
            let before = books[key]!.applied
            try await family.close(key)
            books[key]!.expectSaved(before, "closed")
        case .flush:
            // What a member had before it was open is not flushed.
            let before = acknowledged.mapValues { numbers in numbers.filter { isApplied($0) } }
            if await family.flush(within: .seconds(1)) {
                for (key, numbers) in before { books[key]!.expectSaved(numbers, "flushed") }
            }
        case .look:
            guard let state = view?.state else {
                // Whatever is open was created before.
                return scene.expect(family.keys.allSatisfy { made[$0] != nil }, "open, but never created")
            }
            for (key, entries) in state { scene.expect(Set(entries).count, is: entries.count, "each once in \(key)") }
        }
    }

    private func isApplied(_ number: Int) -> Bool { books.values.contains { $0.applied.contains(number) } }

    private func add(_ number: Int, _ key: String, _ store: FluxStore<Log>) {
        store.add(number)
        acknowledged[key, default: []].append(number)
    }

    private func addDurably(_ number: Int, _ store: FluxStore<Log>) async throws {
        if !kind.isLog { return add(number, "a", store) }
        try await store.dispatch(durably: .add(number))
        acknowledged["a", default: []].append(number)
        books["a"]!.expectSaved([number], "dispatched durably")
    }

    /// Holds back an action, and what comes meanwhile, for a moment.
    private func hold(_ number: Int, _ store: FluxStore<Log>) async {
        // While a state is being loaded, its loader is the one that holds.
        _ = await store.ready
        let held = Noted<[FluxChange<Log>]>([])
        store.handle.withAccess { $0.hold(in: held) }
        add(number, "a", store)
        await yieldTask()
        store.handle.withAccess { $0.applyHeld(held) }
        // Another holder may have it by now.
        scene.expect(holds > 1 || store.entries.contains(number), "\(number) is missing in \(store.entries)")
    }

    func follow() async {
        guard let changes = family?.changes else { return }
        for await change in changes { followed.append(change) }
    }

    private func expectAllowed(_ error: any Error) {
        switch error {
        case is FluxFamilyError: scene.expect(isShut, "\(error), although nobody has shut it down")
        case is Book.Failure: scene.expect(kind.isFaulty, "\(error), although nothing has failed")
        default: scene.expect(false, "\(error)")
        }
    }

    func shutDown() async {
        guard let family else { return }
        isShut = true
        let report = await family.shutdown(within: .seconds(1))
        let keys = report.closed + report.failed.keys + report.late
        scene.expect(Set(keys).count, is: keys.count, "each key once in \(report)")
        scene.expect(report.failed.isEmpty || kind.isFaulty, "\(report)")
        let before = books.mapValues(\.applied)
        for key in report.closed { books[key]!.expectSaved(before[key]!, "closed by a shutdown") }
    }

    func check() {
        scene.expect(family?.keys, is: [], "open")
        for (key, book) in books {
            let saved = book.entries
            let what = "\(key) has \(saved)"
            scene.expect(Set(saved).count == saved.count, "\(what): one of them twice")
            for number in acknowledged[key] ?? [] { scene.expect(saved.contains(number), "\(what): \(number) is lost") }
            for number in takenBack { scene.expect(!saved.contains(number), "\(what): \(number) was taken back") }
            book.expectSaved(book.applied, "at the end")
            // Of two holders, the one that lets go first may have the later actions; a durable dispatch passes both.
            if holds < (kind.isLog ? 1 : 2) {
                for task in 0...1 {
                    let own = saved.filter { $0 / 10 == task }
                    scene.expect(own == own.sorted(), "\(what): not in the order of task \(task)")
                }
            }
            if kind.isWatched {
                let openings = zip(seen, seen.dropFirst()).count { !$0.contains(key) && $1.contains(key) }
                scene.expect(openings, is: (made[key] ?? 0) + (kept[key] ?? 0), "openings of \(key) in \(seen)")
            }
        }
        let changes = zip(seen, seen.dropFirst()).map { one, two in
            scene.expect(one.symmetricDifference(two).count, is: 1, "keys that one change concerns, in \(seen)")
            return two.subtracting(one).first.map { FluxFamilyChange.opened($0) }
                ?? .closed(one.subtracting(two).first ?? "")
        }
        scene.expect(followed, is: Array(changes.suffix(followed.count)), "the changes that were followed")
        scene.expect(seen.last, is: [], "open in the end, as it was seen")
    }

    func clear() { (token, view, family) = (nil, nil, nil) }
}

/// What is stored of a key, and what its members have applied.
private final class Book: FluxStoreObserver, @unchecked Sendable {
    struct Failure: Error {}

    let scene: Scene
    /// How many of the next writes fail, with and without an effect in turn.
    var failures: Int
    /// The number of the member that may write.
    var owner = 0
    var snapshot: FluxSnapshot<Log>?
    var actions: [FluxLogEntry<Log.Action>] = []
    /// The numbers that were applied, without those of commands.
    var applied: [Int] = []
    /// The newest member, if it is still there.
    var find: @Sendable () -> FluxStore<Log>? = { nil }

    init(_ scene: Scene, failures: Int) { (self.scene, self.failures) = (scene, failures) }

    var contents: FluxLogContents<Log> { FluxLogContents(snapshot: snapshot, entries: actions) }

    /// What a member that is created now has.
    var entries: [Int] {
        var state = snapshot?.state ?? Log()
        for entry in actions where entry.number > snapshot?.number ?? 0 { _ = state.handle(action: entry.action) }
        return state.entries
    }

    func applied(_ change: FluxChange<Log>, _ state: Log, revision: UInt64?) -> (any FluxSettling)? {
        if case .action(.add(let number)) = change { applied.append(number) }
        return nil
    }

    func expectSaved(_ numbers: [Int], _ when: String) {
        for number in numbers { scene.expect(entries.contains(number), "\(number) is not saved, \(when): \(entries)") }
    }
}

/// The access of one member to what is stored of its key.
private final class Page: FluxPersistence, @unchecked Sendable {
    let book: Book
    private var number = 0

    init(_ book: Book) { self.book = book }

    func read() async -> FluxLogContents<Log> {
        book.owner += 1
        number = book.owner
        await yieldTask()
        return book.contents
    }

    func write(_ body: (Book) -> Void) async throws {
        await yieldTask()
        book.scene.expect(number == book.owner, "member \(number) writes, although member \(book.owner) has begun")
        let failures = book.failures
        if failures == 0 { return body(book) }
        book.failures -= 1
        if failures.isMultiple(of: 2) { body(book) }
        throw Book.Failure()
    }

    func load() async throws -> Log? { await read().snapshot?.state }

    func save(_ state: Log) async throws {
        try await write { $0.snapshot = FluxSnapshot(state: state, number: 0, revision: 0) }
    }
}

private final class PageOfLog: FluxLog {
    private let page: Page

    init(_ page: Page) { self.page = page }

    func load() async throws -> FluxLogContents<Log> { await page.read() }

    func append(_ entries: [FluxLogEntry<Log.Action>]) async throws {
        try await page.write { book in
            let last = book.actions.last?.number ?? book.snapshot?.number ?? 0
            book.actions += entries.filter { $0.number > last }
        }
    }

    func compact(_ snapshot: FluxSnapshot<Log>) async throws {
        try await page.write { ($0.snapshot, $0.actions) = (snapshot, []) }
    }
}
