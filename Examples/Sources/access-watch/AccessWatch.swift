import AccessLog
import ArgumentParser
import FluxCore
import Terminal

@main
struct AccessWatch: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "access-watch",
        abstract: "Summarises the access logs of web servers, live with --follow.",
        discussion: """
            Reads Common and Combined Log Format, as Apache httpd and nginx write them. Every line counts as a request \
            or as malformed. Each malformed line is reported on standard error with its number and the reason.

            The exit status is 0, even if lines are malformed; 1 if the summary cannot be written; 2 if a file cannot \
            be read, or the port of --inspect cannot be used; and 64 for invalid arguments.
            """
    )

    @Argument(help: "The logs to read; - is standard input, which is also read if no log is named.")
    var files: [String] = []

    @Flag(help: "Keep reading at the end, even if a file is rotated or truncated, until SIGINT, SIGTERM or SIGHUP.")
    var follow = false

    @Flag(help: "Print the summary as one line of JSON, for programs.")
    var json = false

    @Option(help: "How many of the busiest paths to list.")
    var paths = 10

    @Option(help: "The maximum number of malformed lines to report. (default: all)")
    var reports: Int?

    @Option(help: "Serve the inspector at /inspect on this port of 127.0.0.1; 0 for any free port.")
    var inspect: Int?

    func validate() throws {
        if paths < 0 { throw ValidationError("--paths must not be negative.") }
        if let reports, reports < 0 { throw ValidationError("--reports must not be negative.") }
        if let inspect, UInt16(exactly: inspect) == nil {
            throw ValidationError("--inspect must be a port, from 0 to 65535.")
        }
    }

    func run() async throws {
        Output.endWithClosedPipes()
        let console = Console(isJSON: json, isFollowing: follow, pathLimit: paths, reportLimit: reports ?? .max)
        let inspection = try await inspection(console)
        defer { inspection?.stop() }
        do throws(LogFileError) {
            var logs: [LogFile] = []
            // All files are opened before the first is read, so a mistyped name is reported at once.
            for path in files.isEmpty ? ["-"] : files { logs.append(try LogFile(path: path, isFollowed: follow)) }
            try await watch(logs, inspection, console)
        } catch {
            console.fail(error)
            throw ExitCode(2)
        }
    }

    /// Returns the inspection once it listens; nil: none was requested.
    private func inspection(_ console: Console) async throws -> Inspection? {
        guard let inspect else { return nil }
        do {
            let inspection = try await Inspection(port: inspect)
            console.note("inspector: \(inspection.address)")
            return inspection
        } catch {
            console.note("--inspect \(inspect): \(error)")
            throw ExitCode(2)
        }
    }

    /// Puts event, action, state and subscription together: this is all that FluxCore needs.
    private func watch(
        _ files: [LogFile], _ inspection: Inspection?, _ console: Console
    ) async throws(LogFileError) {
        let store = FluxStore(initialState: AccessSummary(), dispatcher: nil)
        inspection?.show(store)
        let creator = FluxActionCreator<AccessLogConverter>(store: store)
        let subscription = store.subscribe { summary in console.show(summary) }
        let feed = LogFeed(creator: creator, store: store) { note in console.note(note) }

        let reading = Task { await feed.read(files) }
        let interrupt = follow ? Interrupt { reading.cancel() } : nil
        let failure = await reading.value
        interrupt?.stop()

        subscription.unsubscribe()
        console.finish(store.state)
        if let failure { throw failure }
    }
}
