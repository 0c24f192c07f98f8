import FluxCore
import TestSupport
import Testing

@testable import FluxEffects

/// Each rule as a table of inputs and their effects.
@Suite struct FluxRuleMachineTests {
    // MARK: - Groups

    @Test func `A group finds the last before a place, whoever has left in whatever order`() {
        var random = SystemRandomNumberGenerator()
        for _ in 0..<200 {
            var (group, known) = (FluxRuleGroup(), [UInt64: UInt64]())
            for id in 1...UInt64.random(in: 1...40, using: &random) {
                if Bool.random(using: &random) { known[group.add(id)] = id } else { _ = group.hold(id) }
            }
            while let leaving = known.keys.randomElement(using: &random) {
                group.leave(leaving)
                known[leaving] = nil
                for place in 0...42 as ClosedRange<UInt64> {
                    let last = known.keys.filter { $0 < place && known[$0]! % 3 != 0 }.max()
                    #expect(group.last(before: place) { $0 % 3 != 0 }?.place == last)
                }
                #expect(group.ids == known.sorted { $0.key < $1.key }.map(\.value))
            }
        }
    }

    @Test(.stress) func `What the end of one costs does not grow with how many wait by a condition`() async {
        await #expect(processExitsWith: .success) {
            func cost(of count: UInt64) -> Int {
                let rig = RuleRig([.sequence(for: Named.letter, when: { _, _ in true })])
                for _ in 0..<count { _ = rig.fire("a") }
                return processorTime { for id in 1...count { _ = rig.ended(id) } }
            }
            _ = cost(of: 1_000)
            let (few, many) = (cost(of: 2_000), cost(of: 32_000))
            guard many < 64 * few else { fatalError("\(few) for 2,000, \(many) for 32,000") }
        }
    }

    @Test func `A group that always has one keeps nothing of those that have left`() async {
        await #expect(processExitsWith: .success) {
            let group = Box(FluxRuleGroup())
            _ = group.it.add(0)
            for id in 1...100 as ClosedRange<UInt64> { group.it.leave(group.it.add(id)) }
            let before = Heap.bytesInUse
            for id in 1...100_000 as ClosedRange<UInt64> { group.it.leave(group.it.add(id)) }
            let kept = Heap.bytesInUse - before
            guard kept < 100_000, group.it.ids == [0] else { fatalError("\(kept) bytes of 100,000") }
        }
    }

    @Test func `Zero may be given as a duration and as a limit`() {
        let rig = RuleRig([.debounce(.zero), .throttle(.zero, latest: true), .retry(limit: 0)])
        #expect(rig.fire("a").count == 1)
    }

    // MARK: - Unique

    @Test func `Without rules every event starts at once and leaves nothing behind`() {
        let rig = RuleRig([])
        rig.expect([("a", "start 1"), ("a", "start 2"), ("end 1", ""), ("end 2", ""), ("end 2", ""), ("end 9", "")])
        #expect(rig.weight == 0)
    }

    @Test func `The latest wins`() {
        let rig = RuleRig([.unique(cancelling: .earlier, for: Named.letter)])
        rig.expect([
            ("a", "start 1"),
            ("b", "start 2"),
            ("a", "cancelled 1"),
            ("end 1", "start 3"),
            ("a", "cancelled 3"),
            ("a", "cancelled 4"),
            ("end 3", "start 5"),
            ("end 5", ""),
            ("a", "start 6"),
            ("end 2", ""),
            ("end 6", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `The first wins`() {
        let rig = RuleRig([.unique(cancelling: .later, for: Named.letter)])
        rig.expect([
            ("a", "start 1"),
            ("a", "dropped 2"),
            ("b", "start 3"),
            ("end 2", ""),
            ("a", "dropped 4"),
            ("end 1", ""),
            ("a", "start 5"),
            ("end 3", ""),
            ("end 5", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A condition spares those it is false for`() {
        let earlier = RuleRig([.unique(cancelling: .earlier, for: Named.letter, when: Named.areLoud)])
        earlier.expect([
            ("a!", "start 1"), ("a", "start 2"), ("a", "start 3"), ("b!", "start 4"), ("a!", "cancelled 1"),
            ("end 1", "start 5"),
        ])
        let later = RuleRig([.unique(cancelling: .later, for: Named.letter, when: Named.areLoud)])
        later.expect([
            ("a!", "start 1"), ("a", "start 2"), ("b!", "start 3"), ("a!", "dropped 4"), ("end 1", ""),
            ("a!", "start 5"),
        ])
    }

    @Test func `Of a pair a condition gets the one that was fired first`() {
        let condition: FluxRule<Named>.Condition = { dispatching, executing in
            dispatching.name == "a2" && executing.name == "a1"
        }
        let rig = RuleRig([.unique(cancelling: .earlier, for: Named.letter, when: condition)])
        rig.expect([("a2", "start 1"), ("a1", "start 2"), ("a2", "cancelled 2"), ("end 2", "start 3")])
    }

    @Test(
        arguments: [
            FluxRule.unique(cancelling: .earlier, for: Named.letter), .unique(cancelling: .later, for: Named.letter),
            .sequence(for: Named.letter), .debounce(for: Named.letter, .seconds(1)),
            .throttle(for: Named.letter, .seconds(1), latest: true), .retry(for: Named.letter, limit: 1),
        ])
    func `An event without a key is not covered`(rule: FluxRule<Named>) {
        let rig = RuleRig([rule])
        rig.expect([("-", "start 1"), ("-", "start 2"), ("end 1", ""), ("end 2", "")])
        #expect(rig.weight == 0)
    }

    @Test func `Equal numbers of different types are one kind`() {
        let rig = RuleRig([.unique(cancelling: .later, for: { if $0.name == "a" { Int8(1) } else { UInt64(1) } })])
        rig.expect([("a", "start 1"), ("b", "dropped 2")])
    }

    @Test func `A retry holds nobody back`() {
        let rig = RuleRig([.retry(for: Named.letter, limit: 3)])
        rig.expect([("a", "start 1"), ("a", "start 2"), ("end 1", ""), ("end 2", "")])
        #expect(rig.weight == 0)
    }

    // MARK: - Sequence

    @Test func `One after the other, each key by itself`() {
        let rig = RuleRig([.sequence(for: Named.letter)])
        rig.expect([
            ("a", "start 1"), ("a", ""), ("b", "start 3"), ("a", ""), ("b", ""),
            ("end 1", "start 2"), ("end 3", "start 5"), ("end 2", "start 4"), ("end 4", ""), ("a", "start 6"),
            ("end 5", ""), ("end 6", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A sequence across several kinds of event`() {
        let rig = RuleRig([.sequence { "ab".contains($0.name) ? "both" : nil }])
        rig.expect([
            ("a", "start 1"), ("b", ""), ("c", "start 3"), ("a", ""), ("end 1", "start 2"), ("end 2", "start 4"),
        ])
    }

    @Test func `One taken out of a sequence hands on what it waited for`() {
        let rig = RuleRig([.sequence(for: Named.letter)])
        rig.expect([
            ("a", "start 1"), ("a", ""), ("a", ""), ("a", ""), ("end 2", ""), ("end 3", ""), ("end 1", "start 4"),
            ("end 4", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `The last of a sequence is taken out, and another comes`() {
        let rig = RuleRig([.sequence(for: Named.letter)])
        rig.expect([
            ("a", "start 1"), ("a", ""), ("a", ""), ("end 3", ""), ("a", ""), ("end 1", "start 2"),
            ("end 2", "start 4"),
        ])
    }

    @Test func `With a condition it waits for those it is true for, and no others`() {
        let rig = RuleRig([.sequence(for: Named.letter, when: Named.areLoud)])
        rig.expect([
            ("a!", "start 1"), ("a", "start 2"), ("a!", ""), ("a!", ""), ("end 2", ""), ("end 1", "start 3"),
            ("end 3", "start 4"), ("end 4", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `With a condition it does not inherit what another waited for`() {
        let share: FluxRule<Named>.Condition = { !Set($0.name.dropFirst()).isDisjoint(with: $1.name.dropFirst()) }
        let rig = RuleRig([.sequence(for: Named.letter, when: share)])
        rig.expect([("ax", "start 1"), ("axy", ""), ("ay", ""), ("end 2", "start 3"), ("end 1", ""), ("end 3", "")])
        #expect(rig.weight == 0)
    }

    @Test func `With a condition each keeps one other, however many there are that it waits for`() {
        let rig = RuleRig([.sequence(for: Named.letter, when: Named.areLoud)])
        var weights = [0]
        for _ in 1...3 {
            for _ in 1...10 { _ = rig.input("a!") }
            weights.append(rig.weight)
        }
        #expect(weights[3] - weights[2] == weights[2] - weights[1])
        // Events that end before their turn leave the others in order.
        for id in [29, 3, 2] { #expect(rig.input("end \(id)") == "") }
        #expect(rig.input("end 1") == "start 4")
        for id in 4...27 { #expect(rig.input("end \(id)") == "start \(id + 1)") }
        #expect(rig.input("end 28") == "start 30")
        #expect(rig.input("end 30") == "" && rig.weight == 0)
    }

    // MARK: - Debounce and throttle

    @Test func `A debounce lets the last go on once it is quiet`() {
        let rig = RuleRig([.debounce(for: Named.letter, .seconds(3))])
        rig.expect([
            ("a", "sleep 0a 3"),
            ("a", "dropped 1, wake 0a, sleep 0a 3"),
            ("b", "sleep 0b 3"),
            ("a", "dropped 2, wake 0a, sleep 0a 3"),
            ("time 0a", "start 4"),
            ("time 0a", ""),
            ("a", "sleep 0a 3"),
            ("end 4", ""),
            ("time 0a", "start 5"),
            ("time 0b", "start 3"),
            ("end 5", ""),
            ("end 3", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `One that ends while a debounce holds it takes its timer along`() {
        let rig = RuleRig([.debounce(for: Named.letter, .seconds(3))])
        rig.expect([("a", "sleep 0a 3"), ("end 1", "wake 0a"), ("time 0a", "")])
        #expect(rig.weight == 0)
        rig.expect([("a", "sleep 0a 3"), ("time 0a", "start 2"), ("end 2", "")])
        #expect(rig.weight == 0)
    }

    @Test func `A throttle drops what follows too soon`() {
        let rig = RuleRig([.throttle(for: Named.letter, .seconds(2), latest: false)])
        rig.expect([
            ("a", "sleep 0a 2, start 1"), ("a", "dropped 2"), ("b", "sleep 0b 2, start 3"), ("end 1", ""),
            ("a", "dropped 4"), ("time 0a", ""), ("a", "sleep 0a 2, start 5"), ("end 5", ""), ("time 0a", ""),
            ("end 3", ""), ("time 0b", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A throttle keeps the latest for the end of the interval, and then begins another`() {
        let rig = RuleRig([.throttle(for: Named.letter, .seconds(2), latest: true)])
        rig.expect([
            ("a", "sleep 0a 2, start 1"), ("a", ""), ("a", "dropped 2"), ("time 0a", "sleep 0a 2, start 3"), ("a", ""),
            ("end 4", ""), ("time 0a", ""), ("time 0a", ""), ("a", "sleep 0a 2, start 5"), ("time 0a", ""),
            ("end 1", ""), ("end 3", ""), ("end 5", ""),
        ])
        #expect(rig.weight == 0)
    }

    // MARK: - Deadlines that have passed without a wake-up

    @Test func `A debounce lets go on what had its quiet, before the next comes`() {
        let rig = RuleRig([.debounce(for: Named.letter, .seconds(3))])
        rig.expect([
            ("a", "sleep 0a 3"), ("b", "sleep 0b 3"), ("at 2", ""), ("a", "dropped 1, wake 0a, sleep 0a 5"),
            ("at 4", ""), ("a", "dropped 3, wake 0a, sleep 0a 7"),
            ("at 7", ""), ("a", "wake 0a, start 4, sleep 0a 10"), ("time 0b", "start 2"),
            ("at 20", ""), ("end 5", "wake 0a"), ("a", "sleep 0a 23"), ("end 4", ""), ("end 2", ""),
            ("time 0a", "start 6"), ("end 6", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A throttle lets the next go on once its interval is over`() {
        let rig = RuleRig([.throttle(for: Named.letter, .seconds(2), latest: false)])
        rig.expect([
            ("a", "sleep 0a 2, start 1"), ("at 1", ""), ("a", "dropped 2"), ("b", "sleep 0b 3, start 3"),
            ("at 2", ""), ("a", "wake 0a, sleep 0a 4, start 4"), ("b", "dropped 5"), ("a", "dropped 6"),
            ("at 9", ""), ("a", "wake 0a, sleep 0a 11, start 7"), ("end 1", ""), ("end 3", ""), ("end 4", ""),
            ("end 7", ""), ("time 0a", ""), ("time 0b", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A throttle lets go on what it kept, and the next waits an interval for it`() {
        let rig = RuleRig([.throttle(for: Named.letter, .seconds(2), latest: true)])
        rig.expect([
            ("a", "sleep 0a 2, start 1"), ("a", ""), ("at 3", ""), ("a", "wake 0a, sleep 0a 5, start 2"),
            ("at 4", ""), ("a", "dropped 3"), ("at 5", ""), ("time 0a", "sleep 0a 7, start 4"),
            ("at 9", ""), ("a", "wake 0a, sleep 0a 11, start 5"), ("time 0a", ""), ("end 1", ""), ("end 2", ""),
            ("end 4", ""), ("end 5", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `What goes on so finds the moments of the rules behind it`() {
        let rig = RuleRig([
            .debounce(for: Named.letter, .seconds(1)), .throttle(for: { _ in "x" }, .seconds(5), latest: false),
        ])
        rig.expect([
            ("a", "sleep 0a 1"), ("at 1", ""), ("a", "wake 0a, sleep 1x 6, start 1, sleep 0a 2"),
            ("at 2", ""), ("a", "wake 0a, dropped 2, sleep 0a 3"),
            ("at 8", ""), ("a", "wake 0a, wake 1x, sleep 1x 13, start 3, sleep 0a 9"), ("time 0a", "dropped 4"),
            ("end 1", ""), ("end 3", ""), ("time 1x", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `One that comes to its rule by the end of another counts from that moment`() {
        let rig = RuleRig([.sequence(for: { _ in "s" }), .throttle(for: Named.letter, .seconds(2), latest: false)])
        rig.expect([
            ("a", "sleep 1a 2, start 1"), ("a", ""), ("a", ""), ("at 3", ""),
            ("end 1", "wake 1a, sleep 1a 5, start 2"), ("end 2", "dropped 3"), ("time 1a", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `Durations beyond all counting are a century`() {
        let rig = RuleRig([.debounce(for: Named.letter, Duration(secondsComponent: .max, attosecondsComponent: 0) * 10)]
        )
        rig.expect([("at 1", ""), ("a", "sleep 0a 3000000001")])
    }

    // MARK: - Concurrency

    @Test func `Over the limit events wait in order`() {
        let rig = RuleRig([.concurrency(2)])
        rig.expect([
            ("a", "start 1"), ("b", "start 2"), ("c", ""), ("-", ""), ("end 2", "start 3"), ("e", ""),
            ("end 1", "start 4"), ("end 4", "start 5"), ("end 3", ""), ("f", "start 6"), ("end 5", ""), ("end 6", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `So many of each key go on at once, and wait`() {
        let rig = RuleRig([.concurrency(for: Named.letter, 2, waiting: 1)])
        rig.expect([
            ("a", "start 1"), ("a", "start 2"), ("a", ""), ("a", "dropped 4"), ("b", "start 5"), ("-", "start 6"),
            ("b", "start 7"), ("end 5", ""), ("end 2", "start 3"), ("a", ""), ("end 1", "start 8"), ("end 3", ""),
            ("end 8", ""), ("end 6", ""), ("end 7", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `One that ends in a queue is passed over`() {
        let rig = RuleRig([.concurrency(1)])
        rig.expect([
            ("a", "start 1"), ("a", ""), ("a", ""), ("a", ""), ("end 2", ""), ("end 3", ""), ("end 1", "start 4"),
            ("end 4", ""), ("a", "start 5"), ("a", ""), ("end 6", ""), ("end 5", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `One that another rule refuses gives its place to the next`() {
        let rig = RuleRig([.concurrency(2), .unique(cancelling: .later, for: Named.letter)])
        rig.expect([
            ("a", "start 1"), ("b", "start 2"), ("a", ""), ("a", ""), ("c", ""),
            ("end 2", "dropped 3, dropped 4, start 5"),
        ])
    }

    @Test func `Of those over the limit only so many wait`() {
        let rig = RuleRig([.concurrency(2, waiting: 1)])
        rig.expect([
            ("a", "start 1"), ("b", "start 2"), ("c", ""), ("d", "dropped 4"), ("end 3", ""), ("e", ""),
            ("f", "dropped 6"), ("end 1", "start 5"), ("g", ""), ("end 2", "start 7"), ("end 5", ""), ("end 7", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `Where none may wait, one more is dropped, and not who comes as another ends`() {
        let rig = RuleRig([.sequence(for: Named.letter), .concurrency(1, waiting: 0)])
        rig.expect([
            ("a", "start 1"), ("a", ""), ("b", "dropped 3"), ("end 1", "start 2"), ("end 2", ""), ("b", "start 4"),
            ("end 4", ""),
        ])
        #expect(rig.weight == 0)
    }

    // MARK: - Several rules

    @Test func `What has ended is seen by no rule`() {
        let dropping = RuleRig([.concurrency(1), .unique(cancelling: .later, for: Named.letter)])
        dropping.expect([("a", "start 1"), ("a", ""), ("end 1", "start 2"), ("end 2", "")])
        #expect(dropping.weight == 0)
        let sequence = RuleRig([.concurrency(2), .sequence(for: Named.letter)])
        sequence.expect([("a", "start 1"), ("a", ""), ("a", ""), ("end 2", ""), ("end 1", "start 3"), ("end 3", "")])
        #expect(sequence.weight == 0)
    }

    @Test func `Behind two limits nobody overtakes, and neither is exceeded`() {
        let rig = RuleRig([.concurrency(2), .concurrency(1)])
        rig.expect([
            ("a", "start 1"), ("b", ""), ("c", ""), ("d", ""), ("end 1", "start 2"), ("end 2", "start 3"),
            ("end 3", "start 4"), ("end 4", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `One that takes the place of another that waits does not overtake either, nor is it one too many`() {
        let isNoW: FluxRule<Named>.Key = { $0.name.first == "w" ? nil : true }
        let rig = RuleRig([
            .unique(cancelling: .earlier, for: Named.letter), .concurrency(for: isNoW, 1, waiting: 1), .sequence(),
        ])
        rig.expect([
            ("w", "start 1"), ("x", ""), ("y", ""), ("x", "cancelled 2"), ("end 1", "start 3"), ("end 3", "start 4"),
            ("end 4", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `Of those that one end lets go on the first comes first, and those of a later rule before all`() {
        let rig = RuleRig([.concurrency(2), .concurrency(for: Named.letter, 1)])
        rig.expect([("a", "start 1"), ("a", ""), ("-", ""), ("end 1", "start 2, start 3")])
        let own = Own { event, _ in .wait([1]) }
        let waiting = RuleRig([.custom(own)])
        waiting.expect([("a", "start 1")] + (2...9).map { _ in ("a", "") })
        #expect(waiting.input("end 1") == (2...9).map { "start \($0)" }.joined(separator: ", "))
    }

    @Test func `One that takes the place of another in flight does not overtake those that wait for it`() {
        let rig = RuleRig([.unique(cancelling: .earlier, for: Named.letter), .concurrency(1)])
        rig.expect([
            ("a", "start 1"), ("b", ""), ("a", "cancelled 1"), ("end 1", "start 2"), ("end 2", "start 3"),
            ("end 3", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `What one rule holds is not seen by those behind it`() {
        let rules: [FluxRule<Named>] = [
            .debounce(for: Named.letter, .seconds(1)), .unique(cancelling: .earlier, for: Named.letter),
        ]
        RuleRig(rules).expect([
            ("a", "sleep 0a 1"), ("time 0a", "start 1"), ("a", "sleep 0a 1"),
            ("time 0a", "cancelled 1"), ("end 1", "start 2"),
        ])
        RuleRig(rules.reversed()).expect([
            ("a", "sleep 1a 1"), ("time 1a", "start 1"), ("a", "cancelled 1"), ("end 1", "sleep 1a 1"),
            ("a", "cancelled 2, wake 1a, sleep 1a 1"), ("time 1a", "start 3"),
        ])
    }

    @Test func `One that is let go on by the end of another meets the one that ended it`() {
        let first: FluxRule<Named>.Key = { $0.name.contains("s") ? true : nil }
        let rig = RuleRig([.sequence(for: first), .unique(cancelling: .earlier, for: Named.letter)])
        // The third event ends the first, for which the second waits: the second is the last to reach the second rule.
        rig.expect([
            ("as", "start 1"), ("as", ""), ("a", "cancelled 1"), ("end 1", "cancelled 3, start 2"), ("end 2", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `One out of a sequence hands on nothing that another rule made it wait for`() {
        let only: FluxRule<Named>.Key = { $0.name.contains("s") ? true : nil }
        let rig = RuleRig([.sequence(for: only), .sequence(for: Named.letter)])
        rig.expect([("a", "start 1"), ("as", ""), ("bs", ""), ("end 2", "start 3"), ("end 1", ""), ("end 3", "")])
        #expect(rig.weight == 0)
    }

    // MARK: - Custom rules

    struct Own: FluxRuling {
        let body: @Sendable (Named, FluxInFlightEvents<Named>) -> FluxDecision

        func decide(on event: Named, inFlight: FluxInFlightEvents<Named>) -> FluxDecision { body(event, inFlight) }
    }

    @Test func `A rule of one's own starts, drops, cancels and lets wait`() {
        let own = Own { event, inFlight in
            let ids = inFlight.map(\.id)
            return switch event.name {
            case "drop": .drop
            case "cancel": .cancel(ids)
            case "wait": .wait(ids)
            default: .start
            }
        }
        let rig = RuleRig([.custom(own)])
        rig.expect([
            ("drop", "dropped 1"), ("a", "start 2"), ("a", "start 3"), ("wait", ""), ("end 2", ""), ("wait", ""),
            ("end 3", "start 4"), ("a", "start 6"), ("end 4", "start 5"),
            ("cancel", "cancelled 5, cancelled 6"), ("end 5", ""), ("end 6", "start 7"), ("end 7", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `Its own id, those unknown and those twice do not count`() {
        let own = Own { event, inFlight in
            switch event.name {
            case "wait": .wait([2, 99, 0])
            case "cancel": .cancel([3, 99, .max])
            case "twice": .wait([1, 1])
            default: .start
            }
        }
        let rig = RuleRig([.custom(own)])
        rig.expect([
            ("a", "start 1"), ("wait", "start 2"), ("cancel", "start 3"), ("twice", ""), ("end 1", "start 4"),
            ("end 2", ""), ("end 3", ""), ("end 4", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `It sees those that passed it, in order, and whether they run`() {
        let seen = Seen()
        let own = Own { _, inFlight in
            seen.log.withLock { $0.append(inFlight.map { "\($0.id)\($0.isExecuting ? "+" : "-")\($0.event.name)" }) }
            #expect(inFlight.count == Array(inFlight).count && inFlight.isEmpty == (inFlight.count == 0))
            return .start
        }
        let rig = RuleRig([.custom(own), .sequence(for: Named.letter)])
        rig.expect([("a", "start 1"), ("a", ""), ("b", "start 3"), ("end 1", "start 2"), ("c", "start 4")])
        #expect(seen.log.withLock { $0 } == [[], ["1+a"], ["1+a", "2-a"], ["2+a", "3+b"]])
    }

    @Test func `It may name only those that have passed it with the same key`() {
        let own = Own { event, _ in event.name.contains("!") ? .wait([1, 2, 3]) : .start }
        let rig = RuleRig([.custom(own, for: Named.letter), .sequence(for: { $0.name.contains("s") ? true : nil })])
        rig.expect([
            ("as", "start 1"), ("bs", ""), ("-", "start 3"), ("b!", ""), ("end 1", "start 2"), ("end 2", "start 4"),
        ])
        let apart = RuleRig([.custom(own, for: Named.letter)])
        apart.expect([("a", "start 1"), ("b!", "start 2"), ("a!", ""), ("end 1", "start 3")])
    }

    #if canImport(Glibc)
        @Test func `One that counts is handed no copy of what is in flight`() async {
            await #expect(processExitsWith: .success) {
                let own = Own { _, inFlight in inFlight.isEmpty || inFlight.count < 20_000 ? .start : .drop }
                let rig = RuleRig([.custom(own)])
                for _ in 1...20_000 { _ = rig.fire("a") }
                // A table of 20,000 takes hundreds of pages, and each copy would map them anew.
                Heap.mapLargeBlocks()
                let before = Heap.pageFaults
                for _ in 1...1_000 where rig.fire("a").count != 1 { fatalError("not dropped") }
                let faults = Heap.pageFaults - before
                guard faults < 1_000 else { fatalError("\(faults) page faults") }
            }
        }
    #endif

    final class Seen: Sendable {
        let log = FluxLock<[[String]]>([])
    }

    // MARK: - Many events

    @Test func `Ten thousand of one key: the last wins, and what is kept does not grow`() {
        let rig = RuleRig([.unique(cancelling: .earlier, for: Named.letter)])
        _ = rig.fire("a")
        let weight = rig.weight
        for _ in 2...10_000 where rig.fire("a").count != 1 { Issue.record("not exactly one end") }
        // The first, which has not ended, and the last, which waits for it.
        #expect(rig.weight <= 2 * weight + 2)
        #expect(rig.ended(1).map(RuleRig.text) == ["start 10000"])
        #expect(rig.ended(10_000).isEmpty)
        #expect(rig.weight == 0)
    }

    @Test func `Ten thousand in a row: each end starts exactly the next`() {
        let rig = RuleRig([.sequence(for: Named.letter), .concurrency(3)])
        for _ in 1...10_000 { _ = rig.fire("a") }
        for id in stride(from: UInt64(2), through: 10_000, by: 2) { #expect(rig.ended(id).isEmpty) }
        for id in stride(from: UInt64(1), to: 9_999, by: 2) {
            let next = rig.ended(id).map(RuleRig.text)
            if next != ["start \(id + 2)"] { Issue.record("\(next) after \(id)") }
        }
        #expect(rig.ended(9_999).isEmpty)
        #expect(rig.weight == 0)
    }

    @Test func `A long row of events that end each other does not grow the stack`() {
        let limit = FluxRule<Named>.concurrency(2)
        let rig = RuleRig([limit, .unique(cancelling: .later, for: Named.letter)])
        rig.expect([("a", "start 1"), ("b", "start 2")])
        for _ in 1...100_000 { _ = rig.fire("a") }
        #expect(rig.ended(2).count == 100_000, "all are dropped, one after the other")
        #expect(rig.ended(1).isEmpty)
        #expect(rig.weight == 0)
    }

    @Test(
        arguments: [
            FluxRule.sequence(for: Named.letter), .concurrency(1), .sequence(for: Named.letter) { _, _ in true },
        ])
    func `What is cancelled while it waits for one that hangs leaves nothing behind`(rule: FluxRule<Named>) {
        let rig = RuleRig([rule])
        _ = rig.fire("a")
        for id in 2...10_000 {
            #expect(rig.fire("a").isEmpty)
            #expect(rig.ended(UInt64(id)).isEmpty)
        }
        #expect(rig.weight < 100)
        #expect(rig.ended(1).isEmpty)
        #expect(rig.weight == 0)
    }
}
