import FluxCore
import TestSupport
import Testing

@testable import FluxPersistence

/// Held-back changes and pending writes, with strings as changes and actions, and integers as waiters.
@Suite struct FluxStorageMachineTests {
    typealias Machine = FluxStorageMachine<String, String, Int>

    static func loading(isLog: Bool = false, capacity: Int = .max) -> Box<Machine> {
        Box(Machine(isLog: isLog, capacity: capacity, compactEvery: 1_000))
    }

    static func state() -> Box<Machine> {
        let machine = Box(Machine())
        _ = machine.it.end(.empty, number: 0, snapshot: nil)
        _ = machine.it.open()
        return machine
    }

    static func log(capacity: Int = .max, compactEvery: UInt64 = 1_000, snapshot: UInt64? = 0) -> Box<Machine> {
        let machine = Box(Machine(isLog: true, capacity: capacity, compactEvery: compactEvery))
        _ = machine.it.end(.restored, number: snapshot ?? 0, snapshot: snapshot)
        _ = machine.it.open()
        return machine
    }

    // MARK: - Loading

    @Test func `A loading machine holds changes and waiters, and returns them in order after the load`() {
        let machine = Self.loading()
        #expect(machine.it.hold("a") == true)
        #expect(machine.it.wait(for: .load, 10) == 1)
        #expect(machine.it.hold("b") == true)
        #expect(machine.it.wait(for: .load, 20) == 2)
        #expect(machine.it.withdraw(1, from: .load) == true)
        #expect(machine.it.settle().isEmpty)
        #expect(machine.it.end(.restored, number: 0, snapshot: nil) == ["a", "b"])
        #expect(machine.it.settle().isEmpty, "what was held back is not applied yet")
        #expect(machine.it.hold("c") == false)
        let (told, finish) = machine.it.open()
        #expect(told == [20])
        #expect(finish == nil)
        #expect(machine.it.withdraw(2, from: .load) == false, "it has been told")
        #expect(!machine.it.isLoading)
    }

    @Test func `A loading machine notes no change and grants no room`() {
        let machine = Self.loading(isLog: true, capacity: 2)
        #expect(machine.it.note("a") == false)
        #expect(machine.it.last == 0)
        #expect(machine.it.wait(for: .writes, 5) == nil)
        let ids = [10, 20, 30].map { machine.it.wait(for: .room, $0)! }
        _ = machine.it.end(.restored, number: 7, snapshot: 7)
        #expect(machine.it.note("held back") == true, "takes a place before those who wait")
        #expect(machine.it.wait(for: .room, 40) != nil, "nobody comes before those who wait")
        #expect(machine.it.open().told == [10])
        #expect(machine.it.withdraw(ids[1], from: .room) == true, "not yet: so it has given up")
        #expect(machine.it.withdraw(ids[0], from: .room) == false)
    }

    @Test func `A machine holds no change and accepts no waiter after the load`() {
        let machine = Self.state()
        #expect(machine.it.hold("a") == false)
        #expect(machine.it.wait(for: .load, 10) == nil)
        #expect(machine.it.wait(for: .room, 10) == nil)
        #expect(machine.it.noteRelease {} == false)
        #expect(machine.it.open().finish == nil)
    }

    @Test func `A store that is released while loading ends with the load`() {
        let machine = Self.loading()
        #expect(machine.it.noteRelease {} == true)
        #expect(machine.it.hold("a") == true, "what is on its way still counts")
        #expect(machine.it.end(.empty, number: 0, snapshot: nil) == ["a"])
        #expect(machine.it.open().finish != nil)
    }

    @Test func `A store released with nothing pending has no failure, but cannot save a later change`() {
        let machine = Self.state()
        #expect(machine.it.noteRelease {} == false)
        #expect(machine.it.hasGone && machine.it.failure(upTo: machine.it.last) == nil)
        #expect(machine.it.note(nil) == false)
        #expect(machine.it.failure(upTo: machine.it.last) != nil, "what came then is saved by nobody")
    }

    // MARK: - A state

    @Test func `One save covers all changes before it begins, and later changes need another save`() {
        let machine = Self.state()
        #expect(machine.it.note("a") == true, "starts a writer")
        #expect(machine.it.note("b") == false)
        #expect(machine.it.wait(for: .writes, 1) != nil)
        #expect(machine.it.begin() == .save)
        #expect(machine.it.note("c") == false, "the writer is at it")
        #expect(machine.it.wait(for: .writes, 2) != nil)
        _ = machine.it.succeed()
        #expect(machine.it.settle() == [1])
        #expect(machine.it.begin() == .save)
        _ = machine.it.succeed()
        #expect(machine.it.settle() == [2])
        #expect(machine.it.begin() == nil)
        #expect(machine.it.wait(for: .writes, 3) == nil, "all is written")
        #expect(machine.it.note("d") == true, "idle, so a writer is started again")
    }

