import Testing

@testable import JetStreamLog
@testable import cluster_demo

@Suite struct ServerCopiesTests {
    @Test("The demo reports a server that has a different message, or lacks an acknowledged one")
    func differences() {
        let right: [UInt64: String] = [1: "one", 2: "two", 4: "four"]
        let same = ServerCopies(["s0": right, "s1": right, "s2": right])
        #expect(same.differences == [])
        #expect(same.lacking([1: "one", 4: "four"]) == [])

        let other = ServerCopies(["s0": right, "s1": [1: "one", 2: "other"], "s2": right])
        let places = "differ at 2 positions: [2, 4]: the engine has lost acknowledged messages"
        #expect(other.differences == ["the servers s0 and s1 \(places)", "the servers s1 and s2 \(places)"])
        #expect(
            other.lacking(right) == ["s1 does not have 2 of 3 acknowledged messages: [2, 4]"])
    }

    @Test("The demo warns of servers older than the verified versions, and of no others")
    func versions() {
        for old in ["2.9.10", "2.9.25", "2.10.9", "2.10.26"] { #expect(ServerVersion(old).warning != nil, "\(old)") }
        for new in ["2.10.27", "2.10.100", "2.11.0", "2.15.1", "3.0.0"] {
            #expect(ServerVersion(new).warning == nil, "\(new)")
        }
    }

    @Test("A server that lacks the newest entries is not relied on when earlier ones are removed")
    func staleServer() {
        let all: [(UInt64, UInt64)] = [(400, 10), (800, 20), (1_200, 30)]
        #expect(JetStreamKeyLog.newest(all, upTo: 30) == 1_200)
        // Another node has stored a higher position at an earlier place.
        #expect(JetStreamKeyLog.newest([(400, 10), (1_600, 20), (1_200, 30)], upTo: 30) == 1_600)
        // What is stored after the place does not matter.
        #expect(JetStreamKeyLog.newest(all, upTo: 20) == 800)
        // The server has not reached place 30, so it may lack what is at 20.
        #expect(JetStreamKeyLog.newest([(400, 10)], upTo: 30) == nil)
    }
}
