import Dispatch
import FluxCore
import FluxEffects
import TestSupport
import Testing

/// Rules must not keep the conversion of an event, and an event that never started must not look started.
@Suite(.timeLimit(.minutes(5))) struct RulesLetGoOfConversionsTests {
    struct Add: FluxEvent {
        let amount: Int
    }

    enum Adding: FluxActionConverter {
        static func convert(event: Add, dependency: Void, actionHandler: @escaping @Sendable (Counter.Action) -> Void) {
            actionHandler(.add(event.amount))
        }
    }

    @Test func `An event of a callback converter with rules completes, and the next one proceeds`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        let creator = FluxActionCreator<Adding>(
            store: store,
            rules: [
                .sequence(for: { _ in true }, when: { $0.amount >= $1.amount }),
                .unique(cancelling: .later, for: { $0.amount }, when: { $0.amount < $1.amount }),
            ])
        let tasks = (1...100).map { creator.fire(Add(amount: $0)) }
        for task in tasks {
            guard case .completed = await task.outcome else {
                Issue.record("not completed")
                return
            }
        }
        #expect(store.state.count == 5050)
    }

    /// Compared by its number, and dispatches when it is released.
    final class Room: Hashable, Sendable {
        let number: Double
        private let farewell: Farewell

        init(_ number: Double, _ farewell: Farewell) { (self.number, self.farewell) = (number, farewell) }

        static func == (one: Room, other: Room) -> Bool { one.number == other.number }
        func hash(into hasher: inout Hasher) { hasher.combine(number) }
    }

    struct First: FluxRuling {
        func decide(on event: Add, inFlight: FluxInFlightEvents<Add>) -> FluxDecision {
            inFlight.isEmpty ? .start : .drop
        }
    }

    @Test(arguments: [
        "sequence", "condition", "earlier", "later", "debounce", "throttle", "latest", "custom", "unequal to itself",
    ])
    func `A key that is an object is released while no lock is held`(_ name: String) async {
        let (store, clock) = (FluxStore(initialState: Counter(), dispatcher: nil), TestClock())
        let (target, gone) = (FluxStore(initialState: Counter(), dispatcher: nil), Highest())
        let subscription = target.subscribe { gone.see($0.count) }
        let key: FluxRule<Add>.Key = { event in
            Room(name == "unequal to itself" ? .nan : Double(event.amount % 3), Farewell(to: target))
        }
        let made = Locked(0)
        let counted: FluxRule<Add>.Key = { event in
            made.withLock { $0 += 1 }
            return key(event)
        }
        let rule: FluxRule<Add> =
            switch name {
            case "sequence", "unequal to itself": .sequence(for: counted)
            case "condition": .sequence(for: counted, when: { $0.amount > $1.amount })
            case "earlier": .unique(cancelling: .earlier, for: counted)
            case "later": .unique(cancelling: .later, for: counted)
            case "debounce": .debounce(for: counted, .seconds(1))
            case "throttle": .throttle(for: counted, .seconds(1), latest: false)
            case "latest": .throttle(for: counted, .seconds(1), latest: true)
            default: .custom(First(), for: counted)
            }
        let creator = FluxActionCreator<Adding>(store: store, rules: [rule], clock: clock)
        for _ in 0..<4 {
            for amount in 1...30 { creator.fire(Add(amount: amount)) }
            if ["debounce", "latest"].contains(name) { await clock.sleepers(3) }
            clock.advance(by: .seconds(1))
            await creator.flush()
        }
        clock.advance(by: .seconds(10))
        await gone.reaches(made.current)
        subscription.unsubscribe()
    }

    @Test func `The key of a timer that outlives its event is released while no lock is held`() async {
        let (store, clock) = (FluxStore(initialState: Counter(), dispatcher: nil), TestClock())
        let (target, gone) = (FluxStore(initialState: Counter(), dispatcher: nil), Highest())
        let subscription = target.subscribe { gone.see($0.count) }
        let creator = FluxActionCreator<CounterConverter>(
            store: store,
            rules: [.throttle(for: { _ in Room(1, Farewell(to: target)) }, .seconds(1), latest: false)], clock: clock)
        // The event outlasts its window, so the group still has its key.
        let hold = HandlerHold<Counter.Action>()
        creator.fire(.hold(hold))
        hold.isKept.wait()
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        _ = await creator.fire(.add(1)).outcome
        await clock.sleepers(1)
        clock.advance(by: .seconds(1))
        await gone.reaches(1)
        hold.letGo()
        await creator.flush()
        await gone.reaches(2)
        subscription.unsubscribe()
    }
}