    @Test func `Without a log no action is kept, and an unannounced change waits for the next announced one`() {
        let machine = Self.state()
        #expect(machine.it.note("a", isAnnounced: false) == false)
        #expect(machine.it.wait(for: .writes, 1) == nil)
        for _ in 0..<100 { _ = machine.it.note("a") }
        _ = machine.it.begin()
        #expect(machine.it.batch.isEmpty)
    }

    @Test func `A failed save is due again, and its attempts are counted until one succeeds`() {
        let machine = Self.state()
        _ = machine.it.note("a")
        _ = machine.it.wait(for: .writes, 1)
        for attempt in 1...3 {
            #expect(machine.it.begin() == .save)
            #expect(machine.it.fail(CancellationError()).attempt == attempt)
            #expect(machine.it.settle().isEmpty)
        }
        #expect(machine.it.begin() == .save)
        _ = machine.it.succeed()
        #expect(machine.it.settle() == [1])
        _ = machine.it.note("b")
        _ = machine.it.begin()
        #expect(machine.it.fail(CancellationError()).attempt == 1)
    }

    @Test func `A failure is reported for the changes it affects unless a write has included all of them`() {
        let machine = Self.state()
        for change in ["a", "b"] { _ = machine.it.note(change) }
        #expect(machine.it.failure(upTo: 2) == nil, "no attempt was made")
        _ = machine.it.begin()
        _ = machine.it.fail(CancellationError())
        #expect(machine.it.failure(upTo: 2) is CancellationError)
        _ = machine.it.begin()
        _ = machine.it.note("c")
        _ = machine.it.succeed()
        #expect(machine.it.failure(upTo: 3) == nil, "not known yet: that failure is over")
        #expect(machine.it.wait(for: .attempt, 1) != nil)
        _ = machine.it.begin()
        _ = machine.it.fail(CancellationError())
        #expect(machine.it.settle() == [1])
        #expect(machine.it.failure(upTo: 2) == nil && machine.it.failure(upTo: 3) is CancellationError)
        _ = machine.it.close(StorageScript.Refusal())
        #expect(machine.it.failure(upTo: 3) is CancellationError, "the last attempt")
        let unread = Self.loading(isLog: true)
        _ = unread.it.end(.timedOut, number: nil, snapshot: nil)
        #expect(unread.it.failure(upTo: 0) is FluxDurabilityError)
    }

    @Test func `A withdrawn waiter is not notified`() {
        let machine = Self.state()
        _ = machine.it.note("a")
        let id = machine.it.wait(for: .writes, 1)!
        _ = machine.it.wait(for: .writes, 2)
        #expect(machine.it.withdraw(id, from: .writes) == true)
        _ = machine.it.begin()
        _ = machine.it.succeed()
        #expect(machine.it.settle() == [2])
    }

    @Test func `Withdrawn waiters take no memory and get no room, and the others are notified in order`() {
        let machine = Self.log(capacity: 1)
        _ = machine.it.note("a")
        var kept: [Int] = []
        for waiter in 0..<1_000 {
            let id = machine.it.wait(for: .room, waiter)!
            let write = machine.it.wait(for: .writes, waiter + 1_000)!
            if waiter.isMultiple(of: 100) {
                kept.append(waiter)
            } else {
                #expect(machine.it.withdraw(id, from: .room) && machine.it.withdraw(write, from: .writes))
            }
            #expect(machine.it.waiters.reduce(0) { $0 + $1.count } <= 4 * kept.count + 2)
        }
        _ = machine.it.begin()
        _ = machine.it.succeed()
        #expect(Set(machine.it.settle()) == Set(kept.map { $0 + 1_000 } + [0]), "there is room for one")
        for waiter in kept.dropFirst() {
            machine.it.granted -= 1
            #expect(machine.it.settle() == [waiter], "one who has given up gets no room")
        }
        #expect(machine.it.granted == 1 && machine.it.withdrawn.isEmpty)
    }

    // MARK: - A log

    @Test func `Action numbers continue, and a batch contains all pending actions`() {
        let machine = Self.log(snapshot: 7)
        _ = machine.it.note("a")
        _ = machine.it.note("b", isAnnounced: false)
        #expect(machine.it.begin() == .append)
        #expect(machine.it.done == 7 && machine.it.batch == ["a", "b"])
        _ = machine.it.note("c")
        #expect(machine.it.succeed().actions == ["a", "b"])
        #expect(machine.it.begin() == .append)
        #expect(machine.it.done == 9 && machine.it.batch == ["c"])
    }

