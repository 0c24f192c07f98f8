import Testing

@testable import FluxCore

/// The life of a task, with integers for those who wait.
@Suite struct FluxTaskMachineTests {
    typealias Machine = FluxTaskMachine<Int>

    struct Failure: Error, CustomStringConvertible {
        var description: String { "x" }
    }

    /// Walks through a life, and gives each event as a word.
    final class Walk {
        private var cursor = Machine.Cursor()

        /// All there is to see now; "…" where more may come.
        func look(_ life: Life) -> [String] {
            var words: [String] = []
            while words.count < 100 {
                switch life.machine.next(after: &cursor, life.gate.word) {
                case .event(.started): words.append("started")
                case .event(.actionSent): words.append("sent")
                case .event(.retrying(let attempt, _)): words.append("retrying \(attempt)")
                case .event(.ended(let outcome)): words.append("\(outcome)")
                case .over: return words
                case .wait: return words + ["…"]
                }
            }
            return words
        }
    }

    /// A machine beside its gate.
    final class Life {
        var machine = Machine()
        let gate = FluxGate()

        func send(_ count: Int) {
            for _ in 0..<count {
                _ = gate.enter()
                _ = gate.leave()
            }
        }

        func note(_ attempt: Int) { machine.note(attempt: attempt, Failure(), sent: gate.word.sent) }
    }

    @Test func `Whoever looks along sees each step once`() {
        let (life, walk) = (Life(), Walk())
        #expect(walk.look(life) == ["…"])
        _ = life.gate.start()
        #expect(walk.look(life) == ["started", "…"])
        #expect(walk.look(life) == ["…"])
        life.send(2)
        #expect(walk.look(life) == ["sent", "sent", "…"])
        life.send(1)
        life.note(1)
        life.send(1)
        #expect(walk.look(life) == ["sent", "retrying 1", "sent", "…"])
        life.send(1)
        _ = life.gate.close(.completed)
        #expect(walk.look(life) == ["sent", "completed"])
        #expect(walk.look(life) == [])
    }

    @Test func `Whoever looks late sees the same, from the start`() {
        let life = Life()
        _ = life.gate.start()
        life.send(1)
        life.note(1)
        life.note(2)
        life.send(2)
        life.note(3)
        life.send(1)
        _ = life.gate.close(.cancelled)
        let seen = ["started", "sent", "retrying 1", "retrying 2", "sent", "sent", "retrying 3", "sent", "cancelled"]
        #expect(Walk().look(life) == seen)
        #expect(Walk().look(life) == seen)
    }

    @Test func `What never started ends without a start`() {
        let life = Life()
        _ = life.gate.close(.dropped)
        #expect(Walk().look(life) == ["dropped"])
    }

    @Test func `A failure carries its error`() {
        let life = Life()
        #expect(life.machine.outcome(life.gate.word) == nil)
        life.machine.fail(Failure())
        #expect(life.machine.outcome(life.gate.word) == nil, "not before the gate says so")
        _ = life.gate.close(.failed)
        #expect(life.machine.outcome(life.gate.word).map { "\($0)" } == "failed(x)")
        #expect(Walk().look(life) == ["failed(x)"])
    }

    // MARK: - Those who wait

    @Test func `The end hands out all who wait and listen, once`() {
        let machine = Box(Machine())
        #expect(machine.it.close().isEmpty)
        machine.it.wait(1)
        machine.it.listen(2)
        machine.it.wait(3)
        #expect(machine.it.close() == [1, 3, 2])
        #expect(machine.it.close().isEmpty)
        #expect(machine.it.takeListeners().isEmpty)
    }

    @Test func `Listeners are taken at each step, those who wait only at the end`() {
        let machine = Box(Machine())
        #expect(machine.it.takeListeners() == [])
        machine.it.wait(1)
        machine.it.listen(2)
        machine.it.listen(3)
        #expect(machine.it.takeListeners() == [2, 3])
        #expect(machine.it.takeListeners() == [])
        #expect(machine.it.close() == [1])
    }

    // MARK: - Parts

    @Test(
        arguments: [
            ("c", "completed"), ("cc", "completed"), ("cd", "dropped"), ("dx", "cancelled"), ("xd", "cancelled"),
            ("cxdf", "failed(1)"), ("fxdc", "failed(1)"), ("fcf", "failed(1)"), ("xcx", "cancelled"),
            ("dcd", "dropped"),
        ])
    func `The whole comes to the worst of its parts`(parts: String, whole: String) {
        let machine = Box(Machine(parts: parts.count))
        var failures = 0
        var result: FluxTask.Outcome?
        for (index, letter) in parts.enumerated() {
            #expect(result == nil, "not before the last has ended")
            let outcome: FluxTask.Outcome
            switch letter {
            case "f":
                failures += 1
                outcome = .failed(Numbered(number: failures))
            case "x": outcome = .cancelled
            case "d": outcome = .dropped
            default: outcome = .completed
            }
            result = machine.it.partEnded(outcome)?.outcome
            #expect(index < parts.count - 1 || result != nil)
        }
        #expect(result.map { "\($0)" } == whole, "with the first of several errors")
    }

    struct Numbered: Error, CustomStringConvertible {
        let number: Int
        var description: String { "\(number)" }
    }
}
