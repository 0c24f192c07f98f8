import Explorer
import Flux

/// Scenarios by chance about events: two threads fire and cancel, under random rules and with middleware.
///
/// A seed always produces the same scenario; its title says which rules there are, and what each thread does.
enum RandomEvents {
    static let scenarios = (1...16).map { scenario(UInt64($0)) }

    fileprivate enum Step: String, CaseIterable {
        case fire, fireAgain, fireFailing, fireTwo, fireOther, cancelOwn, cancelNewest, cancelAll, proceed
    }

    fileprivate enum Rule: String, CaseIterable {
        case latestWins, firstWins, sequence, one, oneWaiting, shared, sharedNoWait, retry, debounce, throttle
        case throttleLatest, customWait, customCancel, customDrop

        func rule(_ limit: FluxLimit) -> FluxRule<Working.Event> {
            switch self {
            case .latestWins: .unique(cancelling: .earlier)
            case .firstWins: .unique(cancelling: .later)
            case .sequence: .sequence()
            case .one: .concurrency(1)
            case .oneWaiting: .concurrency(1, waiting: 1)
            case .shared, .sharedNoWait: .concurrency(limit)
            case .retry: .retry(limit: 1)
            case .debounce: .debounce(.milliseconds(10))
            case .throttle: .throttle(.milliseconds(10), latest: false)
            case .throttleLatest: .throttle(.milliseconds(10), latest: true)
            case .customWait, .customCancel, .customDrop: .custom(self)
            }
        }

        /// Whether the events of the creator run one at a time under it.
        var isOneAtATime: Bool {
            [.latestWins, .firstWins, .sequence, .one, .oneWaiting, .customWait, .customCancel].contains(self)
        }

        /// Whether it leaves events in the order fired.
        var keepsOrder: Bool { [.sequence, .one, .shared, .retry, .customWait].contains(self) }

        var drops: Bool {
            [.firstWins, .oneWaiting, .sharedNoWait, .debounce, .throttle, .throttleLatest, .customDrop].contains(self)
        }

        var cancels: Bool { self == .latestWins || self == .customCancel }
    }

    private static func scenario(_ seed: UInt64) -> Scenario {
        var chance = Chance(seed)
        var rules: [Rule] = []
        for rule in chance.some(chance.number(below: 4)) as [Rule] where !rules.contains(rule) { rules.append(rule) }
        let (isKeeping, isShutDown, isFlushed) = (chance.isOne(in: 3), chance.isOne(in: 5), chance.isOne(in: 3))
        let threads = (0..<2).map { _ in chance.some(2 + chance.number(below: 2)) as [Step] }
        let extras =
            (isKeeping ? ["middleware that keeps"] : []) + (isShutDown ? ["shutdown"] : [])
            + (isFlushed ? ["flush"] : [])
        let title =
            "[\((rules.map(\.rawValue) + extras).joined(separator: ", "))] "
            + Random.title(threads)
        let scheduled = rules
        return Scenario("random-events-\(seed)", title) { scene in
            let world = World(scene, scheduled, isKeeping: isKeeping)
            for (thread, steps) in threads.enumerated() {
                scene.thread("\(thread)") {
                    for (index, step) in steps.enumerated() { world.take(step, thread, thread * 10 + index * 2 + 1) }
                }
            }
            if isShutDown { scene.task("shuts down") { await world.shutDown() } }
            if isFlushed { scene.task("flushes") { await world.flush() } }
            scene.finally { world.proceedWithAll() }
            scene.finally { world.awaitAll() }
            scene.finally { world.check() }
            scene.finally { world.clear() }
        }
    }
}

extension RandomEvents.Rule: FluxRuling {
    func decide(on event: Working.Event, inFlight: FluxInFlightEvents<Working.Event>) -> FluxDecision {
        switch self {
        case .customWait: .wait(inFlight.map(\.id))
        case .customCancel: .cancel(inFlight.map(\.id))
        default: inFlight.count > 1 ? .drop : .start
        }
    }
}

