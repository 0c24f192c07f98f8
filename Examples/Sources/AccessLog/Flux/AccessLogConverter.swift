import FluxCore

/// An event that occurs while logs are read.
public enum AccessLogEvent: FluxEvent {
    /// A line was found.
    case line(LogLine)
    /// It is time to announce the summary of the lines so far.
    case checkpoint(ReadingProgress)
}

/// An action that changes or announces the summary.
public enum AccessLogAction: FluxAction {
    /// A line contained a request.
    case count(AccessLogEntry)
    /// A line could not be understood.
    case reject(RejectedLine)
    /// Everything before this action is to be announced.
    case announce(ReadingProgress)
}

/// Parses lines on the creator's queue while the reader reads the next ones.
public enum AccessLogConverter: FluxActionConverter {
    /// Turns each event into one action, so no line is lost.
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