    @Test func `The actions of a failed append come first in the next batch`() {
        let machine = Self.log()
        _ = machine.it.note("a")
        _ = machine.it.begin()
        _ = machine.it.note("b")
        #expect(machine.it.fail(CancellationError()).attempt == 1)
        _ = machine.it.note("c")
        #expect(machine.it.begin() == .append)
        #expect(machine.it.done == 0 && machine.it.batch == ["a", "b", "c"])
    }

    @Test func `A log without a snapshot gets one first, and then one after each compactEvery actions`() {
        let machine = Self.log(compactEvery: 3, snapshot: nil)
        for step in [Machine.Step.compact, .append, .append, .compact, .append] {
            _ = machine.it.note("b")
            #expect(machine.it.begin() == step)
            _ = machine.it.succeed()
        }
    }

    @Test func `A failed snapshot is followed by an append and retried after compactEvery actions`() {
        let machine = Self.log(compactEvery: 2)
        _ = machine.it.note("a")
        _ = machine.it.note("b")
        #expect(machine.it.begin() == .compact)
        #expect(machine.it.batchEnd == 2)
        _ = machine.it.fail(CancellationError())
        #expect(machine.it.begin() == .append)
        #expect(machine.it.batch == ["a", "b"])
        _ = machine.it.succeed()
        _ = machine.it.note("c")
        _ = machine.it.note("d")
        #expect(machine.it.begin() == .compact)
    }

    @Test func `After two failed appends, snapshots and appends alternate and nothing is lost`() {
        let machine = Self.log()
        _ = machine.it.note("a")
        var steps: [Machine.Step?] = []
        for attempt in 1...6 {
            steps.append(machine.it.begin())
            #expect(machine.it.batchEnd == 1 && machine.it.batch == ["a"])
            #expect(machine.it.fail(CancellationError()).attempt == attempt)
        }
        #expect(steps == [.append, .append, .compact, .append, .compact, .append])
        _ = machine.it.note("b")
        #expect(machine.it.begin() == .compact)
        #expect(machine.it.batchEnd == 2)
        #expect(machine.it.succeed().actions == ["a", "b"])
        _ = machine.it.note("c")
        #expect(machine.it.begin() == .append)
    }

    @Test func `A huge limit does not overflow`() {
        let machine = Self.log(compactEvery: .max, snapshot: .max - 5)
        _ = machine.it.note("a")
        #expect(machine.it.begin() == .append)
    }

    @Test func `A change other than an action needs a snapshot, however often the snapshot fails`() {
        let machine = Self.log()
        _ = machine.it.note("a")
        #expect(machine.it.note(nil) == false, "the writer is at it")
        _ = machine.it.note("b")
        for _ in 1...3 {
            #expect(machine.it.begin() == .compact)
            #expect(machine.it.batchEnd == 3)
            _ = machine.it.fail(CancellationError())
        }
        #expect(machine.it.begin() == .compact)
        _ = machine.it.succeed()
        _ = machine.it.note("c")
        #expect(machine.it.begin() == .append)
        #expect(machine.it.done == 3 && machine.it.batch == ["c"])
    }

    // MARK: - Room

    @Test func `A caller waits if there is no room, and no later caller overtakes it`() {
        let machine = Self.log(capacity: 2)
        #expect(machine.it.wait(for: .room, 1) == nil)
        #expect(machine.it.granted == 1)
        _ = machine.it.note("a")
        machine.it.granted -= 1
        _ = machine.it.note("b")
        let first = machine.it.wait(for: .room, 10)!
        let second = machine.it.wait(for: .room, 20)!
        _ = machine.it.begin()
        let third = machine.it.wait(for: .room, 30)!
        _ = machine.it.succeed()
        #expect(machine.it.settle() == [10, 20])
        #expect(machine.it.wait(for: .room, 40) != nil, "both places are given away, and 30 was before")
        #expect(machine.it.withdraw(third, from: .room) == true, "not yet: so it has given up")
        #expect(machine.it.withdraw(second, from: .room) == false)
        #expect(machine.it.withdraw(first, from: .room) == false)
        #expect(machine.it.settle().isEmpty, "nothing was noted yet in the two places")
        machine.it.granted -= 2
        #expect(machine.it.settle() == [40])
    }

