import FluxCore
import TestSupport
import Testing

@testable import FluxPersistence

/// What is to be written, driven with strings for actions and integers for those who wait.
@Suite struct FluxWriteQueueTests {
    typealias Writing = FluxWriteQueue<String, Int>

    static func log(capacity: Int = .max, compactEvery: UInt64 = 1_000, snapshot: UInt64? = 0) -> Box<Writing> {
        let writing = Box(Writing(isLog: true, capacity: capacity, compactEvery: compactEvery))
        writing.it.resume(at: snapshot ?? 0, snapshot: snapshot)
        return writing
    }

    // MARK: - A state

    @Test func `One save covers everything until it begins, and what comes later is due again`() {
        let writing = Box(Writing())
        #expect(writing.it.note("a") == true, "starts a writer")
        #expect(writing.it.note("b") == false)
        #expect(writing.it.wait(1) != nil)
        #expect(writing.it.begin(hasState: true) == .save)
        #expect(writing.it.note("c") == false, "the writer is at it")
        #expect(writing.it.wait(2) != nil)
        #expect(writing.it.succeed().waiters == [1])
        #expect(writing.it.begin(hasState: true) == .save)
        #expect(writing.it.succeed().waiters == [2])
        #expect(writing.it.begin(hasState: true) == nil)
        #expect(writing.it.wait(3) == nil, "all is written")
        #expect(writing.it.note("d") == true, "idle, so a writer is started again")
    }

    @Test func `With no log no action is kept`() {
        let writing = Box(Writing())
        for _ in 0..<100 { _ = writing.it.note("a") }
        _ = writing.it.begin(hasState: true)
        #expect(writing.it.entries.actions.isEmpty)
    }

    @Test func `A save that fails is due again, and the attempts are counted until one succeeds`() {
        let writing = Box(Writing())
        _ = writing.it.note("a")
        _ = writing.it.wait(1)
        for attempt in 1...3 {
            #expect(writing.it.begin(hasState: true) == .save)
            #expect(writing.it.fail() == attempt)
        }
        #expect(writing.it.begin(hasState: true) == .save)
        #expect(writing.it.succeed().waiters == [1])
        _ = writing.it.note("b")
        _ = writing.it.begin(hasState: true)
        #expect(writing.it.fail() == 1)
    }

    @Test func `One who waits no longer is not told`() {
        let writing = Box(Writing())
        _ = writing.it.note("a")
        let id = writing.it.wait(1)!
        _ = writing.it.wait(2)
        writing.it.withdraw(id)
        _ = writing.it.begin(hasState: true)
        #expect(writing.it.succeed().waiters == [2])
    }

    // MARK: - A log

    @Test func `Actions are numbered on, and a batch has all that is due`() {
        let writing = Self.log(snapshot: 7)
        _ = writing.it.note("a")
        _ = writing.it.note("b")
        #expect(writing.it.begin(hasState: false) == .append)
        #expect(writing.it.entries == (last: 9, actions: ["a", "b"]))
        _ = writing.it.note("c")
        #expect(writing.it.succeed().actions == ["a", "b"])
        #expect(writing.it.begin(hasState: false) == .append)
        #expect(writing.it.entries == (last: 10, actions: ["c"]))
    }

    @Test func `What failed comes first in the next batch`() {
        let writing = Self.log()
        _ = writing.it.note("a")
        _ = writing.it.begin(hasState: false)
        _ = writing.it.note("b")
        #expect(writing.it.fail() == 1)
        _ = writing.it.note("c")
        #expect(writing.it.begin(hasState: false) == .append)
        #expect(writing.it.entries == (last: 3, actions: ["a", "b", "c"]))
    }

