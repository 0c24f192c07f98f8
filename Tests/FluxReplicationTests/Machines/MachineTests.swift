import FluxCore
import TestSupport
import Testing

@testable import FluxReplication

/// The table of the machine, row by row.
@Suite struct MachineTests {
    /// A machine that has started on an empty log.
    let machine = Box(MachineTests.machine())

    static func machine(writer: UInt64 = 1, checkEvery: Int = 3, snapshotEvery: Int = 4) -> FluxReplicaMachine {
        var machine = FluxReplicaMachine(
            writer: writer, version: 1, checkEvery: checkEvery, snapshotEvery: snapshotEvery)
        _ = machine.loaded(FluxReplicaLedger())
        return machine
    }

    /// An entry of another writer.
    func other(
        _ number: UInt64, floor: UInt64 = 1, check: FluxReplicaCheck? = nil, acts: Bool = true
    ) -> FluxReplicaEnvelope {
        var envelope = FluxReplicaEnvelope(writer: 2, number: number, floor: floor, base: 0)
        envelope.check = check
        if acts { envelope.action = FluxReplicaContent(version: 1, bytes: []) }
        return envelope
    }

    /// Dispatches, and returns the entry for the log.
    func dispatched() throws -> FluxReplicaEnvelope {
        var envelope = try machine.it.dispatch().get().envelope
        envelope.action = FluxReplicaContent(version: 1, bytes: [])
        return envelope
    }

    /// Runs a body that has effects, and returns them; if the status changes, the effects have to say so.
    @discardableResult func effects(
        _ body: (inout FluxReplicaMachine, inout FluxReplicaEffects) -> Void
    ) -> FluxReplicaEffects {
        var effects = FluxReplicaEffects()
        let before = machine.it.status
        body(&machine.it, &effects)
        #expect(effects.tellsStatus || machine.it.status == before)
        return effects
    }

    /// Runs a body that returns a step, and returns that; its effects have to say so too.
    private func step(_ body: (inout FluxReplicaMachine) -> FluxReplicaStep?) -> FluxReplicaStep? {
        var step: FluxReplicaStep?
        effects {
            step = body(&$0)
            $1 = step?.effects ?? $1
        }
        return step
    }

    @discardableResult func receive(_ position: UInt64, _ envelope: FluxReplicaEnvelope) throws -> FluxReplicaStep {
        try #require(step { $0.receive(position, envelope) })
    }

    /// Reports an answer of the log; returns whether the log is called again, and the effects.
    @discardableResult func answered(
        _ id: UInt64, _ answer: Result<UInt64, FluxSharedLogError>
    ) -> (again: Bool, effects: FluxReplicaEffects) {
        var again = false
        let effects = effects { again = $0.answered(id, answer, &$1) }
        return (again, effects)
    }

    func probed(_ answer: Result<UInt64, FluxSharedLogError>) -> Bool {
        var isOver = false
        effects { isOver = $0.probed(answer, &$1) }
        return isOver
    }

    /// Whether a snapshot may be saved, and whether that changes the status.
    func beginsSaving() -> (Bool, tellsStatus: Bool) {
        var begins = false
        let effects = effects { begins = $0.beginSaving(&$1) }
        return (begins, effects.tellsStatus)
    }

    @discardableResult func loaded(_ ledger: FluxReplicaLedger) -> FluxReplicaStep? {
        step { $0.loaded(ledger) }
    }

    func readingIsTrimmed(through position: UInt64) {
        machine.it.readingBegins()
        effects { $0.readingEnded(FluxSharedLogError.trimmed(through: position), &$1) }
    }

    // MARK: - Dispatching

    @Test func `A dispatch returns its position when its entry is read, not when the log answers`() throws {
        let envelope = try dispatched()
        let answer = answered(1, .success(20))
        #expect(!answer.again && answer.effects.opens.isEmpty)
        #expect(machine.it.answer(of: 1) == nil && machine.it.lag == 20)
        let step = try receive(20, envelope)
        #expect(step.applies && step.effects.opens.count == 1 && machine.it.lag == 0)
        #expect(machine.it.finish(1) == .success(20))
        // A second copy changes nothing.
        #expect(try !receive(30, envelope).applies)
    }

