import FluxCore
import Testing

@testable import FluxEffects

/// Random rules and random inputs, and what must hold for all of them.
@Suite struct FluxRuleModelTests {
    @Test func `Two thousand random runs keep the promises of the rules`() {
        for seed in 0..<2_000 {
            let run = RandomRun(seed: UInt64(seed))
            run.play(inputs: 60)
            run.drain()
            if let failure = run.failure {
                Issue.record("seed \(seed), rules \(run.names): \(failure)")
                return
            }
        }
    }
}

/// An event with a key for each rule, and a mark for conditions and custom rules.
private struct Marked: FluxEvent {
    let keys: [Int?]
    let mark: Int
}

/// A random number generator that depends only on its seed.
private struct Seeded: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = (state ^ (state >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// Gives each kind of decision, depending on the event's mark.
private struct AnyRuling: FluxRuling {
    func decide(on event: Marked, inFlight: FluxInFlightEvents<Marked>) -> FluxDecision {
        let alike = inFlight.filter { $0.event.mark % 3 == event.mark % 3 }.map(\.id) + [0, .max]
        return switch event.mark % 5 {
        case 0: .wait(alike)
        case 1: .cancel(alike)
        case 2: inFlight.count > 5 ? .drop : .start
        case 3: .wait(inFlight.suffix(1).map(\.id))
        default: .start
        }
    }
}

private final class RandomRun {
    private typealias Machine = FluxRuleMachine

    private struct Event {
        let event: Marked
        var isExecuting = false
        /// Whether it was cancelled while it ran, and has yet to end.
        var isEnding = false
    }

    private var random: Seeded
    private let rules: [FluxRule<Marked>]
    private var machine: Machine
    private var lastID: UInt64 = 0
    private var alive: [UInt64: Event] = [:]
    /// The timers that are running, and their deadlines.
    private var timers: [Machine.Timer: Duration] = [:]
    private var now = Duration.zero
    /// The event of each key that was started last, for rules that must keep the order fired.
    private var lastStarted: [Machine.Timer: UInt64] = [:]
    private(set) var failure: String?
    private(set) var names: [String] = []

    init(seed: UInt64) {
        var random = Seeded(state: seed)
        let rules = (0..<Int.random(in: 0...4, using: &random)).map { Self.rule($0, &random) }
        (self.random, self.rules) = (random, rules)
        machine = Machine(rules: rules.map(\.form))
        names = rules.map { "\($0.form.kind)" }
    }

    private static func rule(_ index: Int, _ random: inout Seeded) -> FluxRule<Marked> {
        let key: FluxRule<Marked>.Key = { $0.keys[index] }
        // Symmetric, so it does not matter which of the two events came first.
        let areThirds: FluxRule<Marked>.Condition = { ($0.mark + $1.mark) % 3 == 0 }
        let condition = Bool.random(using: &random) ? areThirds : nil
        return switch Int.random(in: 0...7, using: &random) {
        case 0: .unique(cancelling: .earlier, for: key, when: condition)
        case 1: .unique(cancelling: .later, for: key, when: condition)
        case 2: .sequence(for: key, when: condition)
        case 3: .debounce(for: key, .seconds(1))
        case 4: .throttle(for: key, .seconds(1), latest: condition == nil)
        case 5:
            .concurrency(
                Int.random(in: 1...3, using: &random),
                waiting: condition == nil ? nil : Int.random(in: 0...2, using: &random))
        case 6: .retry(for: key, limit: 1)
        default: .custom(AnyRuling())
        }
    }

    // MARK: - Inputs

    func play(inputs: Int) {
        for _ in 0..<inputs where failure == nil {
            switch Int.random(in: 0...9, using: &random) {
            case 0...3: fire()
            case 4: now += .milliseconds(Int.random(in: 0...800, using: &random))
            case 5...6: end { $0.isExecuting }
            case 7: end { _ in true }
            default: elapse()
            }
        }
    }

    /// Ends running events and lets timers elapse until nothing changes; nothing may be left.
    func drain() {
        while failure == nil, !timers.isEmpty || alive.values.contains(where: \.isExecuting) {
            elapse()
            end { $0.isExecuting }
        }
        if failure == nil && machine.weight > 0 { failure = "the machine keeps \(machine.weight)" }
    }

    private func fire() {
        let keys = rules.map { _ in Bool.random(using: &random) ? Int.random(in: 0...1, using: &random) : 0 as Int? }
        let isLeftOut = Int.random(in: 0...9, using: &random) == 0
        let event = Marked(keys: isLeftOut ? rules.map { _ in nil } : keys, mark: Int.random(in: 0...9, using: &random))
        lastID += 1
        alive[lastID] = Event(event: event)
        check(machine.fire(lastID, event, keys: rules.map { $0.form.key(event).map { AnyHashable($0) } }, at: now))
    }

    private func end(where isMeant: (Event) -> Bool) {
        guard let id = alive.filter({ isMeant($0.value) }).keys.sorted().randomElement(using: &random) else { return }
        alive[id] = nil
        check(machine.ended(id, at: now))
    }

    private func elapse() {
        let sorted = timers.sorted { "\($0)" < "\($1)" }
        guard let (timer, deadline) = sorted.randomElement(using: &random) else { return }
        timers[timer] = nil
        now = max(now, deadline)
        check(machine.elapsed(timer, at: now))
    }

    // MARK: - What must hold

    private func check(_ effects: [Machine.Effect]) {
        for effect in effects {
            switch effect {
            case .start(let id):
                if alive[id]?.isExecuting != false { fail("\(id) starts twice, or after its end") }
                alive[id]?.isExecuting = true
                for stage in rules.indices { checkOrder(id, stage) }
            case .end(let id, let outcome):
                guard let event = alive[id], !event.isEnding else {
                    fail("\(id) ends twice")
                    continue
                }
                if case .dropped = outcome, event.isExecuting { fail("\(id) is dropped while it runs") }
                if event.isExecuting { alive[id]?.isEnding = true } else { alive[id] = nil }
            case .sleep(let timer, let deadline):
                if deadline != now + .seconds(1) { fail("\(timer) sleeps until \(deadline), and it is \(now)") }
                if timers.updateValue(deadline, forKey: timer) != nil { fail("\(timer) sleeps twice") }
            case .wake(let timer):
                if timers.removeValue(forKey: timer) == nil { fail("\(timer) is woken and does not sleep") }
            }
        }
        for stage in rules.indices { checkPairs(stage) }
        let isWaiting = timers.isEmpty && !alive.isEmpty && !alive.values.contains(where: \.isExecuting)
        if isWaiting { fail("\(alive.keys.sorted()) wait for nothing") }
    }

    private func checkPairs(_ stage: Int) {
        let executing = alive.values.filter(\.isExecuting).map(\.event)
        func checkPairs(_ condition: FluxRuleForm.Condition?) {
            for (index, one) in executing.enumerated() {
                for other in executing[..<index] where one.keys[stage] != nil && one.keys[stage] == other.keys[stage] {
                    if condition?(one, other) ?? true { fail("two at once at rule \(stage)") }
                }
            }
        }
        switch rules[stage].form.kind {
        case .unique(_, let condition): checkPairs(condition)
        case .sequence(let condition): checkPairs(condition)
        case .concurrency(let limit, _):
            let keys = executing.compactMap { rules[stage].form.key($0).map { AnyHashable($0) } }
            let most = Dictionary(grouping: keys) { $0 }.values.map(\.count).max() ?? 0
            if most > limit { fail("\(most) at once at rule \(stage)") }
        default: break
        }
    }

    /// Checks that a sequence, a limit of one, starts events in the order fired, unless an earlier rule changed that.
    private func checkOrder(_ id: UInt64, _ stage: Int) {
        guard case .concurrency(1, nil) = rules[stage].form.kind, let key = alive[id]?.event.keys[stage] else { return }
        let keepsOrder = rules[..<stage].allSatisfy {
            switch $0.form.kind {
            case .unique(cancelsEarlier: false, _), .retry: true
            default: false
            }
        }
        let place = Machine.Timer(rule: stage, key: AnyHashable(key))
        if keepsOrder, let last = lastStarted[place], last > id { fail("\(id) starts after \(last)") }
        lastStarted[place] = id
    }

    private func fail(_ reason: String) {
        if failure == nil { failure = reason }
    }
}
