/// Runs the threads of a scenario one at a time, and decides at each step who goes on.
///
/// It is used by the one thread that runs: nothing in it is locked.
public final class Explorer: @unchecked Sendable {
    /// The one explorer of the process.
    public static let shared = Explorer()

    private enum Phase {
        /// No scenario is under way.
        case idle
        /// The scenario makes what its threads use.
        case setup
        case exploring
        /// The threads are at rest: what is still to be done is done without a choice.
        case ending
    }

    /// More steps than any scenario needs: a run that goes on for so long never ends.
    private static let mostSteps = 20_000

    private var phase = Phase.idle
    private(set) var runNumber = 0
    private var lastNumber = 0
    var objects: [Shared] = []
    private(set) var steps: [Step] = []
    private var live: [VirtualThread] = []
    private var lastThread = 0
    private var current: VirtualThread?
    private var choice: any Choosing = Straight()
    /// Whether the next job is run by the thread that enqueues it, and that.
    private var isAdopting = false
    private var adopted: UnownedJob?
    /// How many choices there were, and where another was made than to go on.
    private var choices = 0
    private(set) var turns: [Turn] = []
    private(set) var failure: String?
    private let control = Baton()

    private init() {}

    var isUnderWay: Bool { phase != .idle }

    func register() -> Int {
        lastNumber += 1
        return lastNumber
    }

    // MARK: - A run

    /// Runs a scenario once.
    func run(_ scenario: Scenario, _ choice: any Choosing, checkingLeaks: Bool = true) -> Run {
        runNumber += 1
        (lastNumber, lastThread, choices) = (0, 0, 0)
        (objects, steps, turns, live, current, failure) = ([], [], [], [], nil, nil)
        self.choice = choice
        phase = .setup
        var scene: Scene? = Scene()
        scenario.body(scene!)
        phase = .exploring
        if let first = next(after: nil, at: nil) {
            current = first
            first.resume()
            waitForRest()
        }
        current = nil
        if failure == nil, let waiting = scene!.waiting { fail("\(waiting) waits for good.\n\(lastStep(of: waiting))") }
        if failure == nil {
            phase = .ending
            while scene!.end() { settle() }
            scene = nil
            settle()
            if checkingLeaks && failure == nil { checkLeaks() }
        } else {
            // Its threads stay where they are, with what they hold.
            _ = Unmanaged.passRetained(scene!)
        }
        phase = .idle
        choice.ended()
        return Run(failure: failure, turns: turns, choices: choices)
    }

    /// Lets all that is due be done, in the order in which it became so.
    private func settle() {
        while failure == nil, let thread = live.first {
            current = thread
            thread.resume()
            waitForRest()
            current = nil
        }
    }

    /// Waits until all threads are at rest; one that never comes to a step keeps them from that.
    private func waitForRest() {
        if control.wait(seconds: 20) { return }
        let last =
            steps.last.map { "\($0.operation) of \($0.object?.name ?? "a place") at \($0.place.text)" } ?? "its start"
        fail("\(current?.name ?? "somebody") came to no further step within 20 s, after \(last).")
        Report.stop(self)
    }

    private func checkLeaks() {
        let left = objects.filter { $0.isCounted && !$0.isGone }
        if !left.isEmpty {
            fail("Not let go of at the end: \(Set(left.map(\.title)).sorted().joined(separator: ", ")).")
        }
    }

    // MARK: - Failing

    /// Notes what went wrong; the run goes on, and the first is told.
    func fail(_ message: String) { if failure == nil { failure = message } }

    /// Ends the run in the middle: the calling thread goes no further.
    private func stop(_ message: String) {
        fail(message)
        // Outside the threads nobody is to be stopped: the run is over when the scenario returns.
        guard let thread = current else { return }
        control.give()
        while true { thread.wait() }
    }

    // MARK: - Threads

    /// Begins another line of control, which goes on when it is chosen.
    public func spawn(_ name: String, isTask: Bool = false, _ body: @escaping () -> Void) {
        precondition(phase != .idle, "\(name) was begun while no scenario is under way")
        precondition(phase == .setup || phase == .ending || current != nil, "\(name) was begun by a foreign thread")
        lastThread += 1
        live.append(VirtualThread(lastThread, name, isTask: isTask, body))
    }

    /// Begins a line of control that makes a Swift task able to go on, and then is that task.
    func spawnTask(_ name: String, _ wake: @escaping () -> Void) {
        spawn(name, isTask: true) {
            self.isAdopting = true
            wake()
            self.isAdopting = false
            let job = self.adopted
            self.adopted = nil
            if let job { SwiftTasks.run(job) }
        }
    }

