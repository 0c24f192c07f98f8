import Testing

@testable import FluxCore

/// The word that a task begins, dispatches and ends by, cell by cell of its table.
@Suite struct FluxGateTests {
    @Test func `Open: each input is taken, and tells what was before`() {
        let gate = FluxGate()
        #expect(!gate.start().isStarted)
        #expect(gate.word.isStarted)
        #expect(!gate.enter().isClosed)
        #expect(!gate.enter().isClosed)
        #expect(gate.word.dispatches == 2)
        _ = gate.leave()
        #expect((gate.word.dispatches, gate.word.sent) == (1, 1))
        _ = gate.count()
        #expect((gate.word.dispatches, gate.word.sent) == (1, 2))
        #expect(!gate.watch().isWatched)
        #expect(!gate.supervise().isSupervised)
        #expect(gate.word.end == nil)
        let before = gate.close(.cancelled)
        #expect(!before.isClosed && before.isWatched && before.isSupervised, "whoever closes it knows whom to tell")
        #expect(gate.word.end == .cancelled)
    }

    @Test func `Closed: nothing starts, enters or closes again; what is under way may leave`() {
        let gate = FluxGate()
        _ = gate.enter()
        _ = gate.close(.completed)
        #expect(gate.start().isClosed)
        #expect(!gate.word.isStarted)
        #expect(gate.enter().isClosed)
        #expect(gate.word.dispatches == 1, "the refused one has gone again")
        #expect(gate.close(.failed).isClosed)
        #expect(gate.word.end == .completed)
        #expect(gate.watch().isClosed, "nobody will tell")
        #expect(gate.supervise().isClosed)
        _ = gate.leave()
        #expect((gate.word.dispatches, gate.word.sent) == (0, 1))
    }

    @Test func `Claimed: it is open to who looks, and only who has claimed it closes it`() {
        let gate = FluxGate()
        _ = gate.start()
        #expect(!gate.claim(entering: false).isTaken)
        #expect(gate.word.isTaken && !gate.word.isClosed && gate.word.end == nil)
        #expect(gate.claim(entering: false).isTaken)
        #expect(gate.close(.cancelled).isTaken)
        #expect(gate.enter().isTaken)
        #expect(gate.word.dispatches == 0, "the refused one has gone again")
        #expect(!gate.watch().isClosed, "who closes it will tell")
        #expect(!gate.supervise().isClosed)
        let before = gate.closeClaimed(.failed)
        #expect(!before.isTaken && before.isWatched && before.isSupervised)
        #expect(gate.word.end == .failed)
    }

    @Test func `Claimed with a dispatch: that is under way, and ends with it in one step`() {
        let gate = FluxGate()
        _ = gate.enter()
        #expect(!gate.claim(entering: true).isTaken)
        #expect((gate.word.dispatches, gate.word.sent) == (2, 0))
        #expect(gate.claim(entering: true).isTaken)
        #expect(gate.word.dispatches == 2, "the refused one does not count")
        _ = gate.watch()
        #expect(gate.closeClaimedLeaving(.completed).isWatched)
        #expect((gate.word.dispatches, gate.word.sent) == (1, 1))
        #expect(gate.word.end == .completed)
        #expect(gate.closeClaimed(.failed).isClosed, "who comes by later learns that it is closed")
    }

    @Test(arguments: [(false, FluxGate.End.completed), (true, .failed), (false, .cancelled), (true, .dropped)])
    func `The end is kept, whatever else the word says`(isSupervised: Bool, end: FluxGate.End) {
        let gate = FluxGate(isSupervised: isSupervised)
        #expect(gate.word.isSupervised == isSupervised)
        for _ in 0..<1_000 {
            _ = gate.enter()
            _ = gate.leave()
        }
        _ = gate.close(end)
        #expect(gate.word.end == end)
        #expect(gate.word.sent == 1_000)
    }

    @Test(.stress) func `Stress: of many that close one gate exactly one does`() async {
        for _ in 0..<2_000 {
            let gate = Shared()
            let winners = Locked(0)
            await onThreads(2) { _ in
                if !gate.gate.close(.cancelled).isClosed { winners.withLock { $0 += 1 } }
            }
            #expect(winners.current == 1)
        }
    }

    final class Shared: Sendable {
        let gate = FluxGate()
    }
}
