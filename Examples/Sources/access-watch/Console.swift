import AccessLog
import Synchronization
import Terminal

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Prints summaries to standard output, and everything else to standard error.
///
/// The subscription, the feed and the command call it, so it has a lock.
final class Console: Sendable {
    private struct Status {
        var reportsLeft: Int
        var reportsWithheld = 0
        var isProgressShown = false
        /// How many lines up the last summary begins; 0 if anything was written below it.
        var linesToReplace = 0
        var lastProgress = ContinuousClock.now
    }

    private let isJSON: Bool
    private let isFollowing: Bool
    private let pathLimit: Int
    private let output = Output.standard
    private let errors = Output.errors
    private let status: Mutex<Status>

    init(isJSON: Bool, isFollowing: Bool, pathLimit: Int, reportLimit: Int) {
        self.isJSON = isJSON
        self.isFollowing = isFollowing
        self.pathLimit = pathLimit
        status = Mutex(Status(reportsLeft: reportLimit))
    }

    // MARK: - While reading

    /// Shows the malformed lines of a checkpoint, and the progress or, once everything available is read, the summary.
    func show(_ summary: AccessSummary) {
        status.withLock { status in
            report(summary.rejected, &status)
            guard let progress = summary.progress else { return }
            if !progress.isCaughtUp { return show(progress, lines: summary.lines, &status) }
            hideProgress(&status)
            if isFollowing { print(summary, &status) }
        }
    }

    func note(_ text: String) {
        status.withLock { status in
            hideProgress(&status)
            status.linesToReplace = 0
            tell("access-watch: \(text.harmless)\n")
        }
    }

    // MARK: - At the end

    func finish(_ summary: AccessSummary) {
        status.withLock { status in
            hideProgress(&status)
            print(summary, &status)
            if status.reportsWithheld > 0 {
                tell("access-watch: \(status.reportsWithheld) more malformed lines\n")
            }
        }
    }

    func fail(_ error: LogFileError) {
        note(error.description)
    }

    // MARK: - While the lock is held

    private func report(_ lines: [RejectedLine], _ status: inout Status) {
        let shown = lines.prefix(status.reportsLeft)
        status.reportsLeft -= shown.count
        status.reportsWithheld += lines.count - shown.count
        if shown.isEmpty { return }
        hideProgress(&status)
        status.linesToReplace = 0
        tell(shown.map { "\($0.file):\($0.number): \($0.flaw)".harmless + "\n" }.joined())
    }

    private func show(_ progress: ReadingProgress, lines: Int, _ status: inout Status) {
        let now = ContinuousClock.now
        guard errors.isTerminal, now - status.lastProgress > .milliseconds(100) else { return }
        status.lastProgress = now
        status.isProgressShown = true
        let share = progress.size.map { $0 > 0 ? "  \(progress.bytesRead * 100 / $0)%" : "" } ?? ""
        tell("\r\u{1B}[K\(progress.file.harmless)\(share)  \(lines) lines")
    }

    private func hideProgress(_ status: inout Status) {
        if status.isProgressShown { tell("\r\u{1B}[K") }
        status.isProgressShown = false
    }

    /// Prints a summary; on a terminal, a followed one replaces the previous one unless a message is between them.
    private func print(_ summary: AccessSummary, _ status: inout Status) {
        if isJSON {
            // Every value in the report can be encoded.
            return put((try? JSONReport(summary, limit: pathLimit).line() + "\n") ?? "")
        }
        let lines = TextReport(summary, limit: pathLimit).lines + (isFollowing ? [""] : [])
        let replacement = status.linesToReplace > 0 ? "\u{1B}[\(status.linesToReplace)A\u{1B}[J" : ""
        put(replacement + lines.joined(separator: "\n") + "\n")
        status.linesToReplace = isFollowing && output.isTerminal ? lines.count : 0
    }

    /// Writes a summary; if that fails, reports the error and ends the program.
    private func put(_ text: String) {
        do {
            try output.write(text)
        } catch {
            tell("access-watch: \(error)\n")
            exit(1)
        }
    }

    /// Writes to standard error; a failure is ignored, because it cannot be reported.
    private func tell(_ text: String) {
        try? errors.write(text)
    }
}