/// An event that was fired, and what may become of it.
private final class Fired: @unchecked Sendable {
    let (number, thread): (Int, Int)
    let (isFailing, isOther): (Bool, Bool)
    let task: FluxTask
    var outcome: FluxTask.Outcome?
    var isToBeCancelled = false
    /// The most actions of it that may be applied at the end; nil for no limit.
    var most: Int?

    init(_ number: Int, _ thread: Int, _ task: FluxTask, isFailing: Bool = false, isOther: Bool = false) {
        (self.number, self.thread, self.task) = (number, thread, task)
        (self.isFailing, self.isOther) = (isFailing, isOther)
    }

    /// The actions that it sends if it is converted so many times.
    func actions(attempts: Int) -> [Int] {
        let first = number * 10
        return isFailing ? Array(repeating: first, count: attempts) + [first + 9] : [first, first + 1]
    }
}

private final class World: @unchecked Sendable {
    let (scene, rules, isKeeping): (Scene, [RandomEvents.Rule], Bool)
    let store: FluxStore<Log>
    /// The one with the rules, and another, which shares only a limit with it.
    var (creator, other): (FluxActionCreator<Working>?, FluxActionCreator<Working>?)
    var (fired, kept) = ([Fired](), [(next: FluxNext, action: any FluxAction)]())
    var (passed, isAllCancelled, isShut) = (0, false, false)
    /// The most actions of the creator that may be applied at the end, once it is shut down.
    var mostAfterShutdown: Int?

    init(_ scene: Scene, _ rules: [RandomEvents.Rule], isKeeping: Bool) {
        (self.scene, self.rules, self.isKeeping) = (scene, rules, isKeeping)
        let (dispatcher, limit) = (FluxDispatcher(), FluxLimit(1, waiting: rules.contains(.sharedNoWait) ? 0 : nil))
        store = makeLog(dispatcher)
        dispatcher.add(
            FluxInterceptor { [unowned self] action, next in
                scene.point()
                passed += 1
                if isKeeping && passed % 2 == 0 { kept.append((next, action)) } else { next(action) }
            })
        func make(_ rules: [FluxRule<Working.Event>]) -> FluxActionCreator<Working> {
            FluxActionCreator(dispatcher: dispatcher, rules: rules, clock: ScenarioClock(), onFailure: { _, _ in })
        }
        (creator, other) = (make(rules.map { $0.rule(limit) }), make([.concurrency(limit)]))
    }

    func take(_ step: RandomEvents.Step, _ thread: Int, _ number: Int) {
        // Most steps read shared data and decide by it.
        scene.point()
        guard let creator, let other else { return }
        switch step {
        case .fire, .fireAgain: fired.append(Fired(number, thread, creator.fire(.work(number))))
        case .fireFailing: fired.append(Fired(number, thread, creator.fire(.fail(number)), isFailing: true))
        case .fireTwo:
            let task = creator.fire([.work(number), .work(number + 1)])
            fired += [Fired(number, thread, task), Fired(number + 1, thread, task)]
        case .fireOther: fired.append(Fired(number, thread, other.fire(.work(number)), isOther: true))
        case .cancelOwn: cancel(fired.last { $0.thread == thread }?.task)
        case .cancelNewest: cancel(fired.last?.task)
        case .cancelAll:
            isAllCancelled = true
            creator.cancelAll()
        case .proceed: proceed()
        }
    }

    private func cancel(_ task: FluxTask?) {
        let parts = fired.filter { $0.task === task }
        for part in parts { part.isToBeCancelled = true }
        task?.cancel()
        // One action had passed, perhaps, and is still on its way.
        if task?.isCancelled == true { for part in parts { part.most = part.most ?? entries(of: part).count + 1 } }
    }

    private func proceed() {
        if kept.isEmpty { return }
        let (next, action) = kept.removeFirst()
        let wasCancelled = next.origin?.isCancelled == true
        let changes = next(action)
        if wasCancelled { scene.expect(changes, is: 0, "changes by an action that was kept, of a cancelled event") }
    }

    func proceedWithAll() { while !kept.isEmpty { proceed() } }

