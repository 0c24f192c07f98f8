import FluxCore
import Workbench

extension Workload {
    static let oneSubscriber = notified(
        name: "w2",
        title: "one lossless subscriber, until it saw the last",
        subscribers: 1,
        actions: 100_000,
        atMost: 3
    )

    static let manySubscribers = notified(
        name: "w3",
        title: "1,000 lossless subscribers, per notification",
        subscribers: 1_000,
        actions: 200,
        atMost: 0.3
    )

    /// Dispatches to a store with subscribers, and waits until each of them saw the last state.
    private static func notified(
        name: String, title: String, subscribers: Int, actions: Int, atMost limit: Double
    ) -> Workload {
        let crowd = Crowd(subscribers: subscribers, actions: actions)
        return Workload(
            name: name,
            title: title,
            cells: [
                Cell(Name.floor, crowd.locked), Cell(Name.flux, crowd.flux), Cell(Name.queue, crowd.queue),
                Cell(Name.actor, crowd.actor), Cell(Name.combine, crowd.combine),
            ],
            floor: Name.floor,
            bounds: [.ratio(atMost: limit)]
        )
    }
}

/// The subscribers of one cell.
///
/// Each writes to a tally of its own, as real ones do.
private struct Crowd: Sendable {
    let subscribers: Int
    let actions: Int

    @Sendable
    func locked(_ effort: Effort) throws -> Double {
        let store = LockedStore()
        let tallies = tallies()
        for tally in tallies { store.subscribe { tally.see($0.count) } }
        return try measure(effort, tallies) { actions in
            for _ in 0..<actions { store.dispatch(.add(1)) }
        }
    }

    @Sendable
    func flux(_ effort: Effort) throws -> Double {
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        let tallies = tallies()
        let tokens = tallies.map { tally in store.subscribe { tally.see($0.count) } }
        defer { withExtendedLifetime(tokens) {} }
        return try measure(effort, tallies) { actions in
            for _ in 0..<actions { store.dispatch(action: .add(1)) }
        }
    }

    @Sendable
    func queue(_ effort: Effort) throws -> Double {
        let store = QueueStore()
        let tallies = tallies()
        for tally in tallies { store.subscribe { tally.see($0.count) } }
        return try measure(effort, tallies) { actions in
            for _ in 0..<actions { store.dispatch(.add(1)) }
        }
    }

    @Sendable
    func actor(_ effort: Effort) throws -> Double {
        let store = ActorStore()
        let tallies = tallies()
        blocking {
            for tally in tallies {
                let states = await store.states()
                Task.detached { for await state in states { tally.see(state.count) } }
            }
        }
        return try measure(effort, tallies) { actions in
            blocking { for _ in 0..<actions { await store.dispatch(.add(1)) } }
        }
    }

    @Sendable
    func combine(_ effort: Effort) throws -> Double {
        let store = CombineStore()
        let tallies = tallies(startsWithCurrent: true)
        for tally in tallies { store.subscribe { tally.see($0.count) } }
        for tally in tallies { tally.wait() }
        return try measure(effort, tallies) { actions in
            for _ in 0..<actions { store.dispatch(.add(1)) }
        }
    }

    private func tallies(startsWithCurrent: Bool = false) -> [Tally] {
        (0..<subscribers).map { _ in Tally(startsWithCurrent: startsWithCurrent) }
    }

    private func measure(_ effort: Effort, _ tallies: [Tally], dispatch: (_ actions: Int) -> Void) throws -> Double {
        let clock = ContinuousClock()
        return try effort.measure {
            for tally in tallies { tally.anticipate(actions) }
            let time = clock.measure {
                dispatch(actions)
                for tally in tallies { tally.wait() }
            }
            for tally in tallies { try tally.check() }
            return time / .nanoseconds(actions * subscribers)
        }
    }
}
