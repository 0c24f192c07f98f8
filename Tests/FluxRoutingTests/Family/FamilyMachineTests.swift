import TestSupport
import Testing

@testable import FluxRouting

/// The table of the machine, row by row; members and waiters are numbers.
@Suite struct FamilyMachineTests {
    typealias Machine = FluxFamilyMachine<String, Int, Int, Int>

    struct Refusal: Error {}

    /// A machine whose members are idle for 10 seconds at most, at second 0.
    let machine = Box(Machine(idle: .seconds(10), limit: .max))

    /// Opens a key for a visitor that leaves at the given second.
    func open(_ key: String, until second: Int = 0, _ member: Int = 0) {
        let slot = asked(key)
        _ = machine.it.made(slot, .success(member), at: .seconds(second))
        _ = machine.it.release(slot, at: .seconds(second))
    }

    /// Asks for a key that is not open, and returns its slot.
    func asked(_ key: String, visitor: Int = 1) -> Int {
        machine.it.ask(key) { visitor }.answer!.slot
    }

    func slot(_ key: String) -> Int { machine.it.index[key]! }

    func names(_ effects: [Machine.Effect]) -> [String] {
        effects.map { effect in
            switch effect {
            case .make(_, let key): "make \(key)"
            case .close(_, let key): "close \(key)"
            case .admit(let visitors, let slot): "admit \(visitors.sorted()) to \(machine.it.member(of: slot)!)"
            case .refuse(let visitors, let error): "refuse \(visitors.sorted()): \(error)"
            case .turnAway(let visitors, let key): "turn away \(visitors.sorted()) from \(key)"
            case .answer(let waiters, .success(let isClosed)): "answer \(waiters.sorted()): \(isClosed)"
            case .answer(let waiters, .failure(let error)): "answer \(waiters.sorted()): \(error)"
            case .sleep: "sleep"
            case .end: "end"
            }
        }
    }

    // MARK: - ask

    @Test func `The first request for a key creates the member, and later requests wait for it`() {
        #expect(names(machine.it.ask("a", { 1 }).1) == ["make a"])
        #expect(names(machine.it.ask("a", { 2 }).1) == [])
        #expect(names(machine.it.made(slot("a"), .success(7), at: .zero)) == ["admit [1, 2] to 7"])
    }

    @Test func `A request for an open member gets a lease at once`() {
        open("a", 7)
        let (answer, effects) = machine.it.ask("a") { 2 }
        #expect(effects.isEmpty && answer?.visitor == nil && answer?.slot == slot("a"))
        #expect(machine.it.member(of: slot("a")) == 7)
        // The member is in use, so it is not due.
        #expect(machine.it.nextDue() == nil)
    }

    @Test func `A request for a member that is being closed gets a new one`() {
        open("a", 7)
        #expect(names(machine.it.wake(at: .seconds(10))) == ["close a"])
        #expect(names(machine.it.ask("a", { 2 }).1) == [])
        let member = machine.it.takeMember(of: slot("a"))
        let effects = machine.it.closed(slot("a"))
        #expect(member == 7 && names(effects) == ["make a"])
        #expect(names(machine.it.made(slot("a"), .success(8), at: .zero)) == ["admit [2] to 8"])
    }

    @Test func `A close ends only the old member; the next one stays open`() {
        open("a")
        #expect(names(machine.it.close("a", 5).1) == ["close a"])
        _ = machine.it.ask("a") { 2 }
        #expect(names(machine.it.closed(slot("a"))) == ["make a", "answer [5]: true"])
        #expect(names(machine.it.made(slot("a"), .success(8), at: .zero)) == ["admit [2] to 8"])
        #expect(names(machine.it.release(slot("a"), at: .zero)) == [])
        #expect(machine.it.openCount == 1)
    }

    @Test func `A withdrawn request is not admitted, and the member becomes idle`() {
        let (slot, id, _) = machine.it.ask("a") { 1 }.answer!
        machine.it.withdraw(id, from: slot)
        #expect(names(machine.it.made(slot, .success(7), at: .zero)) == ["sleep"])
        #expect(machine.it.nextDue() == .seconds(10))
    }

    @Test func `A request that is withdrawn too late withdraws no other request`() {
        let (slot, id, _) = machine.it.ask("a") { 1 }.answer!
        _ = machine.it.made(slot, .failure(Refusal()), at: .zero)
        #expect(asked("b", visitor: 2) == slot)
        machine.it.withdraw(id, from: slot)
        #expect(names(machine.it.made(slot, .success(8), at: .zero)) == ["admit [2] to 8"])
    }

    // MARK: - made

