import CountingAllocator
import FluxCore
import Workbench

/// A way to dispatch to a store with a subscriber.
struct Scenario {
    let name: String
    /// How many actions are dispatched before the thread waits until the subscriber has seen the last.
    let actionsInARow: Int

    /// How many allocations an action may make on average.
    ///
    /// Above zero, because the runtime and the queues allocate from time to time, which is not the action's cost. The
    /// first action after a wait wakes the queue, for which Dispatch allocates twice: the block, and its place in the
    /// queue. On a busy machine some later actions wake it too.
    let limit: Double

    static let all = [
        Scenario(name: "10,000 actions, then a wait for the subscriber", actionsInARow: 10_000, limit: 0.01),
        Scenario(name: "100 actions, then a wait for the subscriber", actionsInARow: 100, limit: 0.05),
        Scenario(name: "each action waits for the subscriber", actionsInARow: 1, limit: 2.1),
    ]

    func allocationsPerAction(_ actions: Int) throws -> Double {
        let store = FluxStore(initialState: Sample(), dispatcher: nil)
        let finish = Finish()
        let tally = Tally(finish)
        let token = store.subscribe { tally.see($0.count) }
        defer { withExtendedLifetime(token) {} }
        func dispatch(_ actions: Int) {
            for _ in 0..<actions / actionsInARow {
                tally.anticipate(actionsInARow)
                for _ in 0..<actionsInARow { store.dispatch(action: .add(1)) }
                finish.wait()
            }
        }
        // The first ones create the queue, its threads and the buffers.
        dispatch(actions / 10)
        let before = allocation_count()
        dispatch(actions)
        let count = allocation_count() - before
        try tally.check()
        return Double(count) / Double(actions)
    }
}

/// Throws unless allocations of Swift objects are counted at all.
func calibrate() throws {
    let before = allocation_count()
    let boxes = (0..<1_000).map(Box.init)
    let count = allocation_count() - before
    withExtendedLifetime(boxes) {}
    if !(1_000...1_100).contains(count) {
        throw WrongCount(description: "\(count) allocations were counted where there are 1000")
    }
}

private final class Box {
    let number: Int

    init(_ number: Int) {
        self.number = number
    }
}
