import ArgumentParser
import Terminal

/// An error for the user, as one line.
struct Failure: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}

/// Runs a body; an error becomes one line on standard error, and exit status 1.
func reporting(_ body: () async throws -> Void) async throws {
    Output.endWithClosedPipes()
    do {
        try await body()
    } catch {
        try? Output.errors.write("auction-house: \(error)\n")
        throw ExitCode(1)
    }
}