    @Test func `A log without a snapshot gets one first, and then one after so many actions`() {
        let writing = Self.log(compactEvery: 3, snapshot: nil)
        #expect(writing.it.needsState)
        _ = writing.it.note("a")
        #expect(writing.it.begin(hasState: true) == .compact)
        _ = writing.it.succeed()
        for step in [Writing.Step.append, .append, .compact, .append] {
            _ = writing.it.note("b")
            #expect(writing.it.begin(hasState: true) == step)
            _ = writing.it.succeed()
        }
    }

    @Test func `A snapshot that fell due since the writer looked is put off, for it has no state`() {
        let writing = Self.log(compactEvery: 1)
        _ = writing.it.note("a")
        #expect(writing.it.begin(hasState: false) == .append)
    }

    @Test func `A snapshot that fails is followed by an append, and tried again after as many actions`() {
        let writing = Self.log(compactEvery: 2)
        _ = writing.it.note("a")
        _ = writing.it.note("b")
        #expect(writing.it.begin(hasState: true) == .compact)
        _ = writing.it.fail()
        #expect(writing.it.begin(hasState: true) == .append)
        #expect(writing.it.entries == (last: 2, actions: ["a", "b"]))
        _ = writing.it.succeed()
        _ = writing.it.note("c")
        _ = writing.it.note("d")
        #expect(writing.it.begin(hasState: true) == .compact)
    }

    @Test func `A huge limit does not overflow`() {
        let writing = Self.log(compactEvery: .max, snapshot: .max - 5)
        _ = writing.it.note("a")
        #expect(writing.it.begin(hasState: true) == .append)
    }

    // MARK: - Room

    @Test func `Where there is no room one waits, and nobody overtakes those who wait`() {
        let writing = Self.log(capacity: 2)
        #expect(writing.it.admit(1) == nil)
        _ = writing.it.note("a")
        _ = writing.it.note("b")
        let first = writing.it.admit(10)!
        let second = writing.it.admit(20)!
        _ = writing.it.begin(hasState: false)
        let third = writing.it.admit(30)!
        #expect(writing.it.succeed().waiters == [10, 20])
        #expect(writing.it.admit(40) != nil, "both places are given away, and 30 was before")
        #expect(writing.it.redeem(third) == false, "not yet: so it has given up")
        #expect(writing.it.redeem(second) == true)
        #expect(writing.it.redeem(first) == true)
        #expect(writing.it.redeem(first) == false, "a place is taken once")
    }

    @Test func `What may not wait is noted beyond the capacity, and room is made again`() {
        let writing = Self.log(capacity: 2)
        for _ in 0..<5 { _ = writing.it.note("a") }
        let id = writing.it.admit(10)!
        _ = writing.it.begin(hasState: false)
        _ = writing.it.note("b")
        _ = writing.it.note("b")
        #expect(writing.it.succeed().waiters.isEmpty, "two are still due")
        _ = writing.it.begin(hasState: false)
        #expect(writing.it.succeed().waiters == [10])
        #expect(writing.it.redeem(id) == true)
    }

    // MARK: - Closed

    @Test func `What could not be read is not written to`() {
        let writing = Self.log()
        writing.it.close()
        #expect(writing.it.note("a") == false)
        #expect(writing.it.last == 0)
        #expect(writing.it.wait(1) == nil)
    }

    @Test func `A change that is no action needs a snapshot, however often that fails`() {
        let writing = Self.log()
        _ = writing.it.note("a")
        #expect(writing.it.note(nil) == false, "the writer is at it")
        _ = writing.it.note("b")
        #expect(writing.it.needsState == true)
        for _ in 1...3 {
            #expect(writing.it.begin(hasState: true) == .compact)
            #expect(writing.it.entries.last == 3)
            _ = writing.it.fail()
        }
        #expect(writing.it.begin(hasState: true) == .compact)
        _ = writing.it.succeed()
        _ = writing.it.note("c")
        #expect(writing.it.needsState == false)
        #expect(writing.it.begin(hasState: false) == .append)
        #expect(writing.it.entries.last == 4)
        #expect(writing.it.entries.actions == ["c"])
    }
}
