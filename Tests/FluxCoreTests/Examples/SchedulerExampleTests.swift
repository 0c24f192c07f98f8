import FluxCore
import Testing

// CONTRIBUTING.md shows the code down to the suite, as it stands here.

/// While one event runs, only the newest event fired since then waits; older waiting ones are dropped.
final class NewestWaits: FluxScheduler {
    private struct Places {
        var running: FluxTicket?
        var waiting: FluxTicket?
    }

    private let places = FluxLock(Places())

    func fired(_ ticket: FluxTicket) {
        places.withLock { places in
            guard places.running != nil else {
                places.running = ticket
                return ticket.start()  // only enqueues a request, so a lock may be held
            }
            places.waiting?.drop()
            places.waiting = ticket
        }
    }

    func ended(_ ticket: FluxTicket, _ outcome: FluxTask.Outcome) {
        places.withLock { places in
            if places.waiting === ticket { places.waiting = nil }
            guard places.running === ticket else { return }
            (places.running, places.waiting) = (places.waiting, nil)
            places.running?.start()
        }
    }
}

@Suite(.timeLimit(.minutes(1))) struct SchedulerExampleTests {
    private enum Work: FluxAsyncActionConverter {
        struct Event: FluxEvent { let number: Int }
        struct Action: FluxAction { let number: Int }

        /// The event of the number 1 waits for the latch.
        static func convert(
            event: Event, dependency latch: FluxLatch, send: @escaping @Sendable (Action) -> Void
        ) async throws {
            if event.number == 1 { await latch.wait() }
            send(Action(number: event.number))
        }
    }

    private struct Done: FluxState {
        var numbers: [Int] = []

        mutating func handle(action: Work.Action) -> Done? {
            numbers.append(action.number)
            return self
        }
    }

    private let latch = FluxLatch()
    private let store = FluxStore(initialState: Done(), dispatcher: nil)
    private let creator: FluxActionCreator<Work>

    init() {
        creator = FluxActionCreator(dependency: latch, store: store, schedulers: [NewestWaits()])
    }

    private func fire(_ numbers: ClosedRange<Int>) -> [FluxTask] { numbers.map { creator.fire(.init(number: $0)) } }

    @Test func runsTheFirstAndTheNewest() async {
        let tasks = fire(1...4)
        #expect(await tasks[1].outcome.isDropped)
        #expect(await tasks[2].outcome.isDropped)
        latch.open()
        #expect(await tasks[0].outcome.isCompleted)
        #expect(await tasks[3].outcome.isCompleted)
        #expect(store.state.numbers == [1, 4])
    }

    @Test func goesOnBehindOneThatWasCancelled() async {
        let tasks = fire(1...2)
        tasks[0].cancel()
        #expect(await tasks[1].outcome.isCompleted)
        #expect(store.state.numbers == [2])
    }

    @Test func forgetsOneThatWasCancelledWhileItWaited() async {
        let tasks = fire(1...2)
        tasks[1].cancel()
        #expect(await tasks[1].outcome.isCancelled)
        latch.open()
        #expect(await tasks[0].outcome.isCompleted)
        #expect(await fire(3...3)[0].outcome.isCompleted)
        #expect(store.state.numbers == [1, 3])
    }
}
