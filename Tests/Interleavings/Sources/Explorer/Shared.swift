/// Something that threads meet at: a lock, an atomic value, a queue.
///
/// It outlives what it belongs to until the end of the run, so that a step on what is gone is seen.
open class Shared: @unchecked Sendable {
    /// The thread that has it, if it is a lock that is taken.
    final var owner: VirtualThread?
    /// Where the owner took it.
    final var takenAt: Place?
    /// Whether the object that it is a part of is gone.
    final var isGone = false
    /// Its number in the run that it was made in.
    final let number: Int
    /// The threads that met here in the run that was last seen, one bit each.
    private final var visitors: UInt64 = 0
    private final var visitedRun = -1

    /// Makes one, known to the run under way.
    public init() {
        let explorer = Explorer.shared
        number = explorer.register()
        if explorer.isUnderWay { explorer.objects.append(self) }
    }

    /// What it is, for people.
    open var title: String { "object" }

    /// Whether it has to be gone when a scenario is over.
    open var isCounted: Bool { true }

    /// What it is belongs to an object that is gone from here on.
    public final func end() { isGone = true }

    final func visit(_ thread: VirtualThread) {
        if visitedRun != Explorer.shared.runNumber { (visitedRun, visitors) = (Explorer.shared.runNumber, 0) }
        visitors |= 1 << UInt64(truncatingIfNeeded: thread.number & 63)
    }

    /// Whether several threads met here: elsewhere it makes no difference who goes first.
    final var isContended: Bool { visitors.nonzeroBitCount > 1 }

    final var name: String { "\(title) #\(number)" }
}

/// A line of the sources.
public struct Place: Sendable {
    let file: StaticString
    let line: UInt

    /// Makes a place of `#fileID` and `#line`.
    public init(_ file: StaticString, _ line: UInt) { (self.file, self.line) = (file, line) }

    var text: String {
        if line == 0 { return "\(file)" }
        let path = "\(file)"
        return "\(path[(path.lastIndex(of: "/").map(path.index(after:)) ?? path.startIndex)...]):\(line)"
    }
}

/// What a thread is about to do.
public enum Operation: String, Sendable {
    /// Takes a lock.
    case lock
    /// Gives a lock back.
    case unlock
    /// Reads an atomic value.
    case load
    /// Writes an atomic value.
    case store
    /// Reads and writes an atomic value.
    case exchange
    /// Puts work on a queue.
    case hop
    /// Makes a Swift task able to go on.
    case wake
    /// A place that a scenario or a mutant names.
    case point
}

/// A step of a run.
struct Step {
    let thread: VirtualThread
    let operation: Operation
    let object: Shared?
    let place: Place
}
