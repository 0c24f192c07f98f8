import FluxCore
import Workbench

extension Workload {
    static let oneSubscriber = notified(
        name: "w2",
        title: "one lossless subscriber, until it saw the last",
        subscribers: 1,
        actions: 100_000,
        atMost: 2.3
    )

    static let manySubscribers = notified(
        name: "w3",
        title: "1,000 lossless subscribers, per notification",
        subscribers: 1_000,
        actions: 1_000,
        atMost: 0.2
    )

    /// Dispatches to a store with subscribers, and waits until each of them has seen the last state.
    private static func notified(
        name: String, title: String, subscribers: Int, actions: Int, atMost limit: Double
    ) -> Workload {
        let crowd = Crowd(subscribers: subscribers, actions: actions)
        return Workload(
            name: name,
            title: title,
            cells: [
                Cell(Name.floor, crowd.locked), Cell(Name.flux, crowd.flux), Cell(Name.queue, crowd.queue),
                // With many subscribers it is a hundred times slower than the others, so it gets less to do.
                Cell(Name.actor, Crowd(subscribers: subscribers, actions: actions / 10).actor),
                Cell(Name.combine, crowd.combine),
            ],
            floor: Name.floor,
            bounds: [.ratio(atMost: limit)]
        )
    }
}

/// The subscribers of a cell.
///
/// Each writes to its own tally, as real subscribers do.
private struct Crowd: Sendable {
    let subscribers: Int
    let actions: Int

    @Sendable
    func locked(_ effort: Effort) throws -> Double {
        let store = LockedStore()
        let audience = Audience(subscribers)
        for tally in audience.tallies { store.subscribe { tally.see($0.count) } }
        return try measure(effort, audience) { actions in
            for _ in 0..<actions { store.dispatch(.add(1)) }
        }
    }

    @Sendable
    func flux(_ effort: Effort) throws -> Double {
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        let audience = Audience(subscribers)
        let tokens = audience.tallies.map { tally in store.subscribe { tally.see($0.count) } }
        defer { withExtendedLifetime(tokens) {} }
        return try measure(effort, audience) { actions in
            for _ in 0..<actions { store.dispatch(action: .add(1)) }
        }
    }

    @Sendable
    func queue(_ effort: Effort) throws -> Double {
        let store = QueueStore()
        let audience = Audience(subscribers)
        for tally in audience.tallies { store.subscribe { tally.see($0.count) } }
        return try measure(effort, audience) { actions in
            for _ in 0..<actions { store.dispatch(.add(1)) }
        }
    }

    @Sendable
    func actor(_ effort: Effort) throws -> Double {
        let store = ActorStore()
        let audience = Audience(subscribers)
        blocking {
            for tally in audience.tallies {
                let states = await store.states()
                Task.detached { for await state in states { tally.see(state.count) } }
            }
        }
        return try measure(effort, audience) { actions in
            blocking { for _ in 0..<actions { await store.dispatch(.add(1)) } }
        }
    }

    @Sendable
    func combine(_ effort: Effort) throws -> Double {
        let store = CombineStore()
        let audience = Audience(subscribers, startsWithCurrent: true)
        for tally in audience.tallies { store.subscribe { tally.see($0.count) } }
        return try measure(effort, audience) { actions in
            for _ in 0..<actions { store.dispatch(.add(1)) }
        }
    }

    private func measure(
        _ effort: Effort, _ audience: Audience, dispatch: (_ actions: Int) -> Void
    ) throws -> Double {
        let clock = ContinuousClock()
        return try effort.measure {
            for tally in audience.tallies { tally.anticipate(actions) }
            let time = clock.measure {
                dispatch(actions)
                audience.finish.wait()
            }
            for tally in audience.tallies { try tally.check() }
            return time / .nanoseconds(actions * subscribers)
        }
    }
}

private struct Audience: Sendable {
    let finish = Finish()
    let tallies: [Tally]

    init(_ count: Int, startsWithCurrent: Bool = false) {
        let finish = finish
        tallies = (0..<count).map { _ in Tally(finish, startsWithCurrent: startsWithCurrent) }
    }
}