    /// Takes in a job of the runtime.
    func enqueue(_ job: UnownedJob) {
        if isAdopting && adopted == nil { return adopted = job }
        step(.wake, nil, Place("the runtime of Swift", 0), isFree: true)
        spawn("a task", isTask: true) { SwiftTasks.run(job) }
    }

    func ended(_ thread: VirtualThread) {
        live.removeAll { $0 === thread }
        if phase == .ending { return control.give() }
        guard let next = next(after: nil, at: nil) else { return rest() }
        current = next
        next.resume()
    }

    /// Nobody can go on: all is done, or those that are left wait for each other.
    private func rest() {
        if !live.isEmpty { fail("Nobody can go on:\n" + live.map(describe).joined(separator: "\n")) }
        control.give()
    }

    private func describe(_ thread: VirtualThread) -> String {
        guard let wanted = thread.wanted, let owner = wanted.owner else { return "  \(thread.name) waits" }
        let taken = wanted.takenAt.map { ", taken at \($0.text)" } ?? ""
        let place = steps.last { $0.thread === thread }?.place.text ?? "its start"
        return "  \(thread.name) at \(place) waits for \(wanted.name), which \(owner.name) has\(taken)"
    }

    private func lastStep(of name: String) -> String {
        let step = steps.last { $0.thread.name == name }
        return step.map { "Its last step was \($0.operation) of \($0.object?.name ?? "a place") at \($0.place.text)." }
            ?? ""
    }

    // MARK: - Steps

    /// Comes before a step of the calling thread: another may go on instead.
    ///
    /// - Parameters:
    ///   - operation: What it is about to do.
    ///   - object: With what; nil: with something that any other step may be about.
    ///   - place: Where.
    ///   - isFree: Whether it makes no difference to any other step whether this comes before it or after.
    public func step(_ operation: Operation, _ object: Shared?, _ place: Place, isFree: Bool = false) {
        if let object, object.isGone {
            stop("\(operation) of \(object.name) at \(place.text), which is gone with what it belonged to.")
        }
        guard let thread = current else { return }
        if phase == .ending {
            steps.append(Step(thread: thread, operation: operation, object: object, place: place))
            return
        }
        thread.noteName()
        object?.visit(thread)
        if operation == .lock {
            thread.wanted = object
            if object!.owner === thread {
                stop(
                    "\(thread.name) takes \(object!.name) at \(place.text), which it has since \(object!.takenAt!.text)."
                )
            }
        }
        steps.append(Step(thread: thread, operation: operation, object: object, place: place))
        if isFree { return }
        if steps.count > Self.mostSteps { stop("It goes on for more than \(Self.mostSteps) steps.") }
        guard let next = next(after: thread, at: object) else {
            rest()
            while true { thread.wait() }
        }
        if next !== thread {
            current = next
            next.resume()
            thread.wait()
        }
        if let object, object.isGone {
            stop("\(operation) of \(object.name) at \(place.text), which is gone with what it belonged to.")
        }
        thread.wanted = nil
    }

    /// Takes a lock.
    public func lock(_ object: Shared, _ place: Place) {
        step(.lock, object, place)
        object.owner = current
        object.takenAt = place
    }

    /// Gives a lock back.
    public func unlock(_ object: Shared, _ place: Place) {
        step(.unlock, object, place)
        object.owner = nil
        // Whoever may not be interrupted goes on at once: it has what the next that this thread does may need.
        guard let thread = current, let next = live.first(where: { $0.unbroken > 0 && $0.isReady }), next !== thread
        else { return }
        current = next
        next.resume()
        thread.wait()
    }

    /// Runs what must not be interrupted, because it holds something that the explorer does not know.
    public func unbroken<Result>(_ body: () -> Result) -> Result {
        let thread = current
        thread?.unbroken += 1
        defer { thread?.unbroken -= 1 }
        return body()
    }

    /// Whoever goes on; nil: nobody can.
    private func next(after thread: VirtualThread?, at object: Shared?) -> VirtualThread? {
        // Whoever may not be interrupted goes on, or who has the lock that it waits for: others may need what it holds.
        if var unbroken = live.first(where: { $0.unbroken > 0 }) {
            for _ in live { unbroken = unbroken.wanted?.owner ?? unbroken }
            return unbroken.isReady ? unbroken : nil
        }
        let ready = live.filter(\.isReady)
        guard ready.count > 1 else { return ready.first }
        let straight = thread.flatMap { thread in ready.first { $0 === thread } } ?? ready[0]
        let chosen = choice.choose(among: ready, straight, isPreemption: straight === thread, at: object)
        if chosen !== straight { turns.append(Turn(choice: choices, thread: chosen.number)) }
        choices += 1
        return chosen
    }
}
