import Foundation
import ProgramTesting
import Testing

@testable import board_load

/// The program that puts the servers under load: a small run, and that it would notice clients that disagree.
@Suite struct LoadTests {
    @Test("A hundred clients, two of which read nothing, agree on the boards of both servers", arguments: [1, 5])
    func load(boards: Int) async throws {
        let few = ["--clients", "100", "--silent", "2", "--rate", "50", "--seconds", "2", "--rounds", "1"]
        let load = try Command(program: Command.built("board-load"), few + ["--boards", "\(boards)"])
        let (status, output, errors) = await load.finish()
        #expect(status == 0 && errors == "", "\(errors)")
        #expect(output.contains("live-board") && output.contains("bare-board") && output.contains("ratio"))
    }

    @Test("A program that does not serve is reported")
    func wrongProgram() async throws {
        let load = try Command(program: Command.built("board-load"), ["/usr/bin/true"])
        let (status, _, errors) = await load.finish()
        #expect(status == 1 && errors.hasPrefix("board-load: true: it printed no address to connect to"), "\(errors)")
    }

    @Test("Too few clients are a usage error", arguments: ["0", "-1"])
    func tooFew(clients: String) async throws {
        let load = try Command(program: Command.built("board-load"), ["--clients=\(clients)"])
        let (status, _, errors) = await load.finish()
        #expect(status == 64 && errors.hasPrefix("Error: --clients must be from 1 to 9000."), "\(errors)")
    }

    @Test("Clients that agree cause no complaint")
    func agreement() {
        let ledger = Ledger(path: "/boards/b", commands: Commands(0))
        for _ in 0..<2 {
            see(ledger, state: 1, after: nil, title: "one")
            see(ledger, change: 2, title: "two")
            see(ledger, change: 3, title: "three")
            see(ledger, state: 3, after: 1, title: "three")
        }
        ledger.last = 3
        #expect(ledger.replay(Decoding())?.title == "three" && ledger.complaints == [])
    }

    @Test("Clients that receive different changes or states, or none, cause complaints")
    func disagreement() {
        let changes = Ledger(path: "/boards/b", commands: Commands(0))
        see(changes, change: 2, title: "two")
        see(changes, change: 2, title: "another")
        #expect(changes.complaints == ["/boards/b: revision 2 is not the same for all"])

        let states = Ledger(path: "/boards/b", commands: Commands(0))
        see(states, state: 2, after: nil, title: "two")
        see(states, state: 2, after: 1, title: "another")
        #expect(states.complaints == ["/boards/b: the state of revision 2 is not the same for all"])

        let unlike = Ledger(path: "/boards/b", commands: Commands(0))
        see(unlike, state: 1, after: nil, title: "one")
        see(unlike, change: 2, title: "two")
        see(unlike, state: 2, after: 1, title: "another")
        unlike.last = 3
        #expect(unlike.replay(Decoding()) == nil)
        #expect(
            unlike.complaints == [
                "/boards/b: the state of revision 2 differs from the result of the changes",
                "/boards/b: no client has seen revision 3",
            ])
    }

    @Test("A quantile is accurate to two percent", arguments: [1, 50, 999, 70_000, 3_000_000])
    func delays(milliseconds: Int) {
        var delays = Delays()
        for part in 1...100 { delays.note(UInt64(milliseconds * part) * 10_000) }
        for part in [0.5, 0.99, 1] {
            let expected = Double(milliseconds) * part
            #expect((expected * 0.98...expected * 1.02 + 0.002).contains(delays.quantile(part)))
        }
    }

    private func see(_ ledger: Ledger, change revision: Int, title: String) {
        let json = #"{"change":{"title":"\#(title)","type":"renamed"},"revision":\#(revision)}"#
        Array(json.utf8).withUnsafeBytes { ledger.saw(change: revision, $0, at: 0) }
    }

    private func see(_ ledger: Ledger, state revision: Int, after old: Int?, title: String) {
        let json = #"{"board":{"lists":[],"title":"\#(title)"},"revision":\#(revision)}"#
        Array(json.utf8).withUnsafeBytes { ledger.saw(state: revision, after: old, $0, at: 0) }
    }
}