    func shutDown() async {
        guard let creator else { return }
        let before = fired.count { !$0.isOther }
        isShut = true
        let report = await creator.shutdown(within: .seconds(1))
        let sum = report.completed + report.cancelled + report.dropped + report.unfinished + report.failed
        scene.expect(sum >= before, "\(sum) accounted for, of at least \(before)")
        scene.expect(creator.inFlight <= report.unfinished, "some events began after the shutdown")
        mostAfterShutdown = own.count + report.unfinished
    }

    func flush() async {
        let before = fired.filter { !$0.isOther }
        await creator?.flush()
        let counts = before.map { entries(of: $0).count }
        scene.point()
        if isKeeping { return }
        for (one, count) in zip(before, counts) {
            scene.expect(entries(of: one).count, is: count, "actions of \(one.number) when a flush had returned")
        }
    }

    func awaitAll() {
        for one in fired { scene.task("awaits \(one.number)") { one.outcome = await one.task.outcome } }
    }

    private func entries(of one: Fired) -> [Int] { store.entries.filter { $0 / 10 == one.number } }

    /// What the creator with the rules has sent.
    private var own: [Int] {
        store.entries.filter { entry in !fired.contains { $0.isOther && $0.number == entry / 10 } }
    }

    func check() {
        scene.expect(creator?.inFlight, is: 0, "in flight")
        scene.expect(other?.inFlight, is: 0, "in flight at the other")
        for one in fired { check(one) }
        // What was kept goes on later, even after a shutdown, and is applied in the order in which it goes on.
        if isKeeping { return }
        if let mostAfterShutdown {
            scene.expect(own.count <= mostAfterShutdown, "applied after the shutdown: \(own)")
        }
        if rules.contains(where: \.isOneAtATime) { expectOneAtATime(own) }
        if rules.contains(.shared) || rules.contains(.sharedNoWait) { expectOneAtATime(store.entries) }
        for isOther in [false, true] where isOther || rules.allSatisfy(\.keepsOrder) {
            for thread in 0...1 {
                let firsts = fired.filter { $0.thread == thread && $0.isOther == isOther }.map { $0.number * 10 }
                let applied = firsts.compactMap(store.entries.firstIndex)
                scene.expect(applied == applied.sorted(), "fired as \(firsts), applied as \(store.entries)")
            }
        }
    }

    private func check(_ one: Fired) {
        guard let outcome = one.outcome else { return scene.expect(false, "\(one.number) has no outcome") }
        let applied = entries(of: one)
        let all = one.actions(attempts: !one.isOther && rules.contains(.retry) ? 2 : 1)
        let what = "\(one.number), \(outcome)"
        scene.expect(isKeeping || all.starts(with: applied), "\(what): \(applied)")
        for entry in Set(applied) {
            scene.expect(applied.count { $0 == entry } <= all.count { $0 == entry }, "\(what): \(applied)")
        }
        let isShut = isShut && !one.isOther
        switch outcome {
        case .completed, .failed:
            scene.expect(one.isFailing, is: !outcome.isCompleted, "failed: \(one.number)")
            scene.expect(applied.sorted(), is: all, what)
        case .dropped:
            let drops = one.isOther ? rules.contains(.sharedNoWait) : rules.contains(where: \.drops)
            scene.expect(isShut || drops, what)
            if fired.count(where: { $0.task === one.task }) == 1 { scene.expect(applied, is: [], what) }
        case .cancelled:
            let cancels = !one.isOther && (isAllCancelled || rules.contains(where: \.cancels))
            scene.expect(one.isToBeCancelled || isShut || cancels, what)
            // Where middleware keeps actions, one of these may be on its way too.
            if !isKeeping, let most = one.most { scene.expect(applied.count <= most, "\(what): more after its cancel") }
        }
    }

    private func expectOneAtATime(_ entries: [Int]) {
        let numbers = entries.map { $0 / 10 }
        let changes = zip(numbers, numbers.dropFirst()).count { $0 != $1 }
        scene.expect(changes, is: max(Set(numbers).count - 1, 0), "changes from one event to another in \(entries)")
    }

    func clear() { (fired, kept, creator, other) = ([], [], nil, nil) }
}
