import ArgumentParser
import Foundation

/// Runs everything at once for any length of time, checks the contract throughout, and checks whether anything grows.
@main
struct SoakCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "soak",
        abstract: "Runs everything at once, checks the contract all along, and looks whether anything grows.",
        discussion: """
            Stores, subscriptions of every kind, views, rules, cancels, commands, files and a family, in rounds that take \
            turns with a moment of rest. In that memory, threads and descriptors are counted. The first third of the time \
            is for warming up; what is higher in the median of the last third than in that of the middle one, by more \
            than the table allows, has grown. Runs of less than ten minutes check the contract alone.

            The exit status is 1 where a promise is broken, where something has grown, and where nothing goes on any more.
            """
    )

    @Argument(help: "How long, in minutes; parts of one will do.")
    var minutes: Double

    @Option(
        help: "How long each activity rests after a round, in milliseconds: the less, the more of the machine it takes."
    )
    var rest = 5

    @Option(parsing: .upToNextOption, help: "What is to go on; by default everything.")
    var only = ActivityName.allCases

    @Option(help: "The SVG to draw what was counted into.", completion: .file(extensions: ["svg"]))
    var plot: String?

    func validate() throws {
        if !(minutes > 0 && minutes <= 10_080) {
            throw ValidationError("It takes more than 0 and at most 10080 minutes.")
        }
        if !(0...10_000).contains(rest) { throw ValidationError("A rest takes 0 to 10000 milliseconds.") }
    }

    func run() async throws {
        Self.countExactly()
        let soak = try Soak(length: .seconds(minutes * 60), rest: .milliseconds(rest), only: only)
        let samples = try await Self.telling { try await soak.run(telling: Self.say) }
        let report = Report(samples: samples, rounds: soak.rounds)
        print("\n" + report.text)
        if let plot { try Data(Plot(report).svg.utf8).write(to: URL(fileURLWithPath: plot)) }
        if report.isTooShort { return print("Too short to tell whether anything grows: that takes ten minutes.") }
        let grown = report.findings.filter(\.isGrown)
        if grown.isEmpty { return print("Nothing has grown.") }
        print("error: grown: " + grown.map(\.meter.name).joined(separator: ", "))
        throw ExitCode(1)
    }

    /// Restarts the program without glibc's caches for each thread, whose contents would count as allocated.
    private static func countExactly() {
        #if canImport(Glibc)
            if getenv("GLIBC_TUNABLES") != nil { return }
            setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1)
            execv("/proc/self/exe", CommandLine.unsafeArgv)
        #endif
    }

    /// Prints a line immediately, even if the output is a file.
    private static func say(_ line: String) {
        print(line)
        fflush(nil)
    }

    /// Reports a broken promise as one line, with status 1.
    private static func telling<Value>(_ body: () async throws -> Value) async throws -> Value {
        do { return try await body() } catch let broken as BrokenPromise {
            print("error: \(broken)")
            throw ExitCode(1)
        }
    }
}
