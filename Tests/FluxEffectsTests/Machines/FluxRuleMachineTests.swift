import FluxCore
import TestSupport
import Testing

@testable import FluxEffects

/// Each rule as a table of inputs and their effects.
@Suite struct FluxRuleMachineTests {
    // MARK: - Groups

    @Test func `A group finds the last event before a place, after events have left in any order`() {
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

    @Test(.stress) func `The cost of an end does not grow with the events that wait by a condition`() async {
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

    @Test func `A group that always has an event keeps nothing of those that have left`() async {
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

    @Test func `A duration and a limit of retries can be zero`() {
        let rig = RuleRig([.debounce(.zero), .throttle(.zero, latest: true), .retry(limit: 0)])
        #expect(rig.fire("a").count == 1)
    }

    // MARK: - Unique

    @Test func `Without rules every event starts at once and leaves nothing behind`() {
        let rig = RuleRig([])
        rig.expect([("a", "start 1"), ("a", "start 2"), ("end 1", ""), ("end 2", ""), ("end 2", ""), ("end 9", "")])
        #expect(rig.weight == 0)
    }

    @Test func `unique(cancelling: .earlier) cancels earlier events and starts the latest`() {
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

    @Test func `unique(cancelling: .later) drops later events while the first one runs`() {
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

    @Test func `unique does not affect events for which its condition is false`() {
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

    @Test func `A condition gets the new event first and the earlier one second`() {
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
    func `A rule does not cover an event without a key`(rule: FluxRule<Named>) {
        let rig = RuleRig([rule])
        rig.expect([("-", "start 1"), ("-", "start 2"), ("end 1", ""), ("end 2", "")])
        #expect(rig.weight == 0)
    }

    @Test func `Equal numbers of different types are one key`() {
        let rig = RuleRig([.unique(cancelling: .later, for: { if $0.name == "a" { Int8(1) } else { UInt64(1) } })])
        rig.expect([("a", "start 1"), ("b", "dropped 2")])
    }

    @Test func `A retry rule holds no event back`() {
        let rig = RuleRig([.retry(for: Named.letter, limit: 3)])
        rig.expect([("a", "start 1"), ("a", "start 2"), ("end 1", ""), ("end 2", "")])
        #expect(rig.weight == 0)
    }

    // MARK: - Sequence

    @Test func `A sequence runs the events of each key one after the other`() {
        let rig = RuleRig([.sequence(for: Named.letter)])
        rig.expect([
            ("a", "start 1"), ("a", ""), ("b", "start 3"), ("a", ""), ("b", ""),
            ("end 1", "start 2"), ("end 3", "start 5"), ("end 2", "start 4"), ("end 4", ""), ("a", "start 6"),
            ("end 5", ""), ("end 6", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A sequence can order several kinds of event by one key`() {
        let rig = RuleRig([.sequence { "ab".contains($0.name) ? "both" : nil }])
        rig.expect([
            ("a", "start 1"), ("b", ""), ("c", "start 3"), ("a", ""), ("end 1", "start 2"), ("end 2", "start 4"),
        ])
    }

    @Test func `When an event leaves a sequence, the one behind it waits for the one before it`() {
        let rig = RuleRig([.sequence(for: Named.letter)])
        rig.expect([
            ("a", "start 1"), ("a", ""), ("a", ""), ("a", ""), ("end 2", ""), ("end 3", ""), ("end 1", "start 4"),
            ("end 4", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A new event keeps its turn after the last one of a sequence has left`() {
        let rig = RuleRig([.sequence(for: Named.letter)])
        rig.expect([
            ("a", "start 1"), ("a", ""), ("a", ""), ("end 3", ""), ("a", ""), ("end 1", "start 2"),
            ("end 2", "start 4"),
        ])
    }

    @Test func `A sequence with a condition waits only for events for which the condition is true`() {
        let rig = RuleRig([.sequence(for: Named.letter, when: Named.areLoud)])
        rig.expect([
            ("a!", "start 1"), ("a", "start 2"), ("a!", ""), ("a!", ""), ("end 2", ""), ("end 1", "start 3"),
            ("end 3", "start 4"), ("end 4", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `In a sequence with a condition an event does not inherit the waits of another`() {
        let share: FluxRule<Named>.Condition = { !Set($0.name.dropFirst()).isDisjoint(with: $1.name.dropFirst()) }
        let rig = RuleRig([.sequence(for: Named.letter, when: share)])
        rig.expect([("ax", "start 1"), ("axy", ""), ("ay", ""), ("end 2", "start 3"), ("end 1", ""), ("end 3", "")])
        #expect(rig.weight == 0)
    }

    @Test func `In a sequence with a condition each event stores one other, however many it waits for`() {
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

    @Test func `A debounce starts the last event after a quiet interval`() {
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

    @Test func `An event that ends while a debounce holds it ends its timer too`() {
        let rig = RuleRig([.debounce(for: Named.letter, .seconds(3))])
        rig.expect([("a", "sleep 0a 3"), ("end 1", "wake 0a"), ("time 0a", "")])
        #expect(rig.weight == 0)
        rig.expect([("a", "sleep 0a 3"), ("time 0a", "start 2"), ("end 2", "")])
        #expect(rig.weight == 0)
    }

    @Test func `A throttle drops events that follow too soon`() {
        let rig = RuleRig([.throttle(for: Named.letter, .seconds(2), latest: false)])
        rig.expect([
            ("a", "sleep 0a 2, start 1"), ("a", "dropped 2"), ("b", "sleep 0b 2, start 3"), ("end 1", ""),
            ("a", "dropped 4"), ("time 0a", ""), ("a", "sleep 0a 2, start 5"), ("end 5", ""), ("time 0a", ""),
            ("end 3", ""), ("time 0b", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A throttle starts the latest event at the end of the interval, and begins another interval`() {
        let rig = RuleRig([.throttle(for: Named.letter, .seconds(2), latest: true)])
        rig.expect([
            ("a", "sleep 0a 2, start 1"), ("a", ""), ("a", "dropped 2"), ("time 0a", "sleep 0a 2, start 3"), ("a", ""),
            ("end 4", ""), ("time 0a", ""), ("time 0a", ""), ("a", "sleep 0a 2, start 5"), ("time 0a", ""),
            ("end 1", ""), ("end 3", ""), ("end 5", ""),
        ])
        #expect(rig.weight == 0)
    }

    // MARK: - Deadlines that have passed without a wake-up

    @Test func `A debounce starts an event whose quiet interval has passed before it handles the next one`() {
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

    @Test func `A throttle starts the next event once its interval has passed, even without a wake-up`() {
        let rig = RuleRig([.throttle(for: Named.letter, .seconds(2), latest: false)])
        rig.expect([
            ("a", "sleep 0a 2, start 1"), ("at 1", ""), ("a", "dropped 2"), ("b", "sleep 0b 3, start 3"),
            ("at 2", ""), ("a", "wake 0a, sleep 0a 4, start 4"), ("b", "dropped 5"), ("a", "dropped 6"),
            ("at 9", ""), ("a", "wake 0a, sleep 0a 11, start 7"), ("end 1", ""), ("end 3", ""), ("end 4", ""),
            ("end 7", ""), ("time 0a", ""), ("time 0b", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A throttle whose interval has passed starts the event it kept, and the next one waits`() {
        let rig = RuleRig([.throttle(for: Named.letter, .seconds(2), latest: true)])
        rig.expect([
            ("a", "sleep 0a 2, start 1"), ("a", ""), ("at 3", ""), ("a", "wake 0a, sleep 0a 5, start 2"),
            ("at 4", ""), ("a", "dropped 3"), ("at 5", ""), ("time 0a", "sleep 0a 7, start 4"),
            ("at 9", ""), ("a", "wake 0a, sleep 0a 11, start 5"), ("time 0a", ""), ("end 1", ""), ("end 2", ""),
            ("end 4", ""), ("end 5", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `An event that proceeds without a wake-up reaches the later rules at the current time`() {
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

    @Test func `An event that reaches a throttle as another event ends is timed from that moment`() {
        let rig = RuleRig([.sequence(for: { _ in "s" }), .throttle(for: Named.letter, .seconds(2), latest: false)])
        rig.expect([
            ("a", "sleep 1a 2, start 1"), ("a", ""), ("a", ""), ("at 3", ""),
            ("end 1", "wake 1a, sleep 1a 5, start 2"), ("end 2", "dropped 3"), ("time 1a", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `Extremely long durations count as a century`() {
        let rig = RuleRig([.debounce(for: Named.letter, Duration(secondsComponent: .max, attosecondsComponent: 0) * 10)]
        )
        rig.expect([("at 1", ""), ("a", "sleep 0a 3000000001")])
    }

    // MARK: - Concurrency

    @Test func `Events over a concurrency limit wait in order`() {
        let rig = RuleRig([.concurrency(2)])
        rig.expect([
            ("a", "start 1"), ("b", "start 2"), ("c", ""), ("-", ""), ("end 2", "start 3"), ("e", ""),
            ("end 1", "start 4"), ("end 4", "start 5"), ("end 3", ""), ("f", "start 6"), ("end 5", ""), ("end 6", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A concurrency limit with a key limits the running and the waiting events of each key`() {
        let rig = RuleRig([.concurrency(for: Named.letter, 2, waiting: 1)])
        rig.expect([
            ("a", "start 1"), ("a", "start 2"), ("a", ""), ("a", "dropped 4"), ("b", "start 5"), ("-", "start 6"),
            ("b", "start 7"), ("end 5", ""), ("end 2", "start 3"), ("a", ""), ("end 1", "start 8"), ("end 3", ""),
            ("end 8", ""), ("end 6", ""), ("end 7", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `An event that ends while it waits for a limit is passed over`() {
        let rig = RuleRig([.concurrency(1)])
        rig.expect([
            ("a", "start 1"), ("a", ""), ("a", ""), ("a", ""), ("end 2", ""), ("end 3", ""), ("end 1", "start 4"),
            ("end 4", ""), ("a", "start 5"), ("a", ""), ("end 6", ""), ("end 5", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `An event that a later rule drops gives its place to the next one`() {
        let rig = RuleRig([.concurrency(2), .unique(cancelling: .later, for: Named.letter)])
        rig.expect([
            ("a", "start 1"), ("b", "start 2"), ("a", ""), ("a", ""), ("c", ""),
            ("end 2", "dropped 3, dropped 4, start 5"),
        ])
    }

    @Test func `A concurrency limit lets only the given number of events wait`() {
        let rig = RuleRig([.concurrency(2, waiting: 1)])
        rig.expect([
            ("a", "start 1"), ("b", "start 2"), ("c", ""), ("d", "dropped 4"), ("end 3", ""), ("e", ""),
            ("f", "dropped 6"), ("end 1", "start 5"), ("g", ""), ("end 2", "start 7"), ("end 5", ""), ("end 7", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `With no room to wait an extra event is dropped, but not one that proceeds as another ends`() {
        let rig = RuleRig([.sequence(for: Named.letter), .concurrency(1, waiting: 0)])
        rig.expect([
            ("a", "start 1"), ("a", ""), ("b", "dropped 3"), ("end 1", "start 2"), ("end 2", ""), ("b", "start 4"),
            ("end 4", ""),
        ])
        #expect(rig.weight == 0)
    }

    // MARK: - Several rules

    @Test func `Rules do not see an event that has ended`() {
        let dropping = RuleRig([.concurrency(1), .unique(cancelling: .later, for: Named.letter)])
        dropping.expect([("a", "start 1"), ("a", ""), ("end 1", "start 2"), ("end 2", "")])
        #expect(dropping.weight == 0)
        let sequence = RuleRig([.concurrency(2), .sequence(for: Named.letter)])
        sequence.expect([("a", "start 1"), ("a", ""), ("a", ""), ("end 2", ""), ("end 1", "start 3"), ("end 3", "")])
        #expect(sequence.weight == 0)
    }

    @Test func `With two limits no event overtakes another, and neither limit is exceeded`() {
        let rig = RuleRig([.concurrency(2), .concurrency(1)])
        rig.expect([
            ("a", "start 1"), ("b", ""), ("c", ""), ("d", ""), ("end 1", "start 2"), ("end 2", "start 3"),
            ("end 3", "start 4"), ("end 4", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `An event that replaces a waiting one does not overtake others or exceed the waiting limit`() {
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

    @Test func `The end of an event lets others proceed in the order fired, those of a later rule first`() {
        let rig = RuleRig([.concurrency(2), .concurrency(for: Named.letter, 1)])
        rig.expect([("a", "start 1"), ("a", ""), ("-", ""), ("end 1", "start 2, start 3")])
        let own = Own { event, _ in .wait([1]) }
        let waiting = RuleRig([.custom(own)])
        waiting.expect([("a", "start 1")] + (2...9).map { _ in ("a", "") })
        #expect(waiting.input("end 1") == (2...9).map { "start \($0)" }.joined(separator: ", "))
    }

    @Test func `An event that replaces a running one does not overtake those that wait for it`() {
        let rig = RuleRig([.unique(cancelling: .earlier, for: Named.letter), .concurrency(1)])
        rig.expect([
            ("a", "start 1"), ("b", ""), ("a", "cancelled 1"), ("end 1", "start 2"), ("end 2", "start 3"),
            ("end 3", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `A rule does not see the events that an earlier rule holds`() {
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

    @Test func `An event that proceeds as another ends meets the event that cancelled the other`() {
        let first: FluxRule<Named>.Key = { $0.name.contains("s") ? true : nil }
        let rig = RuleRig([.sequence(for: first), .unique(cancelling: .earlier, for: Named.letter)])
        // The third event ends the first, for which the second waits: the second is the last to reach the second rule.
        rig.expect([
            ("as", "start 1"), ("as", ""), ("a", "cancelled 1"), ("end 1", "cancelled 3, start 2"), ("end 2", ""),
        ])
        #expect(rig.weight == 0)
    }

    @Test func `An event that leaves a sequence does not pass on waits that another rule caused`() {
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

    @Test func `A custom rule can start, drop and cancel events and make them wait`() {
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

    @Test func `A custom rule's decision ignores the event's own id, unknown ids and repeated ids`() {
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

    @Test func `A custom rule sees the events that have passed it, in order, and whether they run`() {
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

    @Test func `A custom rule can name only events that have passed it with the same key`() {
        let own = Own { event, _ in event.name.contains("!") ? .wait([1, 2, 3]) : .start }
        let rig = RuleRig([.custom(own, for: Named.letter), .sequence(for: { $0.name.contains("s") ? true : nil })])
        rig.expect([
            ("as", "start 1"), ("bs", ""), ("-", "start 3"), ("b!", ""), ("end 1", "start 2"), ("end 2", "start 4"),
        ])
        let apart = RuleRig([.custom(own, for: Named.letter)])
        apart.expect([("a", "start 1"), ("b!", "start 2"), ("a!", ""), ("end 1", "start 3")])
    }

    #if canImport(Glibc)
        @Test func `A custom rule that counts the events in flight copies nothing`() async {
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

    @Test func `The last of ten thousand events of one key wins, and the machine does not grow`() {
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

    @Test func `In a sequence of ten thousand events each end starts exactly the next one`() {
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

    @Test func `A long chain of events that end each other does not grow the stack`() {
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
    func `Events that are cancelled while they wait for one that hangs leave nothing behind`(rule: FluxRule<Named>) {
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
