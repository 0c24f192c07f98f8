import Explorer
import Flux

/// Scenarios by chance: two threads take random steps, and everything that the contract promises for these must hold.
///
/// A seed always produces the same scenario; its title says what each thread does.
enum Random {
    static let scenarios = (1...16).map { scenario(UInt64($0)) }

    fileprivate enum Step: String, CaseIterable {
        case add, addToOther, addSilently, dispatch, dispatchAgain, detach, attach, every, everyFromCurrent, latest
        case latestFromCurrent, unsubscribe, read, watch
    }

    /// Returns what each thread does, for the title of a scenario.
    static func title(_ threads: [[some RawRepresentable<String>]]) -> String {
        threads.map { $0.map(\.rawValue).joined(separator: ", ") }.joined(separator: " | ")
    }

    private static func scenario(_ seed: UInt64) -> Scenario {
        var chance = Chance(seed)
        let threads = (0..<2).map { _ in chance.some(2 + chance.number(below: 2)) as [Step] }
        return Scenario("random-\(seed)", title(threads)) { scene in
            let world = World(scene, isMoving: threads.joined().contains { $0 == .detach || $0 == .attach })
            for (thread, steps) in threads.enumerated() {
                scene.thread("\(thread)") {
                    for (index, step) in steps.enumerated() { world.take(step, thread * 10 + index + 1) }
                }
            }
            scene.finally { world.check() }
            scene.finally { world.subscriptions = [] }
        }
    }
}

/// Random numbers that a seed decides.
struct Chance {
    private var state: UInt64

    init(_ seed: UInt64) { state = seed }

    mutating func number(below limit: Int) -> Int {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return Int(state >> 33) % limit
    }

    mutating func isOne(in limit: Int) -> Bool { number(below: limit) == 0 }

    mutating func some<Case: CaseIterable>(_ count: Int) -> [Case] where Case.AllCases == [Case] {
        (0..<count).map { _ in Case.allCases[number(below: Case.allCases.count)] }
    }
}

/// A subscription, and the states that it has seen.
private final class Watcher: @unchecked Sendable {
    var token: FluxSubscription?
    var (seen, calls, late, isOver) = ([[[Int]]](), 0, 0, false)
    /// The revision of its store when the subscription had begun.
    var since: UInt64 = 0
    let (isEach, fromCurrent): (Bool, Bool)

    init(isEach: Bool, fromCurrent: Bool) { (self.isEach, self.fromCurrent) = (isEach, fromCurrent) }
}

private final class World: @unchecked Sendable {
    let (scene, isMoving): (Scene, Bool)
    let dispatcher = FluxDispatcher()
    let stores: [FluxStore<Log>]
    let view: FluxView<[[Int]]>
    var (reads, subscriptions) = ([[[Int]]](), [Watcher]())

    init(_ scene: Scene, isMoving: Bool) {
        (self.scene, self.isMoving) = (scene, isMoving)
        stores = [makeLog(dispatcher), makeLog(dispatcher)]
        view = FluxView(stores[0], stores[1]) { [$0.entries, $1.entries] }
    }

    /// Entries from 100 to 199 are not announced; those from 200 on come through the dispatcher.
    func take(_ step: Random.Step, _ entry: Int) {
        // The step below reads shared data and decides by it.
        scene.point()
        switch step {
        case .add, .addToOther:
            let store = stores[step == .add ? 0 : 1]
            store.add(entry)
            scene.expect(store.entries.contains(entry), "\(entry) is not there when its dispatch has returned")
        case .addSilently: stores[0].dispatch(action: .addSilently(100 + entry))
        case .dispatch, .dispatchAgain: dispatcher.add(200 + entry)
        case .detach: dispatcher.detach(stores[1])
        case .attach: dispatcher.attach(stores[1], priority: 1)
        case .every, .everyFromCurrent, .latest, .latestFromCurrent:
            let isEach = step == .every || step == .everyFromCurrent
            let watcher = Watcher(isEach: isEach, fromCurrent: step == .everyFromCurrent || step == .latestFromCurrent)
            subscriptions.append(watcher)
            watcher.token = stores[0].subscribe(isEach ? .every : .latest, startingWithCurrent: watcher.fromCurrent) {
                [unowned self] in see(watcher, [$0.entries])
            }
            watcher.since = stores[0].revision
        case .watch:
            let watcher = Watcher(isEach: false, fromCurrent: true)
            subscriptions.append(watcher)
            watcher.token = view.subscribe(startingWithCurrent: true) { [unowned self] in see(watcher, $0) }
        case .unsubscribe:
            guard let watcher = subscriptions.last, let token = watcher.token else { return }
            token.unsubscribe()
            watcher.isOver = true
        case .read: reads.append(view.state)
        }
    }

    private func see(_ watcher: Watcher, _ state: [[Int]]) {
        watcher.calls += 1
        scene.expect(watcher.calls == 1, "two calls at once")
        if watcher.isOver { watcher.late += 1 }
        scene.expect(watcher.late <= 1, "more than the one call that had been decided on came after its end")
        watcher.seen.append(state)
        scene.point()
        watcher.calls -= 1
    }

    func check() {
        let all = stores.map(\.entries)
        for (store, entries) in zip(stores, all) {
            scene.expect(Set(entries).count, is: entries.count, "each once")
            scene.expect(Int(store.revision), is: announced(entries), "the revision")
            for thread in 0...1 {
                let own = entries.map { $0 % 100 }.filter { $0 / 10 == thread }
                scene.expect(own, is: own.sorted(), "in the order of thread \(thread)")
            }
        }
        let both = Set(all[0]).intersection(all[1])
        scene.expect(all[0].filter(both.contains), is: all[1].filter(both.contains), "one order")
        for read in reads { lookAt(read, of: all) }
        for watcher in subscriptions {
            for state in watcher.seen { lookAt(state, of: all) }
            for (one, two) in zip(watcher.seen, watcher.seen.dropFirst()) {
                scene.expect(one != two, "twice \(one)")
                for (one, two) in zip(one, two) {
                    scene.expect(two.starts(with: one), "it went back: \(watcher.seen)")
                    if watcher.isEach { scene.expect(announced(two), is: announced(one) + 1, "the next revision") }
                }
            }
            if watcher.isOver || watcher.seen.isEmpty && !watcher.fromCurrent && stores[0].revision == watcher.since {
                continue
            }
            let newest = watcher.seen.last ?? []
            scene.expect(newest.map(announced), is: all.prefix(max(newest.count, 1)).map(announced), "the newest")
        }
    }

    /// Fails unless the state is the beginning of the final one, and has the same dispatched entries for both stores.
    private func lookAt(_ state: [[Int]], of all: [[Int]]) {
        for (part, whole) in zip(state, all) { scene.expect(whole.starts(with: part), "\(part) of \(whole)") }
        let dispatched = state.map { $0.filter { $0 > 200 } }
        scene.expect(isMoving || dispatched.allSatisfy { $0 == dispatched[0] }, "torn: \(state)")
    }

    private func announced(_ entries: [Int]) -> Int { entries.count { !(100..<200).contains($0) } }
}
