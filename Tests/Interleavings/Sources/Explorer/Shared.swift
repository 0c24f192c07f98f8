/// An object that several threads may use: a lock, an atomic value, a queue.
///
/// It outlives the object that it belongs to until the end of the run, so a step on a released object is detected.
open class Shared: @unchecked Sendable {
    /// The thread that holds it, if it is a lock that is taken.
    ///
    /// A static lock that was taken when a run failed is free in the next run.
    final var owner: VirtualThread?
    /// Where the owner took it.
    final var takenAt: Place?
    /// Whether the object that it belongs to has been released.
    final var isGone = false
    /// Its number in the run that created it.
    final let number: Int
    /// The threads that used it in the last run in which it was used, one bit each.
    private final var visitors: UInt64 = 0
    private final var visitedRun: Int

    /// Creates an object and adds it to the current run, if there is one.
    public init() {
        let explorer = Explorer.shared
        (number, visitedRun) = (explorer.register(), explorer.runNumber)
        if explorer.isUnderWay { explorer.objects.append(self) }
    }

    /// A description for reports.
    open var title: String { "object" }

    /// Whether it must be gone when a scenario is over.
    open var isCounted: Bool { true }

    /// Notes that the object that it belongs to has been released.
    public final func end() { isGone = true }

    final func visit(_ thread: VirtualThread) {
        let run = Explorer.shared.runNumber
        if visitedRun != run { (visitedRun, visitors, owner) = (run, 0, nil) }
        visitors |= 1 << UInt64(truncatingIfNeeded: thread.number & 63)
    }

    /// Whether several threads used it; otherwise the order of their steps makes no difference.
    final var isContended: Bool { visitors.nonzeroBitCount > 1 }

    final var name: String { "\(title) #\(number)" }
}

/// A line in the sources.
public struct Place: Sendable {
    let file: StaticString
    let line: UInt

    /// Creates a place from `#fileID` and `#line`.
    public init(_ file: StaticString, _ line: UInt) { (self.file, self.line) = (file, line) }

    var text: String {
        if line == 0 { return "\(file)" }
        let path = "\(file)"
        return "\(path[(path.lastIndex(of: "/").map(path.index(after:)) ?? path.startIndex)...]):\(line)"
    }
}

/// The kind of step that a thread is about to take.
public enum Operation: String, Sendable {
    /// Takes a lock.
    case lock
    /// Releases a lock.
    case unlock
    /// Reads an atomic value.
    case load
    /// Writes an atomic value.
    case store
    /// Reads and writes an atomic value.
    case exchange
    /// Puts work on a queue.
    case hop
    /// Makes a Swift task able to continue.
    case wake
    /// A point that a scenario or a mutant names.
    case point
}

/// One step of a run.
struct Step {
    let thread: VirtualThread
    let operation: Operation
    let object: Shared?
    let place: Place
}