    @Test func `No more waiters resume than there is room for, whatever is written meanwhile`() {
        for capacity in 1...4 {
            let machine = Self.log(capacity: capacity)
            var (waiting, applied) = (20, 0)
            var ready = (0..<20).count { machine.it.wait(for: .room, $0) == nil }
            waiting -= ready
            while applied < 20 {
                #expect(ready + machine.it.pending.count + machine.it.batch.count <= capacity)
                // A write is done after each applied action, and before every other one as well.
                if applied.isMultiple(of: 2), machine.it.begin() != nil { _ = machine.it.succeed() }
                if ready > 0 {
                    _ = machine.it.note("a")
                    machine.it.granted -= 1
                    (ready, applied) = (ready - 1, applied + 1)
                }
                if machine.it.begin() != nil { _ = machine.it.succeed() }
                let told = machine.it.settle().count
                (ready, waiting) = (ready + told, waiting - told)
            }
            #expect(waiting == 0 && machine.it.granted == 0)
        }
    }

    @Test func `Plain actions are noted beyond the capacity, and waiters resume once there is room again`() {
        let machine = Self.log(capacity: 2)
        for _ in 0..<5 { _ = machine.it.note("a") }
        #expect(machine.it.wait(for: .room, 10) != nil)
        _ = machine.it.begin()
        _ = machine.it.note("b")
        _ = machine.it.note("b")
        _ = machine.it.succeed()
        #expect(machine.it.settle().isEmpty, "two are still due")
        _ = machine.it.begin()
        _ = machine.it.succeed()
        #expect(machine.it.settle() == [10])
    }

    @Test func `Waiters for writes and waiters for room are notified in their order of arrival`() {
        let machine = Self.log(capacity: 2)
        for _ in 0..<2 { _ = machine.it.note("a") }
        for waiter in stride(from: 10, to: 60, by: 20) {
            _ = machine.it.wait(for: .room, waiter)
            _ = machine.it.wait(for: .writes, waiter + 10)
        }
        _ = machine.it.begin()
        _ = machine.it.succeed()
        let told = machine.it.settle()
        #expect(told.filter { [10, 30, 50].contains($0) } == [10, 30], "there is room for two")
        #expect(told.filter { [20, 40, 60].contains($0) } == [20, 40, 60])
    }

    // MARK: - Closed

    @Test func `A log that could not be read is not written to, and all waiters are notified`() {
        let machine = Self.loading(isLog: true, capacity: 1)
        _ = machine.it.wait(for: .load, 10)
        for waiter in [20, 30, 40] { _ = machine.it.wait(for: .room, waiter) }
        _ = machine.it.end(.timedOut, number: nil, snapshot: nil)
        #expect(machine.it.open().told == [10, 20, 30, 40])
        #expect(machine.it.isClosed)
        #expect(machine.it.note("a") == false)
        #expect(machine.it.last == 0)
        #expect(machine.it.wait(for: .writes, 1) == nil)
    }

    @Test func `After a permanent error all waiters are notified, and nothing is kept or written`() {
        let machine = Self.log(capacity: 1)
        _ = machine.it.note("a")
        _ = machine.it.wait(for: .writes, 10)
        _ = machine.it.wait(for: .room, 20)
        _ = machine.it.begin()
        #expect(machine.it.fail(CancellationError()).attempt == 1)
        _ = machine.it.note("b")
        let (told, gone) = machine.it.close(Folder.NoText())
        #expect(told == [10, 20])
        #expect(gone.0 == ["a", "b"])
        #expect(machine.it.pending.isEmpty && machine.it.batch.isEmpty)
        #expect(machine.it.isClosed && machine.it.done == 0, "none of it was written")
        expect(machine.it.restoration, is: "failed")
        #expect(machine.it.begin() == nil)
        #expect(!machine.it.isDue)
        #expect(machine.it.note("c") == false)
        #expect(machine.it.last == 2)
    }

    @Test func `A state is not saved after a load that failed permanently`() {
        let machine = Self.loading()
        _ = machine.it.end(.failed(Folder.NoText()), number: nil, snapshot: nil, closes: true)
        #expect(machine.it.note("a") == false)
        #expect(machine.it.wait(for: .writes, 1) == nil)
    }

    @Test func `A write is due from the first held-back change until the change is written`() {
        let machine = Self.loading()
        #expect(!machine.it.isDue)
        _ = machine.it.hold("a")
        #expect(machine.it.isDue)
        _ = machine.it.end(.empty, number: 0, snapshot: nil)
        #expect(machine.it.isDue, "what was held back is not applied yet")
        _ = machine.it.note("a")
        _ = machine.it.open()
        #expect(machine.it.isDue)
        _ = machine.it.begin()
        _ = machine.it.succeed()
        _ = machine.it.begin()
        #expect(!machine.it.isDue)
    }

    @Test func `A state is saved after a load that timed out`() {
        let machine = Self.loading()
        _ = machine.it.end(.timedOut, number: nil, snapshot: nil)
        #expect(machine.it.note("a") == true)
        #expect(machine.it.begin() == .save)
    }
}
