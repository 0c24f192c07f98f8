import FluxCore

/// What the logs say, up to the last line that was converted.
///
/// A line changes the summary without announcing it: with a million lines, nobody wants to be told a million times, and
/// each state that waits to be delivered would make the next line copy the paths. A checkpoint announces, and carries
/// all that has changed since the one before.
public struct AccessSummary: FluxState {
    /// How many lines held a request.
    public private(set) var requests = 0
    /// How many lines could not be understood.
    public private(set) var malformed = 0
    /// The size of all responses in bytes, without their heads; `Int.max` if it is more.
    public private(set) var bytes = 0
    /// How many requests had a status of each class, from 1xx to 5xx; the first is for those that have none of these.
    public private(set) var statusClasses = Array(repeating: 0, count: 6)
    /// How many requests had no path.
    public private(set) var withoutPath = 0
    /// How often each path was asked for.
    public private(set) var paths: PathCounts
    /// The lines that could not be understood between the last two checkpoints: each is announced exactly once.
    public private(set) var rejected: [RejectedLine] = []
    /// How far the reader had come at the last checkpoint; nil before the first.
    public private(set) var progress: ReadingProgress?

    private var rejectedSinceCheckpoint: [RejectedLine] = []

    /// How many lines were read: each is a request or malformed.
    public var lines: Int { requests + malformed }

    /// Makes the summary of no line.
    ///
    /// - Parameter paths: Where the paths are counted; it also says how many are kept.
    public init(paths: PathCounts = PathCounts()) {
        self.paths = paths
    }

    /// Takes what a line says, unannounced, or announces what has come together.
    public mutating func handle(action: AccessLogAction) -> AccessSummary? {
        switch action {
        case .count(let entry):
            count(entry)
            return nil
        case .reject(let line):
            malformed += 1
            rejectedSinceCheckpoint.append(line)
            return nil
        case .announce(let progress):
            self.progress = progress
            rejected = rejectedSinceCheckpoint
            rejectedSinceCheckpoint = []
            return self
        }
    }

    private mutating func count(_ entry: AccessLogEntry) {
        requests += 1
        let (sum, isTooLarge) = bytes.addingReportingOverflow(entry.bytes)
        bytes = isTooLarge ? .max : sum
        let statusClass = entry.status / 100
        statusClasses[statusClass < statusClasses.count ? statusClass : 0] += 1
        if let path = entry.path { paths.add(path) } else { withoutPath += 1 }
    }
}
