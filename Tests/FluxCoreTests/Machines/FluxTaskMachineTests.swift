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
        func look(_ machine: Box<Machine>, sent: UInt64, isStarted: Bool = true) -> [String] {
            var words: [String] = []
            while words.count < 100 {
                switch machine.it.next(after: &cursor, sent: sent, isStarted: isStarted) {
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

    // MARK: - Life

    @Test func `Whoever looks along sees each step once`() {
        let machine = Box(Machine())
        let walk = Walk()
        #expect(walk.look(machine, sent: 0, isStarted: false) == ["…"])
        #expect(walk.look(machine, sent: 0) == ["started", "…"])
        #expect(walk.look(machine, sent: 0) == ["…"])
        #expect(walk.look(machine, sent: 2) == ["sent", "sent", "…"])
        machine.it.note(attempt: 1, Failure(), sent: 3)
        #expect(walk.look(machine, sent: 4) == ["sent", "retrying 1", "sent", "…"])
        #expect(machine.it.close(.completed, sent: 5) != nil)
        #expect(walk.look(machine, sent: 5) == ["sent", "completed"])
        #expect(walk.look(machine, sent: 5) == [])
    }

    @Test func `Whoever looks late sees the same, from the start`() {
        let machine = Box(Machine())
        machine.it.note(attempt: 1, Failure(), sent: 1)
        machine.it.note(attempt: 2, Failure(), sent: 1)
        machine.it.note(attempt: 3, Failure(), sent: 3)
        _ = machine.it.close(.cancelled, sent: 4)
        let life = ["started", "sent", "retrying 1", "retrying 2", "sent", "sent", "retrying 3", "sent", "cancelled"]
        #expect(Walk().look(machine, sent: 4) == life)
        #expect(Walk().look(machine, sent: 4) == life)
    }

    @Test func `Nothing comes after the end`() {
        let machine = Box(Machine())
        let walk = Walk()
        _ = machine.it.close(.dropped, sent: 0)
        machine.it.note(attempt: 1, Failure(), sent: 0)
        #expect(walk.look(machine, sent: 0, isStarted: false) == ["dropped"])
        #expect(walk.look(machine, sent: 3, isStarted: true) == [], "a start or an action that came too late")
    }

    @Test func `It ends once, with the first outcome`() {
        let machine = Box(Machine())
        #expect(machine.it.outcome == nil)
        #expect(machine.it.close(.failed(Failure()), sent: 0) != nil)
        #expect(machine.it.close(.completed, sent: 9) == nil)
        #expect(machine.it.outcome.map { "\($0)" } == "failed(x)")
        #expect(Walk().look(machine, sent: 9) == ["started", "failed(x)"])
    }

    // MARK: - Those who wait

    @Test func `The end hands out all who wait and listen, once`() {
        let machine = Box(Machine())
        #expect(machine.it.wait(1) == true)
        machine.it.listen(2)
        #expect(machine.it.wait(3) == true)
        let closing = machine.it.close(.completed, sent: 0)
        #expect(closing?.waiters == [1, 3, 2])
        #expect(machine.it.wait(4) == false)
        #expect(machine.it.takeListeners() == [])
    }

    @Test func `Listeners are taken at each step, those who wait only at the end`() {
        let machine = Box(Machine())
        #expect(machine.it.takeListeners() == [])
        #expect(machine.it.wait(1) == true)
        machine.it.listen(2)
        machine.it.listen(3)
        #expect(machine.it.takeListeners() == [2, 3])
        #expect(machine.it.takeListeners() == [])
        #expect(machine.it.close(.cancelled, sent: 0)?.waiters == [1])
    }

    @Test func `The work is handed out at the end, and refused after it`() async {
        let machine = Box(Machine())
        let work = Task {}
        #expect(machine.it.begin(work) == true)
        #expect(machine.it.close(.cancelled, sent: 0)?.work == work)
        #expect(machine.it.begin(work) == false)
        #expect(machine.it.cancel().isEmpty)
        #expect(machine.it.isCancelling == false, "it had ended")
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
            result = machine.it.partEnded(FluxTask(of: 0), outcome)
            #expect(index < parts.count - 1 || result != nil)
        }
        #expect(result.map { "\($0)" } == whole, "with the first of several errors")
    }

    struct Numbered: Error, CustomStringConvertible {
        let number: Int
        var description: String { "\(number)" }
    }

    @Test func `Cancelling hands out the parts, and not after the end`() {
        let machine = Box(Machine(parts: 2))
        let parts = [FluxTask(of: 0), FluxTask(of: 0)]
        for part in parts { machine.it.add(part) }
        #expect(machine.it.cancel().map { ObjectIdentifier($0) } == parts.map { ObjectIdentifier($0) })
        #expect(machine.it.isCancelling == true)
        #expect(machine.it.close(.cancelled, sent: 0) != nil)
        #expect(machine.it.cancel().isEmpty)
        machine.it.add(parts[0])
        #expect(machine.it.cancel().isEmpty, "none is kept after the end")
        #expect(machine.it.partEnded(parts[0], .completed) == nil)
        #expect(machine.it.partEnded(parts[1], .completed) == nil, "the whole has ended")
    }
}
