import FluxCore
import Testing

@testable import FluxObservation

/// The machine between a subscription and an iterator, driven by integers.
@Suite struct FluxChannelMachineTests {
    typealias Machine = FluxChannelMachine<Int, String>

    final class Rig {
        private var machine: Machine

        init(_ machine: Machine) {
            self.machine = machine
        }

        var dropped: Int { machine.dropped }
        func push(_ element: Int) -> (wake: String?, remains: Int?) {
            if !machine.push(element) { return (nil, nil) }
            let settled = machine.settle()
            #expect(settled.gone.count < 2)
            #expect(settled.wake != nil || settled.gone.count == 1, "else there is nothing to settle")
            return (woken(settled.wake), settled.gone.first)
        }
        func take() -> FluxTaken<Int>? { machine.take() }
        /// What the iterator takes at once; nil if it waits.
        func take(orKeep iterator: String) -> String? { machine.take(orKeep: iterator).map { "\($0)" } }
        func finish() -> String? {
            machine.finish()
            return woken(machine.settle().wake)
        }
        func cancel() -> (wake: String?, remains: ContiguousArray<Int>) {
            machine.cancel()
            let settled = machine.settle()
            return (woken(settled.wake), settled.gone)
        }
        /// Settles without a preceding call.
        func settle() -> String? { woken(machine.settle().wake) }

        /// The iterator that is woken, and what it gets.
        private func woken(_ wake: (iterator: String, taken: FluxTaken<Int>)?) -> String? {
            wake.map { "\($0.iterator) has \($0.taken)" }
        }
    }

    /// Everything that can be taken now, and the end, if it has been reached.
    private func takeAll(_ machine: Rig) -> (elements: [Int], end: String?) {
        var elements: [Int] = []
        while true {
            switch machine.take() {
            case nil: return (elements, nil)
            case .element(let element): elements.append(element)
            case .end(let error): return (elements, error.map { "\($0)" } ?? "end")
            }
        }
    }

    @Test(arguments: [
        (FluxBuffered.Rule.every, Array(1...5), 0), (.latest, [5], 0), (.newest(2), [4, 5], 3),
        (.oldest(2), [1, 2], 3),
    ])
    func `A channel keeps the elements that its rule allows and counts the dropped ones`(
        rule: FluxBuffered.Rule, kept: [Int], dropped: Int
    ) {
        let machine = Rig(Machine(rule))
        for element in 1...5 { _ = machine.push(element) }
        #expect(takeAll(machine).elements == kept)
        #expect(machine.dropped == dropped)
    }

    @Test func `A dropped element is returned, to be released outside the lock`() {
        let machine = Rig(Machine(.newest(1)))
        #expect(machine.push(1).remains == nil)
        #expect(machine.push(2).remains == 1)
    }

    @Test func `A waiting iterator gets the next element once`() {
        let machine = Rig(Machine(.every))
        #expect(machine.push(1).wake == nil)
        #expect(machine.take(orKeep: "early") == "element(1)", "there is something")
        #expect(machine.take(orKeep: "late") == nil)
        #expect(machine.settle() == nil, "there is nothing yet: it goes on waiting")
        #expect(machine.push(2).wake == "late has element(2)")
        #expect(machine.push(3).wake == nil)
        #expect(takeAll(machine).elements == [3])
    }

    @Test func `A finished channel ends after its waiting elements and accepts no more`() {
        let machine = Rig(Machine(.every))
        _ = machine.push(1)
        #expect(machine.finish() == nil)
        _ = machine.push(2)
        #expect(takeAll(machine) == ([1], "end"))
        #expect(machine.take(orKeep: "too late") == "end(nil)")
        #expect(machine.settle() == nil, "it is not kept")
    }

    @Test func `An iterator that waits when the channel finishes gets the end`() {
        let machine = Rig(Machine(.latest))
        #expect(machine.take(orKeep: "waiter") == nil)
        #expect(machine.finish() == "waiter has end(nil)")
    }

    @Test func `An iterator that waits when the channel is cancelled gets the end`() {
        let machine = Rig(Machine(.every))
        #expect(machine.take(orKeep: "waiter") == nil)
        #expect(machine.cancel().wake == "waiter has end(nil)")
    }

    @Test func `A cancelled channel ends at once and returns its waiting elements`() {
        let machine = Rig(Machine(.every))
        _ = machine.push(1)
        #expect(machine.cancel().remains == [1])
        #expect(takeAll(machine) == ([], "end"))
        #expect(machine.push(2).remains == 2)
    }

    @Test func `A long waiting list leaves no large buffer behind`() {
        var waiting = FluxWaiting<(Int, Int, Int, Int, Int, Int, Int, Int)>()
        for number in 0..<30_000 { waiting.append((number, 0, 0, 0, 0, 0, 0, 0)) }
        for _ in 0..<30_000 { _ = waiting.popFirst() }
        for _ in 0..<2 {
            waiting.append((0, 0, 0, 0, 0, 0, 0, 0))
            _ = waiting.popFirst()
        }
        #expect(waiting.newer.capacity + waiting.older.capacity < 10_000)
    }

    @Test func `One element too many ends a channel with an error, after the elements it had room for`() {
        let machine = Rig(Machine(.failing(2)))
        for element in 1...4 { _ = machine.push(element) }
        #expect(takeAll(machine) == ([1, 2], "more than 2 changes waited for the subscription, which has ended"))
        #expect(takeAll(machine) == ([], "end"), "an error is thrown once")
    }

    @Test func `An overflow reaches the iterator as an error, even if the source ends before it is thrown`() {
        let rig = Rig(Machine(.failing(1)))
        for number in 1...2 { _ = rig.push(number) }
        _ = rig.finish()
        let all = takeAll(rig)
        #expect(all.elements == [1])
        #expect(all.end == "more than 1 changes waited for the subscription, which has ended")
    }

    @Test func `After an iterator has found its task cancelled, no task gets another element`() async {
        let channel = FluxChannel<Int>(.every)
        for number in 1...2 { channel.put(number)?.settle() }
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await channel.next()
        }
        for taken in [await task.value, await channel.next()] {
            guard case .end(nil) = taken else {
                Issue.record("\(taken)")
                continue
            }
        }
    }
}
