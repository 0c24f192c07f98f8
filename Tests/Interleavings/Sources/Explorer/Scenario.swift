/// A few lines that say what some threads do at once, and what must hold afterwards.
public struct Scenario: Sendable {
    /// The name to run it by: the clause and a few words.
    public let name: String
    /// The guarantee to users.
    public let title: String
    let body: @Sendable (Scene) -> Void

    /// Creates a scenario.
    ///
    /// - Parameters:
    ///   - name: The name to run it by.
    ///   - title: The guarantee to users, as a sentence.
    ///   - body: Creates what the threads use, and adds the threads; called again for each run.
    public init(_ name: String, _ title: String, _ body: @escaping @Sendable (Scene) -> Void) {
        (self.name, self.title, self.body) = (name, title, body)
    }
}

/// One run of a scenario, which the scenario fills.
public final class Scene: @unchecked Sendable {
    @TaskLocal static var taskName: String?

    /// The tasks that have not ended.
    private var open: [String] = []
    private var endings: [() -> Void] = []

    var waiting: String? { open.first }

    /// Runs and releases the next closure given to `finally`; returns false if there is none.
    func end() -> Bool {
        if endings.isEmpty { return false }
        endings.removeFirst()()
        return true
    }

    /// Adds a thread.
    ///
    /// - Parameters:
    ///   - name: Its name in reports.
    ///   - body: The work of the thread.
    public func thread(_ name: String, _ body: @escaping @Sendable () -> Void) {
        Explorer.shared.spawn(name, body)
    }

    /// Adds a Swift task; the run fails if the task never ends.
    ///
    /// - Parameters:
    ///   - name: Its name in reports.
    ///   - body: The work of the task.
    /// - Returns: A closure that cancels the task.
    @discardableResult
    public func task(_ name: String, _ body: @escaping @Sendable () async -> Void) -> @Sendable () -> Void {
        open.append("task \(name)")
        let task = Task.detached {
            await Scene.$taskName.withValue(name) { await body() }
            self.open.removeAll { $0 == "task \(name)" }
        }
        return { cancelUnbroken(task) }
    }

    /// Runs a closure once all threads are at rest; several run in order, after what the earlier ones started.
    ///
    /// - Parameter body: Checks what must hold.
    public func finally(_ body: @escaping @Sendable () -> Void) { endings.append(body) }

    /// Lets another thread continue here if the explorer decides so, for use in a `handle` or a handler.
    public func point(_ file: StaticString = #fileID, _ line: UInt = #line) {
        Explorer.shared.step(.point, nil, Place(file, line))
    }

    /// Fails the run unless a condition holds.
    ///
    /// - Parameters:
    ///   - isSo: The condition.
    ///   - message: What is wrong if it does not hold.
    ///   - file: The file of the call.
    ///   - line: The line of the call.
    public func expect(
        _ isSo: Bool, _ message: @autoclosure () -> String, file: StaticString = #fileID, line: UInt = #line
    ) {
        if !isSo { Explorer.shared.fail("\(message()) (\(Place(file, line).text))") }
    }
}

/// A value that the threads of a scenario share; only one of them runs at a time, so it needs no lock.
public final class Noted<Value>: @unchecked Sendable {
    /// The shared value.
    public var value: Value

    /// Creates a shared value.
    public init(_ value: Value) { self.value = value }
}

/// Makes threads wait until it is opened, for scenarios in which a thread is slow.
public final class Gate: Shared, @unchecked Sendable {
    private static let nobody = VirtualThread(0, "nobody", isTask: false) {}

    /// Creates a closed gate.
    public override init() {
        super.init()
        owner = Gate.nobody
    }

    /// A description for reports.
    public override var title: String { "Gate" }

    /// Whether the gate must be gone when a scenario is over; it need not, because it belongs to no object.
    public override var isCounted: Bool { false }

    /// Opens the gate permanently.
    public func open(_ file: StaticString = #fileID, _ line: UInt = #line) {
        Explorer.shared.step(.wake, self, Place(file, line))
        owner = nil
    }

    /// Makes the calling thread wait until the gate is open.
    public func pass(_ file: StaticString = #fileID, _ line: UInt = #line) {
        Explorer.shared.step(.lock, self, Place(file, line))
    }
}
