import FluxCore

/// What happens while logs are read.
public enum AccessLogEvent: FluxEvent {
    /// A line was found.
    case line(LogLine)
    /// The lines so far are a good moment to look at the summary.
    case checkpoint(ReadingProgress)
}

/// What the summary learns.
public enum AccessLogAction: FluxAction {
    /// A line held a request.
    case count(AccessLogEntry)
    /// A line could not be understood.
    case reject(RejectedLine)
    /// Everything before is to be announced.
    case announce(ReadingProgress)
}

/// Parses lines, on the queue of the creator: the reader is at the next lines meanwhile.
public enum AccessLogConverter: FluxActionConverter {
    /// Makes one action of each event, so that no line gets lost.
    public static func convert(
        event: AccessLogEvent,
        dependency: Void,
        actionHandler: @escaping @Sendable (AccessLogAction) -> Void
    ) {
        switch event {
        case .line(let line): actionHandler(action(for: line))
        case .checkpoint(let progress): actionHandler(.announce(progress))
        }
    }

    private static func action(for line: LogLine) -> AccessLogAction {
        do throws(AccessLogFlaw) {
            if line.isTooLong { throw .tooLong }
            return .count(try AccessLogParser.parse(line.bytes))
        } catch {
            return .reject(RejectedLine(file: line.file, number: line.number, flaw: error))
        }
    }
}
