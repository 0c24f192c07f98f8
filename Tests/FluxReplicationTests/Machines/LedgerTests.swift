import Testing

@testable import FluxReplication

/// Which entries count.
@Suite struct LedgerTests {
    private func entry(
        _ number: UInt64, of writer: UInt64 = 1, floor: UInt64 = 1, base: UInt64 = 0, givenUp: [UInt64] = []
    ) -> FluxReplicaEnvelope {
        FluxReplicaEnvelope(writer: writer, number: number, floor: floor, base: base, givenUp: givenUp)
    }

    /// Whether each of some entries counts, at the positions 10, 20 and so on.
    private func counts(_ ledger: inout FluxReplicaLedger, _ entries: [FluxReplicaEnvelope]) -> [Bool] {
        entries.map { ledger.admit(ledger.position + 10, $0) }
    }

    @Test("A number counts once for each writer, in whatever order the numbers arrive")
    func once() {
        var ledger = FluxReplicaLedger()
        #expect(
            counts(&ledger, [entry(2), entry(1), entry(2), entry(2, of: 9), entry(1), entry(3)])
                == [true, true, false, true, false, true])
        #expect(ledger.position == 60 && ledger.count == 6)
    }

    @Test("A number below the floor of its writer does not count and is not kept")
    func floor() {
        var ledger = FluxReplicaLedger()
        #expect(
            counts(&ledger, [entry(1), entry(2), entry(5, floor: 4), entry(3), entry(4), entry(2)])
                == [true, true, true, false, true, false])
        #expect(ledger.writers[1]?.decided == [4, 5])
        // A late entry with an old floor does not lower the floor.
        #expect(counts(&ledger, [entry(6, floor: 1), entry(3)]) == [true, false])
    }

    @Test("A given-up number does not count after the entry that gives it up, but counts before it")
    func givenUp() {
        var ledger = FluxReplicaLedger()
        #expect(
            counts(&ledger, [entry(2), entry(5, floor: 1, givenUp: [2, 3]), entry(3), entry(4), entry(1)])
                == [true, true, false, true, true])
    }

    @Test("An entry that arrives too late does not count, so a writer that was silent for long can be forgotten")
    func window() {
        var ledger = FluxReplicaLedger(window: 4, spread: 100)
        #expect(counts(&ledger, [entry(1), entry(1, of: 2), entry(2, of: 2, base: 1)]) == [true, true, true])
        #expect(ledger.writers.count == 2)
        #expect(counts(&ledger, (3..<8).map { entry($0, of: 2, base: $0) }) == [true, true, true, true, true])
        #expect(ledger.writers.keys.sorted() == [2])
        // The same entry again, which is no longer remembered, and one that was created in time.
        #expect(counts(&ledger, [entry(1), entry(2, base: 6)]) == [false, true])
    }

    // All programs have to reach the same result here, because their snapshots are compared byte by byte.
    @Test("Writers and numbers are forgotten at exactly the same entry on all nodes")
    func boundaries() {
        var ledger = FluxReplicaLedger(window: 4, spread: 10)
        _ = counts(&ledger, [entry(1), entry(1, of: 2), entry(1, of: 3), entry(1, of: 4)])
        _ = counts(&ledger, (2..<5).map { entry($0, of: 2, base: $0 + 2) })
        #expect(ledger.writers.keys.sorted() == [1, 2, 3, 4])
        _ = counts(&ledger, [entry(5, of: 2, base: 7)])
        #expect(ledger.writers.keys.sorted() == [2, 4])

        var long = FluxReplicaLedger(window: 1_000, spread: 10)
        _ = counts(&long, (2...11).map { entry($0) })
        #expect(long.writers[1]?.floor == 1 && long.writers[1]?.decided == Array(2...11))
        _ = counts(&long, [entry(12)])
        #expect(long.writers[1]?.floor == 8 && long.writers[1]?.decided == Array(8...12))
        #expect(FluxReplicaLedger() == FluxReplicaLedger(window: 65_536, spread: 4_096))
    }

    @Test("A number at the floor may still arrive, and a number below it never does")
    func atTheFloor() {
        var ledger = FluxReplicaLedger()
        _ = counts(&ledger, [entry(5, floor: 4)])
        #expect(ledger.hasApplied(4, of: 1, base: 0) == false && ledger.hasApplied(3, of: 1, base: 0) == nil)
    }

    @Test("The memory for a writer is bounded: a number too far behind its others no longer counts")
    func spread() {
        var ledger = FluxReplicaLedger(window: 1_000, spread: 10)
        #expect(!counts(&ledger, (2...200).map { entry($0) }).contains(false))
        #expect(ledger.writers[1]!.decided.count <= 10)
        #expect(counts(&ledger, [entry(1)]) == [false])
        #expect(ledger.hasApplied(1, of: 1, base: 0) == nil)
        #expect(ledger.hasApplied(200, of: 1, base: 0) == true)
        #expect(ledger.hasApplied(201, of: 1, base: 0) == false && ledger.hasApplied(1, of: 7, base: 0) == false)
        // By now the entry could have been applied and forgotten.
        var brief = FluxReplicaLedger(window: 2, spread: 10)
        _ = counts(&brief, (1...3).map { entry($0) })
        #expect(brief.hasApplied(1, of: 7, base: 0) == nil && brief.hasApplied(1, of: 7, base: 1) == false)
    }
}
