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
            case .answer(let closers, .success(let isClosed)): "answer \(closers.sorted()): \(isClosed)"
            case .answer(let closers, .failure(let error)): "answer \(closers.sorted()): \(error)"
            case .sleep: "sleep"
            case .end: "end"
            }
        }
    }

    // MARK: - ask

    @Test func `The first who asks has the member made, the others wait for it`() {
        #expect(names(machine.it.ask("a", { 1 }).1) == ["make a"])
        #expect(names(machine.it.ask("a", { 2 }).1) == [])
        #expect(names(machine.it.made(slot("a"), .success(7), at: .zero)) == ["admit [1, 2] to 7"])
    }

    @Test func `Who asks for an open one has a lease at once`() {
        open("a", 7)
        let (answer, effects) = machine.it.ask("a") { 2 }
        #expect(effects.isEmpty && answer?.visitor == nil && answer?.slot == slot("a"))
        #expect(machine.it.member(of: slot("a")) == 7)
        // The member is in use, so it is not due.
        #expect(machine.it.nextDue() == nil)
    }

    @Test func `Who asks while it is being closed gets it anew`() {
        open("a", 7)
        #expect(names(machine.it.wake(at: .seconds(10))) == ["close a"])
        #expect(names(machine.it.ask("a", { 2 }).1) == [])
        let member = machine.it.takeMember(of: slot("a"))
        let effects = machine.it.closed(slot("a"))
        #expect(member == 7 && names(effects) == ["make a"])
        #expect(names(machine.it.made(slot("a"), .success(8), at: .zero)) == ["admit [2] to 8"])
    }

    @Test func `Who had it closed has the next one stay open`() {
        open("a")
        #expect(names(machine.it.close("a", 5).1) == ["close a"])
        _ = machine.it.ask("a") { 2 }
        #expect(names(machine.it.closed(slot("a"))) == ["make a", "answer [5]: true"])
        #expect(names(machine.it.made(slot("a"), .success(8), at: .zero)) == ["admit [2] to 8"])
        #expect(names(machine.it.release(slot("a"), at: .zero)) == [])
        #expect(machine.it.openCount == 1)
    }

    @Test func `Who gives up is not admitted, and the member comes to rest`() {
        let (slot, id, _) = machine.it.ask("a") { 1 }.answer!
        machine.it.withdraw(id, from: slot)
        #expect(names(machine.it.made(slot, .success(7), at: .zero)) == ["sleep"])
        #expect(machine.it.nextDue() == .seconds(10))
    }

    @Test func `Who gives up too late withdraws nobody else`() {
        let (slot, id, _) = machine.it.ask("a") { 1 }.answer!
        _ = machine.it.made(slot, .failure(Refusal()), at: .zero)
        #expect(asked("b", visitor: 2) == slot)
        machine.it.withdraw(id, from: slot)
        #expect(names(machine.it.made(slot, .success(8), at: .zero)) == ["admit [2] to 8"])
    }

    // MARK: - made

    @Test func `An error of making goes to all who wait, and the next who asks tries again`() {
        let slot = asked("a")
        _ = machine.it.ask("a") { 2 }
        #expect(names(machine.it.made(slot, .failure(Refusal()), at: .zero)) == ["refuse [1, 2]: Refusal()"])
        #expect(machine.it.index.isEmpty)
        #expect(names(machine.it.ask("a", { 3 }).1) == ["make a"])
    }

    @Test func `Who wants it closed while it is made is told once nobody uses it`() {
        let slot = asked("a")
        #expect(machine.it.close("a", 5).0?.slot == slot)
        #expect(names(machine.it.made(slot, .success(7), at: .zero)) == ["admit [1] to 7"])
        #expect(names(machine.it.release(slot, at: .zero)) == ["close a"])
        #expect(names(machine.it.closed(slot)) == ["answer [5]: true"])
        #expect(machine.it.index.isEmpty)
    }

    @Test func `Who wants it closed while it is made and cannot be is told that there is none`() {
        let slot = asked("a")
        _ = machine.it.close("a", 5)
        let effects = names(machine.it.made(slot, .failure(Refusal()), at: .zero))
        #expect(effects == ["refuse [1]: Refusal()", "answer [5]: false"])
    }

    // MARK: - release and due

    @Test func `What nobody uses is due in the order of its last use`() {
        for (second, key) in ["a", "b", "c"].enumerated() { open(key, until: second) }
        #expect(machine.it.nextDue() == .seconds(10))
        _ = machine.it.ask("a") { 1 }
        #expect(names(machine.it.release(slot("a"), at: .seconds(3))) == [])
        #expect(machine.it.nextDue() == .seconds(11))
        #expect(names(machine.it.wake(at: .seconds(12))) == ["close b", "close c"])
        #expect(machine.it.nextDue() == .seconds(13))
    }

    @Test func `It is at rest only when the last lease is released`() {
        let slot = asked("a")
        _ = machine.it.ask("a") { 2 }
        _ = machine.it.made(slot, .success(7), at: .zero)
        #expect(names(machine.it.release(slot, at: .zero)) == [])
        #expect(names(machine.it.release(slot, at: .seconds(1))) == ["sleep"])
        #expect(machine.it.nextDue() == .seconds(11))
    }

    @Test func `One sleeps for all, until none is due`() {
        #expect(names(machine.it.made(asked("a"), .success(7), at: .zero)) == ["admit [1] to 7"])
        #expect(names(machine.it.release(slot("a"), at: .zero)) == ["sleep"])
        _ = machine.it.made(asked("b"), .success(8), at: .zero)
        #expect(names(machine.it.release(slot("b"), at: .zero)) == [])
        _ = machine.it.wake(at: .seconds(10))
        #expect(machine.it.nextDue() == nil)
        _ = machine.it.made(asked("c"), .success(9), at: .zero)
        #expect(names(machine.it.release(slot("c"), at: .seconds(10))) == ["sleep"])
    }

    @Test func `A clock that was read before another thread did its part breaks no order`() {
        open("a", until: 5)
        open("b", until: 4)
        #expect(names(machine.it.wake(at: .seconds(14))) == [])
        #expect(names(machine.it.wake(at: .seconds(15))) == ["close a", "close b"])
    }

    // MARK: - The limit

    @Test func `Beyond the limit the one used longest ago goes, but none that is in use`() {
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

    @Test func `One that cannot be closed is not asked again at once, however far above the limit`() {
        machine.it = Machine(idle: .seconds(10), limit: 0)
        let slot = asked("a")
        _ = machine.it.made(slot, .success(7), at: .zero)
        #expect(names(machine.it.release(slot, at: .zero)) == ["sleep", "close a"])
        #expect(names(machine.it.kept(slot, Refusal(), at: .seconds(1))) == [])
        #expect(machine.it.openCount == 1 && machine.it.nextDue() == .seconds(11))
        #expect(names(machine.it.wake(at: .seconds(11))) == ["close a"])
    }

    // MARK: - close

    @Test func `A key that is not there needs no closing`() {
        #expect(machine.it.close("a", 5).0 == nil)
    }

    @Test func `All who close it hear of the end`() {
        open("a", 7)
        #expect(names(machine.it.close("a", 5).1) == ["close a"])
        #expect(names(machine.it.close("a", 6).1) == [])
        #expect(names(machine.it.closed(slot("a"))) == ["answer [5, 6]: true"])
        #expect(machine.it.index.isEmpty && machine.it.openCount == 0)
    }

    @Test func `Who withdraws a wish to close leaves it open`() {
        let slot = asked("a")
        _ = machine.it.made(slot, .success(7), at: .zero)
        let place = machine.it.close("a", 5).0
        machine.it.withdraw(place!.id, from: place!.slot)
        #expect(names(machine.it.release(slot, at: .zero)) == ["sleep"])
    }

    // MARK: - kept

    @Test func `What cannot be closed is open again, for those who wait and for later`() {
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

    @Test func `Each of the two lines has its own next, and the first of both is slept for`() {
        open("a")
        _ = machine.it.close("a", 5)
        open("b", until: 2)
        _ = machine.it.kept(slot("a"), Refusal(), at: .seconds(1))
        #expect(machine.it.nextDue() == .seconds(11))
        #expect(names(machine.it.wake(at: .seconds(12))) == ["close b", "close a"])
    }

    // MARK: - shutDown

    @Test func `Shut down, it closes what is at rest at once and the others later, and refuses`() {
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

    @Test func `Shut down with nothing open, it has ended`() {
        #expect(names(machine.it.shutDown { 9 }.1) == ["end"])
    }

    @Test func `Shut down, what cannot be closed stays and is tried again`() {
        open("a")
        _ = machine.it.shutDown { 9 }
        #expect(names(machine.it.kept(slot("a"), Refusal(), at: .seconds(1))) == ["answer [9]: Refusal()"])
        #expect(names(machine.it.wake(at: .seconds(11))) == ["close a"])
        #expect(names(machine.it.closed(slot("a"))) == ["end"])
    }

    // MARK: - Cost

    @Test func `The open members give back the room that many keys took`() {
        let open = Box(FluxFamilyMembers<Int, Int>())
        for key in 0..<3_000 { _ = open.it.handle(action: .opened(key, key)) }
        for key in 0..<3_000 { _ = open.it.handle(action: .closed(key)) }
        #expect(open.it.members.capacity < 1_024)
    }

    @Test func `Slots are used again, and given back once nothing is open`() {
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