    @Test func `A call is retried if the log is unavailable, but not if the log refuses it`() throws {
        _ = try (dispatched(), dispatched())
        #expect(answered(1, .failure(.unavailable("a"))).again)
        #expect(!answered(1, .failure(.refused("b"))).again)
        #expect(!answered(2, .failure(.refused("b"))).again)
        // The first attempt may have reached the log.
        #expect(machine.it.finish(1) == .failure(.unconfirmed("the log refused the call: b")))
        #expect(machine.it.finish(2) == .failure(.notApplied("the log refused the call: b")))
        // The log is not called again for a caller that has left.
        #expect(!answered(1, .failure(.unavailable("a"))).again)
    }

    @Test func `A dispatch that times out or is cancelled ends as unconfirmed`() throws {
        _ = try (dispatched(), dispatched())
        answered(1, .failure(.unavailable("no leader")))
        #expect(effects { $0.expired(1, .seconds(3), &$1) }.opens.count == 1)
        #expect(
            machine.it.finish(1)
                == .failure(.unconfirmed("no answer within 3.0 seconds; the log failed: no leader")))
        #expect(machine.it.finish(2) == .failure(.unconfirmed("the task was cancelled")))
    }

    @Test func `An entry carries the lowest number that is still awaited and the given-up numbers above it`() throws {
        let (first, second) = (try dispatched(), try dispatched())
        #expect((first.floor, second.floor) == (1, 1))
        _ = machine.it.finish(2)
        let third = try dispatched()
        #expect(third.floor == 1 && third.givenUp == [2])
        try receive(10, first)
        _ = machine.it.finish(1)
        let fourth = try dispatched()
        #expect(fourth.floor == 3 && fourth.givenUp.isEmpty)
        // An entry that the log has refused never arrives, so it need not be given up.
        answered(try dispatched().number, .failure(.refused("too large")))
        _ = machine.it.finish(5)
        #expect(try dispatched().givenUp.isEmpty)
    }

    @Test func `A dispatch is refused if too many were given up behind one that still waits`() throws {
        _ = try dispatched()
        for number in UInt64(2)...1_001 {
            _ = try dispatched()
            _ = machine.it.finish(number)
        }
        guard case .failure(.notApplied) = machine.it.dispatch() else { throw Unexpected(it: "it was taken") }
        _ = machine.it.finish(1)
    }

    @Test func `A dispatch whose entry arrives too late ends as not applied`() throws {
        machine.it = FluxReplicaMachine(writer: 1, version: 1, checkEvery: 100, snapshotEvery: 100)
        _ = machine.it.loaded(FluxReplicaLedger(window: 2, spread: 10))
        let envelope = try dispatched()
        for number in UInt64(1)...2 { try receive(number, other(number)) }
        #expect(try receive(3, envelope).effects.opens.count == 1)
        #expect(machine.it.finish(1) == .failure(.notApplied("it came too late")))
    }

    // MARK: - Reading

    @Test func `A read waits until all entries up to the end of the log are applied`() throws {
        _ = try machine.it.read().get()
        try receive(10, other(1))
        #expect(answered(1, .success(20)).effects.opens.isEmpty)
        #expect(try receive(15, other(2)).effects.opens.isEmpty)
        #expect(try receive(25, other(3)).effects.opens.count == 1)
        #expect(machine.it.finish(1) == .success(25))

        _ = try machine.it.read().get()
        #expect(answered(2, .success(20)).effects.opens.count == 1)
        #expect(machine.it.finish(2) == .success(25))
    }

    @Test func `A read waits for a snapshot that is needed`() throws {
        readingIsTrimmed(through: 5)
        _ = try machine.it.read().get()
        #expect(!answered(1, .success(0)).again)
        #expect(machine.it.answer(of: 1) == nil && machine.it.status.condition == .loading)
        var ledger = FluxReplicaLedger()
        ledger.position = 7
        #expect(loaded(ledger)?.effects.opens.count == 1)
        #expect(machine.it.finish(1) == .success(7) && machine.it.status.condition == .following)
    }

    @Test func `A log is available again once a snapshot is loaded after a failed attempt`() throws {
        readingIsTrimmed(through: 5)
        effects { $0.readingEnded(FluxSharedLogError.unavailable("no disk"), &$1) }
        #expect(machine.it.status.condition == .unavailable("no disk"))
        var ledger = FluxReplicaLedger()
        ledger.position = 7
        #expect(loaded(ledger) != nil && machine.it.status.condition == .following)
    }

    @Test(arguments: [0, 9, 10] as [UInt64])
    func `A node keeps its state if the log reports only entries as gone that the node has read`(
        position: UInt64
    ) throws {
        try receive(10, other(1))
        readingIsTrimmed(through: position)
        #expect(machine.it.isLoaded && machine.it.position == 10)
        #expect(machine.it.status.condition == .unavailable("the entries of the log up to \(position) are gone"))
        readingIsTrimmed(through: 11)
        #expect(!machine.it.isLoaded && machine.it.trimmed == 11)
    }

    @Test func `Only a reading says which entries are gone, and not the loading of a snapshot`() throws {
        readingIsTrimmed(through: 5)
        effects { $0.readingEnded(FluxSharedLogError.trimmed(through: 1_000), &$1) }
        #expect(!machine.it.isLoaded && machine.it.trimmed == 5)
        #expect(machine.it.status.condition == .unavailable("the entries of the log up to 1000 are gone"))
    }

    @Test func `A read that is cancelled while it waits for a position leaves nothing behind`() throws {
        _ = try machine.it.read().get()
        answered(1, .success(20))
        #expect(machine.it.finish(1) == .failure(.cancelled))
        // The position may never be reached, and then nothing else would remove what is kept for it.
        let goals = try #require(Mirror(reflecting: machine.it).descendant("goals") as? [UInt64: UInt64])
        #expect(goals.isEmpty)
        #expect(try receive(25, other(1)).effects.opens.isEmpty)
    }

    // MARK: - Entries from the log

    @Test func `An entry that the log delivers twice is applied once`() throws {
        #expect(try receive(10, other(1)).applies)
        #expect(try !receive(10, other(1)).applies)
        #expect(machine.it.ledger.count == 1)
    }

    @Test func `A snapshot decides the outcome of pending dispatches`() throws {
        var ledger = FluxReplicaLedger(window: 100, spread: 2)
        let entries = try (0..<6).map { _ in try dispatched() }
        // The first is too far behind to be remembered; the last has not arrived yet.
        for (position, entry) in zip(UInt64(1)..., entries.prefix(5)) { _ = ledger.admit(position, entry) }
        let step = try #require(loaded(ledger))
        #expect(step.effects.opens.count == 5)
        #expect(machine.it.finish(1) == .failure(.unconfirmed("a snapshot replaced the entries")))
        #expect(machine.it.finish(5) == .success(5))
        #expect(machine.it.answer(of: 6) == nil)
        #expect(try receive(9, entries[5]).applies)
    }

    @Test func `The node that wrote the entry saves the snapshot and says up to where the log may be trimmed`() throws {
        for number in UInt64(1)...3 { try receive(number * 10, other(number)) }
        #expect(try receive(40, dispatched()).saves == 0)
        for number in UInt64(4)...6 { #expect(try receive(number * 11, other(number)).saves == nil) }
        #expect(try receive(80, dispatched()).saves == 40)
        for number in UInt64(7)...10 { #expect(try receive(number * 20, other(number)).saves == nil) }
    }

    @Test func `Only one save runs at a time, and a failure is reported until a save succeeds`() {
        #expect(beginsSaving() == (true, false) && beginsSaving() == (false, true))
        #expect(machine.it.status.snapshotFailure == "the previous snapshot is still being saved")
        #expect(effects { $0.saved("no room", &$1) }.tellsStatus)
        #expect(machine.it.status.snapshotFailure == "no room")
        #expect(beginsSaving().0)
        effects { $0.saved(nil, &$1) }
        #expect(machine.it.status.snapshotFailure == nil)
    }

    // MARK: - Checksums

    /// Reads three entries, and gives the machine the checksum of its state at that point.
    func checked(_ sum: UInt64) throws {
        for number in UInt64(1)...3 { #expect(try receive(number, other(number)).isCheckDue == (number == 3)) }
        effects { $0.checked(sum, &$1) }
    }

    // A checksum after each objection would push out those with which later objections are compared.
    @Test func `No checksum is due after an entry without an action`() throws {
        for number in UInt64(1)...2 { try receive(number, other(number)) }
        #expect(try !receive(3, other(3, acts: false)).isCheckDue)
        for number in UInt64(4)...6 { #expect(try receive(number, other(number)).isCheckDue == (number == 6)) }
    }

    @Test func `A checksum is sent once, with the next entry of its node`() throws {
        try checked(77)
        #expect(try dispatched().check == FluxReplicaCheck(count: 3, version: 1, sum: 77))
        #expect(try dispatched().check == nil)
    }

    @Test func `The status reports that a checksum cannot be taken until one can, and none is sent`() throws {
        for number in UInt64(1)...3 { try receive(number, other(number)) }
        #expect(effects { $0.notChecked("odd", &$1) }.tellsStatus)
        #expect(machine.it.status.checksumFailure == "odd")
        #expect(try dispatched().check == nil)
        #expect(effects { $0.checked(77, &$1) }.tellsStatus)
        #expect(machine.it.status.checksumFailure == nil)
    }

    @Test(arguments: [
        FluxReplicaCheck(count: 3, version: 1, sum: 77), FluxReplicaCheck(count: 3, version: 2, sum: 5),
        FluxReplicaCheck(count: 2, version: 1, sum: 5),
    ])
    func `Checksums that are equal or cannot be compared are no divergence`(check: FluxReplicaCheck) throws {
        try checked(77)
        let step = try receive(4, other(4, check: check))
        #expect(step.diverges == nil && step.applies)
    }

    @Test func `A node that differs rejects the entry, fails reads, refuses calls and needs a snapshot`() throws {
        try checked(77)
        _ = try machine.it.read().get()
        _ = try dispatched()
        let step = try receive(4, other(4, check: FluxReplicaCheck(count: 3, version: 1, sum: 5)))
        let divergence = FluxReplicaDivergence(position: 4, count: 3, own: 77, other: 5)
        #expect(step.diverges == divergence && !step.applies && step.effects.opens.count == 1)
        #expect(machine.it.receive(5, other(5)) == nil, "a log that goes on all the same")
        #expect(machine.it.finish(1) == .failure(.diverged(divergence)) && machine.it.answer(of: 2) == nil)
        #expect(
            machine.it.status.condition == .diverged(divergence) && !machine.it.isLoaded && machine.it.position == 3)
        #expect(throws: FluxReplicaError.diverged(divergence)) { try machine.it.dispatch().get() }
        #expect(throws: FluxReplicaError.diverged(divergence)) { try machine.it.read().get() }
        // A caller that joins is not refused, because it waits for the divergence to end.
        #expect(throws: Never.self) { try machine.it.read(joins: true).get() }
        // The end of reading is not mistaken for a log that does not answer.
        effects { $0.readingEnded(divergence, &$1) }
        #expect(machine.it.status.condition == .diverged(divergence))
    }

    @Test(arguments: [5, 77] as [UInt64])
    func `A diverged node serves again after a second read, and objects if its checksum is as before`(
        again: UInt64
    ) throws {
        try checked(77)
        let told = other(4, check: FluxReplicaCheck(count: 3, version: 1, sum: 5))
        try receive(4, told)
        _ = machine.it.loaded(FluxReplicaLedger())
        try checked(again)
        #expect(machine.it.status.condition != .following)
        let step = try receive(4, told)
        #expect(step.diverges == nil && step.applies && machine.it.status.condition == .following)
        #expect(step.objection?.check == (again == 5 ? nil : FluxReplicaCheck(count: 3, version: 1, sum: 77)))
        #expect(step.objection?.action == nil)
        // What was examined once is not examined again, so two nodes that both insist do not continue forever.
        #expect(try receive(5, other(5, check: FluxReplicaCheck(count: 3, version: 1, sum: 6))).diverges == nil)
    }

    @Test
    func `A diverged node serves again once it has a snapshot from after the entry, even if no other comes`() throws {
        try checked(77)
        try receive(4, other(4, check: FluxReplicaCheck(count: 3, version: 1, sum: 5)))
        var ledger = FluxReplicaLedger()
        for number in UInt64(1)...4 { _ = ledger.admit(number, other(number)) }
        loaded(ledger)
        #expect(machine.it.status.condition == .following)
        #expect(throws: Never.self) { try dispatched() }
    }

    // MARK: - Whether the log answers

    @Test func `Dispatches refused behind one that still waits are accepted again once it ends`() throws {
        let first = try dispatched().number
        for _ in 0..<1_000 {
            let number = try dispatched().number
            effects { $0.expired(number, .zero, &$1) }
            _ = machine.it.finish(number)
        }
        let reason = "1000 are unconfirmed behind one that still waits"
        #expect(throws: FluxReplicaError.notApplied(reason)) { try dispatched() }
        effects { $0.expired(first, .zero, &$1) }
        _ = machine.it.finish(first)
        let next = try dispatched()
        #expect(next.floor == next.number && next.givenUp.isEmpty)
    }

    @Test func `An unavailable log is probed by one task at a time until it answers`() {
        #expect(effects { $0.unavailable("a", &$1) }.probes)
        #expect(!effects { $0.unavailable("b", &$1) }.probes)
        #expect(machine.it.status.condition == .unavailable("b"))
        #expect(!probed(.failure(.unavailable("c"))))
        #expect(probed(.success(9)))
        #expect(machine.it.status.condition == .following && machine.it.lag == 9)
        #expect(effects { $0.unavailable("d", &$1) }.probes)
    }

    @Test func `Any answer of the log makes the log available again`() throws {
        effects { $0.unavailable("a", &$1) }
        _ = try dispatched()
        #expect(answered(1, .success(3)).effects.tellsStatus)
        #expect(machine.it.status.condition == .following)
        effects { $0.unavailable("a", &$1) }
        effects { $0.heard(of: 3, &$1) }
        #expect(machine.it.status.condition == .following)
    }

    @Test func `An answer that arrives late does not move the end of the log back`() throws {
        effects { $0.heard(of: 9, &$1) }
        effects { $0.heard(of: 3, &$1) }
        #expect(machine.it.lag == 9)
    }

    @Test func `A read whose call has failed does not keep a log unavailable that answers others`() throws {
        _ = try machine.it.read().get()
        answered(1, .failure(.unavailable("busy")))
        #expect(machine.it.status.condition == .unavailable("busy"))
        #expect(probed(.success(0)))
        #expect(machine.it.status.condition == .following)
    }

    @Test func `A log that answers only with its end stays unavailable while a dispatch waits to be appended`() throws {
        _ = try dispatched()
        answered(1, .failure(.unavailable("disk full")))
        #expect(!probed(.success(0)))
        #expect(machine.it.status.condition == .unavailable("disk full"))
        answered(1, .success(1))
        #expect(machine.it.status.condition == .following)
        #expect(probed(.success(1)))
    }

    @Test func `A log that failed an append is available again once the entry is read all the same`() throws {
        let envelope = try dispatched()
        answered(1, .failure(.unavailable("no answer in time")))
        effects { $0.read(upTo: 1, &$1) }
        #expect(machine.it.status.condition == .unavailable("no answer in time"))
        #expect(try receive(1, envelope).effects.tellsStatus)
        #expect(machine.it.status.condition == .following)
        _ = machine.it.finish(1)
        #expect(probed(.success(1)))
    }

    @Test func `A log whose reading failed is available again only once it is read up to its end`() throws {
        func ends() -> FluxReplicaEffects {
            effects { $0.readingEnded(FluxSharedLogError.unavailable("unread"), &$1) }
        }
        #expect(ends().probes && !ends().probes)
        #expect(!probed(.success(0)), "nothing reads")
        machine.it.readingBegins()
        #expect(!probed(.success(9)), "an entry is to come")
        #expect(machine.it.status.condition == .unavailable("unread"))
        try receive(9, other(1))
        #expect(machine.it.status.condition == .unavailable("unread"))
        #expect(effects { $0.read(upTo: 9, &$1) }.tellsStatus)
        #expect(machine.it.status.condition == .following && probed(.success(9)))
        #expect(ends().probes)
        #expect(!probed(.success(9)) && machine.it.status.condition == .unavailable("unread"), "nothing reads any more")
        machine.it.readingBegins()
        effects { $0.unavailable("down", &$1) }
        #expect(machine.it.status.condition == .unavailable("down"))
        #expect(probed(.success(9)))
        #expect(machine.it.status.condition == .following)
    }

    @Test func `A dispatch that times out on a log that cannot be read gives the reason`() throws {
        _ = try dispatched()
        effects { $0.readingEnded(FluxSharedLogError.unavailable("unread"), &$1) }
        answered(1, .success(9))
        effects { $0.expired(1, .seconds(5), &$1) }
        #expect(
            machine.it.finish(1) == .failure(.unconfirmed("no answer within 5.0 seconds; the log failed: unread")))
    }

    // MARK: - One replica after the other

    @Test func `Only one machine takes over the writer and numbers of a closed machine on the same log`() throws {
        let (first, second) = (try dispatched(), try dispatched())
        try receive(1, first)
        effects { $0.closed(&$1) }
        var closed: [UInt64: UInt64] = [:]
        machine.it.handOver(to: &closed)
        let ledger = machine.it.ledger
        // A machine that has read none of the entries must assume that it has another log.
        for (isSameLog, writer) in [(false, 7), (true, 1), (true, 7)] as [(Bool, UInt64)] {
            machine.it = Self.machine(writer: 7)
            if isSameLog { _ = loaded(ledger) }
            machine.it.takeOver(from: &closed)
            let next = try dispatched()
            #expect(next.writer == writer && (next.number, next.floor) == (writer == 1 ? (3, 3) : (1, 1)))
            #expect(try receive(2, next).applies)
            // An entry of the first machine that arrives late.
            #expect(try receive(3, second).applies == (writer == 7))
        }
    }

    @Test func `A late entry of the closed machine whose writer was taken over brings no snapshot`() throws {
        let late = try (dispatched(), dispatched())
        try receive(1, late.0)
        effects { $0.closed(&$1) }
        var closed: [UInt64: UInt64] = [:]
        machine.it.handOver(to: &closed)
        let ledger = machine.it.ledger
        for isLate in [true, false] {
            machine.it = Self.machine(writer: 7, snapshotEvery: 2)
            _ = loaded(ledger)
            var copy = closed
            machine.it.takeOver(from: &copy)
            let own = try dispatched()
            #expect(try (receive(2, isLate ? late.1 : own).saves != nil) == !isLate)
        }
    }

    @Test
    func `A writer without entries is not taken over, and a successor skips the numbers of its own reads`() throws {
        var closed: [UInt64: UInt64] = [:]
        _ = try dispatched()
        machine.it.handOver(to: &closed)
        var ledger = FluxReplicaLedger()
        _ = ledger.admit(1, FluxReplicaEnvelope(writer: 1, number: 1, floor: 1, base: 0))
        #expect(closed.isEmpty)
        closed[1] = 2
        machine.it = Self.machine(writer: 7)
        _ = loaded(ledger)
        for id in UInt64(1)...3 {
            _ = try machine.it.read(joins: true).get()
            _ = machine.it.finish(id)
        }
        machine.it.takeOver(from: &closed)
        #expect(try dispatched().number == 4)
    }

    @Test func `At most 65,536 closed replicas are remembered, and after that only the newest`() throws {
        var closed = Dictionary(uniqueKeysWithValues: (2...65_536).map { (UInt64($0), UInt64(7)) })
        for count in [65_536, 1] {
            try receive(UInt64(count), dispatched())
            machine.it.handOver(to: &closed)
            #expect(closed.count == count)
            machine.it = Self.machine(writer: 65_537)
        }
        #expect(closed == [65_537: 2])
    }

    // MARK: - The end

    @Test func `A stopped or closed node ends all waits and accepts nothing`() throws {
        let stop = FluxReplicaStop(position: 9, version: 3, known: 1, reason: "it is newer")
        for isClosed in [false, true] {
            machine.it = Self.machine()
            _ = try (dispatched(), machine.it.read().get())
            let opened = effects { isClosed ? $0.closed(&$1) : $0.stopped(stop, &$1) }
            #expect(opened.opens.count == 2)
            let error = isClosed ? FluxReplicaError.closed : .stopped(stop)
            guard case .failure(.unconfirmed) = machine.it.finish(1) else { throw Unexpected(it: "it is confirmed") }
            #expect(machine.it.finish(2) == .failure(error))
            #expect(throws: error) { try machine.it.dispatch().get() }
            #expect(machine.it.receive(9, other(1)) == nil && loaded(FluxReplicaLedger()) == nil)
            #expect(machine.it.isOver && !beginsSaving().0)
            #expect(!effects { $0.unavailable("a", &$1) }.probes)
            #expect(!effects { $0.readingEnded(FluxSharedLogError.unavailable("a"), &$1) }.probes)
        }
        effects { $0.stopped(stop, &$1) }
        #expect(machine.it.status.condition == .closed)
        // A node that has stopped can still be closed.
        machine.it = Self.machine()
        effects { $0.stopped(stop, &$1) }
        effects { $0.closed(&$1) }
        #expect(machine.it.status.condition == .closed)
    }
}
