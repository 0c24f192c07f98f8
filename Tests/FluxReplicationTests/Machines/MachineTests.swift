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

    /// Runs a body that has effects, and returns them.
    @discardableResult func effects(
        _ body: (inout FluxReplicaMachine, inout FluxReplicaEffects) -> Void
    ) -> FluxReplicaEffects {
        var effects = FluxReplicaEffects()
        body(&machine.it, &effects)
        return effects
    }

    @discardableResult func receive(_ position: UInt64, _ envelope: FluxReplicaEnvelope) throws -> FluxReplicaStep {
        let step = machine.it.receive(position, envelope)
        return try #require(step)
    }

    /// Reports an answer of the log; returns whether the log is called again, and the effects.
    @discardableResult func answered(
        _ id: UInt64, _ answer: Result<UInt64, FluxSharedLogError>
    ) -> (again: Bool, effects: FluxReplicaEffects) {
        var effects = FluxReplicaEffects()
        let again = machine.it.answered(id, answer, &effects)
        return (again, effects)
    }

    func probed(_ answer: Result<UInt64, FluxSharedLogError>) -> Bool {
        var effects = FluxReplicaEffects()
        return machine.it.probed(answer, &effects)
    }

    /// Whether a snapshot may be saved, and whether that changes the status.
    func beginsSaving() -> (Bool, tellsStatus: Bool) {
        var effects = FluxReplicaEffects()
        return (machine.it.beginSaving(&effects), effects.tellsStatus)
    }

    func loaded(_ ledger: FluxReplicaLedger) -> FluxReplicaStep? { machine.it.loaded(ledger) }

    // MARK: - Dispatching

    @Test func `Who dispatches is let out when his entry is read, with its position, and not by the answer`() throws {
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

    @Test func `What is unavailable is tried again, what is refused is not`() throws {
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

    @Test func `Whose time is up, and who is cancelled, cannot know whether it will be applied`() throws {
        _ = try (dispatched(), dispatched())
        answered(1, .failure(.unavailable("no leader")))
        #expect(effects { $0.expired(1, .seconds(3), &$1) }.opens.count == 1)
        #expect(
            machine.it.finish(1)
                == .failure(.unconfirmed("no answer within 3.0 seconds; the log failed: no leader")))
        #expect(machine.it.finish(2) == .failure(.unconfirmed("the task was cancelled")))
    }

    @Test func `An entry carries the lowest number that is waited for, and what was given up above it`() throws {
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

    @Test func `One that waits for an action cannot fill the memory with what was given up behind it`() throws {
        _ = try dispatched()
        for number in UInt64(2)...1_001 {
            _ = try dispatched()
            _ = machine.it.finish(number)
        }
        guard case .failure(.notApplied) = machine.it.dispatch() else { throw Unexpected(it: "it was taken") }
        _ = machine.it.finish(1)
    }

    @Test func `What came too late says so to who has sent it`() throws {
        machine.it = FluxReplicaMachine(writer: 1, version: 1, checkEvery: 100, snapshotEvery: 100)
        _ = machine.it.loaded(FluxReplicaLedger(window: 2, spread: 10))
        let envelope = try dispatched()
        for number in UInt64(1)...2 { try receive(number, other(number)) }
        #expect(try receive(3, envelope).effects.opens.count == 1)
        #expect(machine.it.finish(1) == .failure(.notApplied("it came too late")))
    }

    // MARK: - Reading

    @Test func `A read waits until what was the end is applied`() throws {
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

    @Test func `A read is not answered before a snapshot that is needed is there`() throws {
        effects { $0.readingEnded(FluxSharedLogError.trimmed(through: 5), &$1) }
        _ = try machine.it.read().get()
        #expect(!answered(1, .success(0)).again)
        #expect(machine.it.answer(of: 1) == nil && machine.it.status.condition == .loading)
        var ledger = FluxReplicaLedger()
        ledger.position = 7
        #expect(loaded(ledger)?.effects.opens.count == 1)
        #expect(machine.it.finish(1) == .success(7) && machine.it.status.condition == .following)
    }

    @Test func `A snapshot that could not be read first, and then could, is something that was read`() throws {
        effects { $0.readingEnded(FluxSharedLogError.trimmed(through: 5), &$1) }
        effects { $0.readingEnded(FluxSharedLogError.unavailable("no disk"), &$1) }
        #expect(machine.it.status.condition == .unavailable("no disk"))
        var ledger = FluxReplicaLedger()
        ledger.position = 7
        #expect(loaded(ledger) != nil && machine.it.status.condition == .following)
    }

    @Test(arguments: [0, 9, 10] as [UInt64])
    func `A log that says that entries are gone which the node has read takes nothing back`(position: UInt64) throws {
        try receive(10, other(1))
        effects { $0.readingEnded(FluxSharedLogError.trimmed(through: position), &$1) }
        #expect(machine.it.isLoaded && machine.it.position == 10)
        #expect(machine.it.status.condition == .unavailable("the entries of the log up to \(position) are gone"))
        effects { $0.readingEnded(FluxSharedLogError.trimmed(through: 11), &$1) }
        #expect(!machine.it.isLoaded && machine.it.trimmed == 11)
    }

    @Test func `Who stops to wait for a position leaves nothing`() throws {
        _ = try machine.it.read().get()
        answered(1, .success(20))
        #expect(machine.it.finish(1) == .failure(.cancelled))
        #expect(try receive(25, other(1)).effects.opens.isEmpty)
    }

    // MARK: - Entries from the log

    @Test func `What a log says twice is taken once`() throws {
        #expect(try receive(10, other(1)).applies)
        #expect(try !receive(10, other(1)).applies)
        #expect(machine.it.ledger.count == 1)
    }

    @Test func `A snapshot says of what is on its way what has become of it`() throws {
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

    @Test func `The node that has written the entry saves the snapshot, and says what may be trimmed`() throws {
        for number in UInt64(1)...3 { try receive(number * 10, other(number)) }
        #expect(try receive(40, dispatched()).saves == 0)
        for number in UInt64(4)...6 { #expect(try receive(number * 11, other(number)).saves == nil) }
        #expect(try receive(80, dispatched()).saves == 40)
        for number in UInt64(7)...10 { #expect(try receive(number * 20, other(number)).saves == nil) }
    }

    @Test func `There is one save at a time, and what has failed is said until one has not`() {
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
    @Test func `After an entry without an action no checksum is due`() throws {
        for number in UInt64(1)...2 { try receive(number, other(number)) }
        #expect(try !receive(3, other(3, acts: false)).isCheckDue)
        for number in UInt64(4)...6 { #expect(try receive(number, other(number)).isCheckDue == (number == 6)) }
    }

    @Test func `A checksum travels with the next entry of its node, once`() throws {
        try checked(77)
        #expect(try dispatched().check == FluxReplicaCheck(count: 3, version: 1, sum: 77))
        #expect(try dispatched().check == nil)
    }

    @Test func `A checksum that cannot be taken is said until one can, and none travels`() throws {
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
    func `What is the same, or not to be compared, is no divergence`(check: FluxReplicaCheck) throws {
        try checked(77)
        let step = try receive(4, other(4, check: check))
        #expect(step.diverges == nil && step.applies)
    }

    @Test func `A node that differs does not take the entry, refuses, lets out readers, and wants a snapshot`() throws {
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
    func `It serves again once it has read what it had; it objects if it came to the same again`(again: UInt64) throws {
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

    // MARK: - Whether the log answers

    @Test func `While too many are given up behind one that waits no more is taken, and after that it is again`() throws
    {
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

    @Test func `A log that does not answer is asked for its end until it does, by one`() {
        #expect(effects { $0.unavailable("a", &$1) }.probes)
        #expect(!effects { $0.unavailable("b", &$1) }.probes)
        #expect(machine.it.status.condition == .unavailable("b"))
        #expect(!probed(.failure(.unavailable("c"))))
        #expect(probed(.success(9)))
        #expect(machine.it.status.condition == .following && machine.it.lag == 9)
        #expect(effects { $0.unavailable("d", &$1) }.probes)
    }

    @Test func `Any answer says that the log is there`() throws {
        effects { $0.unavailable("a", &$1) }
        _ = try dispatched()
        #expect(answered(1, .success(3)).effects.tellsStatus)
        #expect(machine.it.status.condition == .following)
        effects { $0.unavailable("a", &$1) }
        effects { $0.heard(of: 3, &$1) }
        #expect(machine.it.status.condition == .following)
    }

    @Test func `That a log takes entries its end does not say, as long as one waits that it has not taken`() throws {
        _ = try dispatched()
        answered(1, .failure(.unavailable("disk full")))
        #expect(!probed(.success(0)))
        #expect(machine.it.status.condition == .unavailable("disk full"))
        answered(1, .success(1))
        #expect(machine.it.status.condition == .following)
        #expect(probed(.success(1)))
    }

    @Test func `Whose entry is read after the log has refused it is let out of a log that takes entries`() throws {
        let envelope = try dispatched()
        answered(1, .failure(.unavailable("no answer in time")))
        effects { $0.read(upTo: 1, &$1) }
        #expect(machine.it.status.condition == .unavailable("no answer in time"))
        #expect(try receive(1, envelope).effects.tellsStatus)
        #expect(machine.it.status.condition == .following)
        _ = machine.it.finish(1)
        #expect(probed(.success(1)))
    }

    @Test func `That a log can be read no answer says, unless it is being read and none is to come`() throws {
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

    @Test func `Who waits for what cannot be read is told why it cannot`() throws {
        _ = try dispatched()
        effects { $0.readingEnded(FluxSharedLogError.unavailable("unread"), &$1) }
        answered(1, .success(9))
        effects { $0.expired(1, .seconds(5), &$1) }
        #expect(
            machine.it.finish(1) == .failure(.unconfirmed("no answer within 5.0 seconds; the log failed: unread")))
    }

    // MARK: - One replica after the other

    @Test func `A machine goes on as one of its log that is closed, behind all that it has sent; no second one does`()
        throws
    {
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

    @Test
    func `A machine that has written nothing to the log hands nothing over, and one that has read goes on behind that`()
        throws
    {
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

    @Test func `Of closed replicas 65,536 are known, and then the newest alone, so that no more memory is needed`()
        throws
    {
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

    @Test func `A node that has stopped or was closed lets out all, and takes nothing`() throws {
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
