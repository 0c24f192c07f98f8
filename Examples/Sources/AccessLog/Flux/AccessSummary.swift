import FluxCore

/// The summary of the logs, up to the last line that was converted.
///
/// A line changes the summary without announcing the change. A million lines need not be announced a million times, and
/// each state that waits for delivery would make the next line copy the paths. A checkpoint announces everything that
/// has changed since the previous one.
public struct AccessSummary: FluxState {
    /// The number of lines that contained a request.
    public private(set) var requests = 0
    /// The number of lines that could not be understood.
    public private(set) var malformed = 0
    /// The size of all responses in bytes, without their heads; `Int.max` if it is more.
    public private(set) var bytes = 0
    /// The number of requests per class of status, from 1xx to 5xx; the first element counts all other statuses.
    public private(set) var statusClasses = Array(repeating: 0, count: 6)
    /// The number of requests without a path.
    public private(set) var withoutPath = 0
    /// How often each path was requested.
    public private(set) var paths: PathCounts
    /// The lines that could not be understood between the last two checkpoints: each is announced exactly once.
    public private(set) var rejected: [RejectedLine] = []
    /// How far the reader had got at the last checkpoint; nil before the first.
    public private(set) var progress: ReadingProgress?

    private var rejectedSinceCheckpoint: [RejectedLine] = []

    /// The number of lines that were read, each of them a request or malformed.
    public var lines: Int { requests + malformed }

    /// Creates an empty summary.
    ///
    /// - Parameter paths: The table that counts the paths, and limits how many are kept.
    public init(paths: PathCounts = PathCounts()) {
        self.paths = paths
    }

    /// Counts a line without announcing it, or announces everything since the last checkpoint.
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