    @Test func `A creation error goes to all waiting requests, and the next request tries again`() {
        let slot = asked("a")
        _ = machine.it.ask("a") { 2 }
        #expect(names(machine.it.made(slot, .failure(Refusal()), at: .zero)) == ["refuse [1, 2]: Refusal()"])
        #expect(machine.it.index.isEmpty)
        #expect(names(machine.it.ask("a", { 3 }).1) == ["make a"])
    }

    @Test func `A close during creation is answered once the member is unused and closed`() {
        let slot = asked("a")
        #expect(machine.it.close("a", 5).0?.slot == slot)
        #expect(names(machine.it.made(slot, .success(7), at: .zero)) == ["admit [1] to 7"])
        #expect(names(machine.it.release(slot, at: .zero)) == ["close a"])
        #expect(names(machine.it.closed(slot)) == ["answer [5]: true"])
        #expect(machine.it.index.isEmpty)
    }

    @Test func `A close during a creation that fails is answered with false`() {
        let slot = asked("a")
        _ = machine.it.close("a", 5)
        let effects = names(machine.it.made(slot, .failure(Refusal()), at: .zero))
        #expect(effects == ["refuse [1]: Refusal()", "answer [5]: false"])
    }

    // MARK: - release and due

    @Test func `Unused members become due in the order of their last use`() {
        for (second, key) in ["a", "b", "c"].enumerated() { open(key, until: second) }
        #expect(machine.it.nextDue() == .seconds(10))
        _ = machine.it.ask("a") { 1 }
        #expect(names(machine.it.release(slot("a"), at: .seconds(3))) == [])
        #expect(machine.it.nextDue() == .seconds(11))
        #expect(names(machine.it.wake(at: .seconds(12))) == ["close b", "close c"])
        #expect(machine.it.nextDue() == .seconds(13))
    }

    @Test func `A member that is closed from use does not bring another one in use into the list of unused ones`() {
        open("a")
        open("b", until: 1)
        for key in ["a", "b"] { _ = machine.it.ask(key) { 1 } }
        #expect(names(machine.it.close("a", 5).1) == [])
        #expect(names(machine.it.release(slot("a"), at: .seconds(2))) == ["close a"])
        #expect(machine.it.nextDue() == nil)
    }

    @Test func `A member becomes idle only when its last lease is released`() {
        let slot = asked("a")
        _ = machine.it.ask("a") { 2 }
        _ = machine.it.made(slot, .success(7), at: .zero)
        #expect(names(machine.it.release(slot, at: .zero)) == [])
        #expect(names(machine.it.release(slot, at: .seconds(1))) == ["sleep"])
        #expect(machine.it.nextDue() == .seconds(11))
    }

    @Test func `One sleep serves all idle members, until none is due`() {
        #expect(names(machine.it.made(asked("a"), .success(7), at: .zero)) == ["admit [1] to 7"])
        #expect(names(machine.it.release(slot("a"), at: .zero)) == ["sleep"])
        _ = machine.it.made(asked("b"), .success(8), at: .zero)
        #expect(names(machine.it.release(slot("b"), at: .zero)) == [])
        _ = machine.it.wake(at: .seconds(10))
        #expect(machine.it.nextDue() == nil)
        _ = machine.it.made(asked("c"), .success(9), at: .zero)
        #expect(names(machine.it.release(slot("c"), at: .seconds(10))) == ["sleep"])
    }

    @Test func `A release with an older clock reading keeps the order`() {
        open("a", until: 5)
        open("b", until: 4)
        #expect(names(machine.it.wake(at: .seconds(14))) == [])
        #expect(names(machine.it.wake(at: .seconds(15))) == ["close a", "close b"])
    }

    // MARK: - The limit

    @Test func `Above the limit, the least recently used member is closed, but none that is in use`() {
        machine.it = Machine(idle: .seconds(10), limit: 2)
        open("a")
        open("b")
        _ = machine.it.ask("a") { 1 }
        let c = asked("c")
        #expect(names(machine.it.made(c, .success(9), at: .zero)) == ["close b", "admit [1] to 9"])
        let d = asked("d")
        #expect(names(machine.it.made(d, .success(9), at: .zero)) == ["admit [1] to 9"])
        #expect(machine.it.openCount == 3)
        #expect(names(machine.it.release(c, at: .zero)) == ["close c"])
        #expect(names(machine.it.release(d, at: .zero)) == [])
        #expect(machine.it.openCount == 2)
    }

    @Test func `A member that cannot be closed is not retried at once, even above the limit`() {
        machine.it = Machine(idle: .seconds(10), limit: 0)
        let slot = asked("a")
        _ = machine.it.made(slot, .success(7), at: .zero)
        #expect(names(machine.it.release(slot, at: .zero)) == ["sleep", "close a"])
        #expect(names(machine.it.kept(slot, Refusal(), at: .seconds(1))) == [])
        #expect(machine.it.openCount == 1 && machine.it.nextDue() == .seconds(11))
        #expect(names(machine.it.wake(at: .seconds(11))) == ["close a"])
    }

