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

/// What the user sees: summaries on standard output, everything else on standard error.
///
/// Called by the subscription, the feed and the command, hence the lock.
final class Console: Sendable {
    private struct Status {
        var reportsLeft: Int
        var reportsWithheld = 0
        var isProgressShown = false
        /// How many lines up the last summary begins, while nothing was written below it.
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

    /// Shows what came with a checkpoint: malformed lines, and either the progress or, at the end of what there is, the
    /// summary so far.
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

    // MARK: - Under the lock

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

    /// On a terminal a followed summary takes the place of the one before, unless a message stands between the two.
    private func print(_ summary: AccessSummary, _ status: inout Status) {
        if isJSON {
            // Nothing in the report can fail to be encoded.
            return put((try? JSONReport(summary, limit: pathLimit).line() + "\n") ?? "")
        }
        let lines = TextReport(summary, limit: pathLimit).lines + (isFollowing ? [""] : [])
        let replacement = status.linesToReplace > 0 ? "\u{1B}[\(status.linesToReplace)A\u{1B}[J" : ""
        put(replacement + lines.joined(separator: "\n") + "\n")
        status.linesToReplace = isFollowing && output.isTerminal ? lines.count : 0
    }

    /// Writes a summary; where that fails there is nothing left to do.
    private func put(_ text: String) {
        do {
            try output.write(text)
        } catch {
            tell("access-watch: \(error)\n")
            exit(1)
        }
    }

    /// Writes to standard error: there is nobody to tell where that fails.
    private func tell(_ text: String) {
        try? errors.write(text)
    }
}
