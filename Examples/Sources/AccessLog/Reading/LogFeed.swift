import FluxCore

/// Reads logs and fires their lines as events, and waits when the conversion falls behind.
public struct LogFeed: Sendable {
    private let creator: FluxActionCreator<AccessLogConverter>
    private let store: FluxStore<AccessSummary>
    private let notify: @Sendable (String) -> Void

    /// How long to wait before checking followed files for more.
    private let pause = Duration.milliseconds(200)

    /// Creates a feed.
    ///
    /// - Parameters:
    ///   - creator: The creator on which to fire the events.
    ///   - store: The store that its actions reach; the feed also waits for its subscriptions.
    ///   - notify: Called with one line of text when a followed file starts over, or its replacement cannot be read.
    public init(
        creator: FluxActionCreator<AccessLogConverter>,
        store: FluxStore<AccessSummary>,
        notify: @escaping @Sendable (String) -> Void = { _ in }
    ) {
        self.creator = creator
        self.store = store
        self.notify = notify
    }

    /// Reads files to their ends, one after the other; followed files until the task is cancelled.
    ///
    /// When it returns, all lines that were read are in the state of the store, and its subscriptions have been
    /// notified.
    ///
    /// - Parameter files: The files to read.
    /// - Returns: The error that stopped it, if a file could not be read to its end.
    public func read(_ files: [LogFile]) async -> LogFileError? {
        let failure: LogFileError?
        do throws(LogFileError) {
            try await readAll(files)
            failure = nil
        } catch {
            failure = error
        }
        await finish(files)
        return failure
    }

    private func readAll(_ files: [LogFile]) async throws(LogFileError) {
        var open = files
        while !Task.isCancelled {
            var (stillOpen, isNew): ([LogFile], Bool) = ([], false)
            for file in open {
                let reading = try await read(file)
                if reading.isNew { isNew = true }
                if !reading.isAtEnd { stillOpen.append(file) }
            }
            open = stillOpen
            guard let file = open.last else { return }
            if isNew {
                var progress = file.progress
                progress.isCaughtUp = true
                creator.fire(.checkpoint(progress))
            }
            try? await Task.sleep(for: pause)
        }
    }

    /// Reads everything that a file has at the moment.
    private func read(_ file: LogFile) async throws(LogFileError) -> (isNew: Bool, isAtEnd: Bool) {
        var isNew = false
        while !Task.isCancelled {
            switch try await file.read() {
            case .lines(let lines):
                await fire(lines, of: file)
                isNew = true
            case .restarted(let lines, let reason):
                await fire(lines, of: file)
                notify(reason)
            case .nothingYet: return (isNew, false)
            case .end: return (isNew, true)
            }
        }
        return (isNew, false)
    }

    /// Fires the lines of a chunk once those of the previous chunk have been converted and delivered.
    ///
    /// The next chunk is read while this one is converted, so at most two are in memory, however slow the conversion or
    /// a subscription is.
    private func fire(_ lines: [LogLine], of file: LogFile) async {
        await creator.flush()
        await store.flush()
        creator.fire(lines.map(AccessLogEvent.line) + [.checkpoint(file.progress)])
    }

    /// Fires the remaining lines, and waits for all of them in a task that is never cancelled.
    private func finish(_ files: [LogFile]) async {
        let lines = files.compactMap { $0.finish() }
        let (creator, store) = (creator, store)
        await Task {
            creator.fire(lines.map(AccessLogEvent.line))
            if let progress = files.last?.progress { creator.fire(.checkpoint(progress)) }
            await creator.flush()
            await store.flush()
        }.value
    }
}
