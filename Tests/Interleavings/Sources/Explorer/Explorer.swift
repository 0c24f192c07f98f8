/// Runs the threads of a scenario one at a time, and decides at each step which thread continues.
///
/// Only the thread that is running uses it, so nothing in it is locked.
public final class Explorer: @unchecked Sendable {
    /// The one explorer of the process.
    public static let shared = Explorer()

    private enum Phase {
        /// No scenario is running.
        case idle
        /// The scenario creates the objects that its threads use.
        case setup
        case exploring
        /// The threads are at rest, and the remaining work runs without choices.
        case ending
    }

    /// More steps than any scenario needs: a longer run is taken for one that never ends.
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
    /// Whether the thread that enqueues the next job also runs it, and that job.
    private var isAdopting = false
    private var adopted: UnownedJob?
    /// The number of choices so far, and those that differ from the default.
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
        if failure == nil, let waiting = scene!.waiting { fail("\(waiting) waits forever.\n\(lastStep(of: waiting))") }
        if failure == nil {
            phase = .ending
            while scene!.end() { settle() }
            scene = nil
            settle()
            if checkingLeaks && failure == nil { checkLeaks() }
        } else {
            // The threads stay where they are, so the scene that they use must stay, too.
            _ = Unmanaged.passRetained(scene!)
        }
        phase = .idle
        choice.ended()
        return Run(failure: failure, turns: turns, choices: choices)
    }

    /// Runs the remaining threads to their end, in the order in which they were added.
    private func settle() {
        while failure == nil, let thread = live.first {
            current = thread
            thread.resume()
            waitForRest()
            current = nil
        }
    }

    /// Waits until all threads are at rest; stops the process if a thread reaches no step for 20 seconds.
    private func waitForRest() {
        if control.wait(seconds: 20) { return }
        let last =
            steps.last.map { "\($0.operation) of \($0.object?.name ?? "a place") at \($0.place.text)" } ?? "its start"
        fail("\(current?.name ?? "a thread") reached no further step within 20 s, after \(last).")
        Report.stop(self)
    }

    private func checkLeaks() {
        let left = objects.filter { $0.isCounted && !$0.isGone }
        if !left.isEmpty {
            fail("Not released at the end: \(Set(left.map(\.title)).sorted().joined(separator: ", ")).")
        }
    }

    // MARK: - Failing

    /// Records a failure; the run continues, and only the first failure is reported.
    func fail(_ message: String) { if failure == nil { failure = message } }

    /// Ends the run immediately: the calling thread never continues.
    private func stop(_ message: String) {
        fail(message)
        // Outside the threads there is nothing to stop: the run is over when the scenario returns.
        guard let thread = current else { return }
        control.give()
        while true { thread.wait() }
    }

    // MARK: - Threads

    /// Adds a virtual thread, which runs when it is chosen.
    public func spawn(_ name: String, isTask: Bool = false, _ body: @escaping () -> Void) {
        precondition(phase != .idle, "\(name) was started while no scenario is running")
        precondition(
            phase == .setup || phase == .ending || current != nil,
            "\(name) was started by a thread outside the scenario")
        lastThread += 1
        live.append(VirtualThread(lastThread, name, isTask: isTask, body))
    }

    /// Adds a virtual thread that resumes a Swift task and then runs that task.
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

    /// Accepts a job from the Swift runtime.
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

    /// No thread can continue: all have ended, or the remaining ones wait for each other.
    private func rest() {
        if !live.isEmpty { fail("No thread can continue:\n" + live.map(describe).joined(separator: "\n")) }
        control.give()
    }

    private func describe(_ thread: VirtualThread) -> String {
        guard let wanted = thread.wanted, let owner = wanted.owner else { return "  \(thread.name) waits" }
        let taken = wanted.takenAt.map { ", taken at \($0.text)" } ?? ""
        let place = steps.last { $0.thread === thread }?.place.text ?? "its start"
        return "  \(thread.name) at \(place) waits for \(wanted.name), which \(owner.name) holds\(taken)"
    }

    private func lastStep(of name: String) -> String {
        let step = steps.last { $0.thread.name == name }
        return step.map { "Its last step was \($0.operation) of \($0.object?.name ?? "a place") at \($0.place.text)." }
            ?? ""
    }

    // MARK: - Steps

    /// Comes before a step of the calling thread; another thread may run first.
    ///
    /// - Parameters:
    ///   - operation: The operation that is about to happen.
    ///   - object: The object of the operation; nil if any other step may concern the same thing.
    ///   - place: The place in the sources.
    ///   - isFree: Whether the order of this step relative to others makes no difference.
    public func step(_ operation: Operation, _ object: Shared?, _ place: Place, isFree: Bool = false) {
        if let object, object.isGone {
            stop("\(operation) of \(object.name) at \(place.text), which was released with the object it belonged to.")
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
                    "\(thread.name) takes \(object!.name) at \(place.text), held since \(object!.takenAt!.text)."
                )
            }
        }
        steps.append(Step(thread: thread, operation: operation, object: object, place: place))
        if isFree { return }
        if steps.count > Self.mostSteps { stop("The run takes more than \(Self.mostSteps) steps.") }
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
            stop("\(operation) of \(object.name) at \(place.text), which was released with the object it belonged to.")
        }
        thread.wanted = nil
    }

    /// Takes a lock.
    public func lock(_ object: Shared, _ place: Place) {
        step(.lock, object, place)
        object.owner = current
        object.takenAt = place
    }

    /// Releases a lock.
    public func unlock(_ object: Shared, _ place: Place) {
        step(.unlock, object, place)
        object.owner = nil
        // A thread that must not be interrupted continues first: it holds something that this thread may need next.
        guard let thread = current, let next = live.first(where: { $0.unbroken > 0 && $0.isReady }), next !== thread
        else { return }
        current = next
        next.resume()
        thread.wait()
    }

    /// Runs a closure that must not be interrupted, because it holds something that the explorer does not know.
    public func unbroken<Result>(_ body: () -> Result) -> Result {
        let thread = current
        thread?.unbroken += 1
        defer { thread?.unbroken -= 1 }
        return body()
    }

    /// Returns the thread that continues, or nil if none can.
    private func next(after thread: VirtualThread?, at object: Shared?) -> VirtualThread? {
        // A thread that must not be interrupted continues, or the owner of the lock that it waits for: others may
        // need what it holds.
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