    // MARK: - close

    @Test func `Closing an unknown key does nothing`() {
        #expect(machine.it.close("a", 5).0 == nil)
    }

    @Test func `All closes of a member are answered when it is closed`() {
        open("a", 7)
        #expect(names(machine.it.close("a", 5).1) == ["close a"])
        #expect(names(machine.it.close("a", 6).1) == [])
        #expect(names(machine.it.closed(slot("a"))) == ["answer [5, 6]: true"])
        #expect(machine.it.index.isEmpty && machine.it.openCount == 0)
    }

    @Test func `A withdrawn close leaves the member open`() {
        let slot = asked("a")
        _ = machine.it.made(slot, .success(7), at: .zero)
        let place = machine.it.close("a", 5).0
        machine.it.withdraw(place!.id, from: place!.slot)
        #expect(names(machine.it.release(slot, at: .zero)) == ["sleep"])
    }

    // MARK: - kept

    @Test func `A member that cannot be closed is open again, for waiting and for later requests`() {
        open("a", 7)
        _ = machine.it.close("a", 5)
        #expect(names(machine.it.kept(slot("a"), Refusal(), at: .seconds(3))) == ["answer [5]: Refusal()"])
        #expect(machine.it.nextDue() == .seconds(13))
        #expect(names(machine.it.wake(at: .seconds(13))) == ["close a"])
        _ = machine.it.ask("a") { 2 }
        #expect(names(machine.it.kept(slot("a"), Refusal(), at: .seconds(14))) == ["admit [2] to 7"])
        // The member is in use from here on.
        #expect(machine.it.nextDue() == nil)
    }

    @Test func `The sleep ends when the first member is due, whether idle or failed to close`() {
        open("a")
        _ = machine.it.close("a", 5)
        open("b", until: 2)
        _ = machine.it.kept(slot("a"), Refusal(), at: .seconds(1))
        #expect(machine.it.nextDue() == .seconds(11))
        #expect(names(machine.it.wake(at: .seconds(12))) == ["close b", "close a"])
    }

    // MARK: - shutDown

    @Test func `A shutdown closes idle members at once and the others later, and refuses requests`() {
        open("a")
        let b = asked("b")
        _ = machine.it.made(b, .success(8), at: .zero)
        let c = asked("c", visitor: 3)
        let (told, effects) = machine.it.shutDown { 9 }
        #expect(told.map(\.key).sorted() == ["a", "b", "c"])
        #expect(Set(names(effects)) == ["close a", "turn away [3] from c"])
        #expect(machine.it.ask("a") { 4 }.answer == nil)
        #expect(names(machine.it.made(c, .success(9), at: .zero)) == ["close c"])
        #expect(names(machine.it.release(b, at: .zero)) == ["close b"])
        for (key, slot) in [("a", slot("a")), ("b", b)] {
            #expect(names(machine.it.closed(slot)) == ["answer [9]: true"], "\(key)")
        }
        #expect(names(machine.it.closed(c)) == ["end", "answer [9]: true"])
    }

    @Test func `A shutdown with nothing open ends at once`() {
        #expect(names(machine.it.shutDown { 9 }.1) == ["end"])
    }

    @Test func `A member that cannot be closed during a shutdown stays, and is retried`() {
        open("a")
        _ = machine.it.shutDown { 9 }
        #expect(names(machine.it.kept(slot("a"), Refusal(), at: .seconds(1))) == ["answer [9]: Refusal()"])
        #expect(names(machine.it.wake(at: .seconds(11))) == ["close a"])
        #expect(names(machine.it.closed(slot("a"))) == ["end"])
    }

    // MARK: - Cost

    @Test func `The dictionary of open members shrinks after many keys were closed`() {
        let open = Box(FluxFamilyMembers<Int, Int>())
        for key in 0..<3_000 { _ = open.it.handle(action: .opened(key, key)) }
        for key in 0..<3_000 { _ = open.it.handle(action: .closed(key)) }
        #expect(open.it.members.capacity < 1_024)
    }

    @Test func `Slots are reused, and removed once no member is open`() {
        for number in 0..<3_000 { open("\(number % 3)-\(number)", until: number) }
        _ = machine.it.wake(at: .seconds(5_000))
        for number in 0..<3_000 { _ = machine.it.closed(slot("\(number % 3)-\(number)")) }
        #expect(machine.it.slots.count == 2)
        // A visitor that gives up only now had a slot that no longer exists.
        machine.it.withdraw(1, from: 2_000)
        for number in 0..<3_000 {
            open("\(number)")
            _ = machine.it.close("\(number)", 1)
            _ = machine.it.closed(slot("\(number)"))
        }
        #expect(machine.it.slots.count == 3)
    }
}
