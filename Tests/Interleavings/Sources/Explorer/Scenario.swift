/// A few lines that say what some threads do at once, and what has to be so afterwards.
public struct Scenario: Sendable {
    /// What it is run by: the clause and a few words.
    public let name: String
    /// What users get.
    public let title: String
    let body: @Sendable (Scene) -> Void

    /// Makes a scenario.
    ///
    /// - Parameters:
    ///   - name: What it is run by.
    ///   - title: What users get, as a sentence.
    ///   - body: Makes what the threads use, and says what they do; called anew for each run.
    public init(_ name: String, _ title: String, _ body: @escaping @Sendable (Scene) -> Void) {
        (self.name, self.title, self.body) = (name, title, body)
    }
}

/// One run of a scenario, for the scenario to fill.
public final class Scene: @unchecked Sendable {
    @TaskLocal static var taskName: String?

    /// The tasks that have not ended.
    private var open: [String] = []
    private var endings: [() -> Void] = []

    var waiting: String? { open.first }

    /// Does the next of what comes last, and lets go of that; false: that was all.
    func end() -> Bool {
        if endings.isEmpty { return false }
        endings.removeFirst()()
        return true
    }

    /// Has a thread do something.
    ///
    /// - Parameters:
    ///   - name: What reports call it.
    ///   - body: What it does.
    public func thread(_ name: String, _ body: @escaping @Sendable () -> Void) {
        Explorer.shared.spawn(name, body)
    }

    /// Has a Swift task do something; if it never ends, the run has failed.
    ///
    /// - Parameters:
    ///   - name: What reports call it.
    ///   - body: What it does.
    /// - Returns: What cancels the task.
    @discardableResult
    public func task(_ name: String, _ body: @escaping @Sendable () async -> Void) -> @Sendable () -> Void {
        open.append("task \(name)")
        let task = Task.detached {
            await Scene.$taskName.withValue(name) { await body() }
            self.open.removeAll { $0 == "task \(name)" }
        }
        return { cancelUnbroken(task) }
    }

    /// Does something once all threads are at rest; more than one are done in order, and what each begins in between.
    ///
    /// - Parameter body: Looks whether all is as it has to be.
    public func finally(_ body: @escaping @Sendable () -> Void) { endings.append(body) }

    /// Lets another thread go on here, if the explorer likes: within a `handle`, or a handler.
    public func point(_ file: StaticString = #fileID, _ line: UInt = #line) {
        Explorer.shared.step(.point, nil, Place(file, line))
    }

    /// Fails the run unless something is so.
    ///
    /// - Parameters:
    ///   - isSo: What has to be so.
    ///   - message: What is wrong if it is not.
    ///   - file: Where it is asked for.
    ///   - line: Where it is asked for.
    public func expect(
        _ isSo: Bool, _ message: @autoclosure () -> String, file: StaticString = #fileID, line: UInt = #line
    ) {
        if !isSo { Explorer.shared.fail("\(message()) (\(Place(file, line).text))") }
    }
}

/// Something that the threads of a scenario share: only one of them runs at a time, so it needs no lock.
public final class Noted<Value>: @unchecked Sendable {
    /// What was noted.
    public var value: Value

    /// Makes it.
    public init(_ value: Value) { self.value = value }
}

/// Keeps threads waiting until it is opened: for a scenario in which somebody is slow.
public final class Gate: Shared, @unchecked Sendable {
    private static let nobody = VirtualThread(0, "nobody", isTask: false) {}

    /// Makes one that is closed.
    public override init() {
        super.init()
        owner = Gate.nobody
    }

    /// What it is, for people.
    public override var title: String { "Gate" }

    /// It belongs to no object.
    public override var isCounted: Bool { false }

    /// Opens it for good.
    public func open(_ file: StaticString = #fileID, _ line: UInt = #line) {
        Explorer.shared.step(.wake, self, Place(file, line))
        owner = nil
    }

    /// Makes the thread wait until it is open.
    public func pass(_ file: StaticString = #fileID, _ line: UInt = #line) {
        Explorer.shared.step(.lock, self, Place(file, line))
    }
}
