import Foundation
import Terminal
import Testing

/// How the signals of a terminal end a program of the examples.
struct InterruptTests {
    @Test(arguments: ["INT", "TERM"])
    func `A second signal ends the program, even one of another kind`(_ second: String) async {
        await #expect(processExitsWith: .signal(second == "INT" ? SIGINT : SIGTERM)) { [second] in
            let (begun, beginning) = AsyncStream.makeStream(of: Void.self)
            let interrupt = Interrupt { beginning.finish() }
            try InterruptTests.send("INT")
            for await _ in begun {}
            try InterruptTests.send(second)
            try await Task.sleep(for: .seconds(60))
            withExtendedLifetime(interrupt) {}
        }
    }

    @Test func `A signal ends the program once signals are no longer handled`() async {
        await #expect(processExitsWith: .signal(SIGTERM)) {
            let interrupt = Interrupt { exit(1) }
            interrupt.stop()
            // To stop takes Dispatch a moment; until then a signal does nothing.
            for _ in 0..<500 { try InterruptTests.send("TERM") }
        }
    }

    /// Sends a signal from another process, as a terminal does: the sending thread of this one may have it blocked.
    private static func send(_ signal: String) throws {
        try Process.run(URL(filePath: "/bin/kill"), arguments: ["-\(signal)", "\(getpid())"]).waitUntilExit()
    }
}
