import FluxCore
import FluxObservation
import Synchronization
import TestSupport
import Testing

/// A cancelled wait leaves nothing behind, even if what it waited for continues.
///
/// A server that polls with a timeout must not grow. Each test counts the bytes that many such waits leave, in a
/// separate process. A wait that stays registered takes more than 40 bytes. Less than the smallest block, 24 bytes, is
/// chance: a thread that starts meanwhile keeps at most 200 kB of freed memory, which is less than 4 bytes per wait.
@Suite struct CancelledWaitsLeaveNothingTests {
    /// Starts waits by the hundred and cancels them, some before and some after they have begun to wait.
    static func giveUp(_ count: Int, _ wait: @escaping @Sendable () async -> Void) async {
        for _ in 0..<count / 100 {
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<100 { group.addTask { await wait() } }
                await Task.yield()
                group.cancelAll()
            }
        }
    }

    /// Returns the number of bytes that each wait leaves behind.
    static func bytesKept(by wait: @escaping @Sendable () async -> Void) async -> Int {
        await Heap.bytesKept { await giveUp($0, wait) }
    }

    static let limit = 24

    /// Returns a creator, and the task of an event that ends only when the gate opens.
    static func endless(
        schedulers: [any FluxScheduler] = []
    ) -> (FluxActionCreator<NestedConverter>, FluxTask, Gate) {
        let gate = Gate()
        let creator = FluxActionCreator<NestedConverter>(
            dependency: (), store: FluxStore(initialState: Counter(), dispatcher: nil), schedulers: schedulers)
        return (creator, creator.fire(.init("endless") { await gate.opened() }), gate)
    }

    @Test func `The measurement finds nothing for waits that have nothing to wait for`() async {
        await #expect(processExitsWith: .success) {
            let (creator, task, gate) = CancelledWaitsLeaveNothingTests.endless()
            gate.open()
            _ = await task.outcome
            let kept = await CancelledWaitsLeaveNothingTests.bytesKept {
                await creator.flush()
                _ = await task.outcome
            }
            #expect(kept < CancelledWaitsLeaveNothingTests.limit, "\(kept) bytes for each")
        }
    }

    @Test func `A cancelled flush of a creator leaves nothing`() async {
        await #expect(processExitsWith: .success) {
            let (creator, task, gate) = CancelledWaitsLeaveNothingTests.endless()
            let kept = await CancelledWaitsLeaveNothingTests.bytesKept { await creator.flush() }
            #expect(kept < CancelledWaitsLeaveNothingTests.limit, "\(kept) bytes for each")
            gate.open()
            await creator.flush()
            guard case .completed = await task.outcome else { fatalError("ended by those who waited") }
        }
    }

    @Test func `A cancelled flush of a creator with a scheduler leaves nothing`() async {
        await #expect(processExitsWith: .success) {
            let (creator, task, gate) = CancelledWaitsLeaveNothingTests.endless(schedulers: [Scheduling()])
            let next = creator.fire(.init("next"))
            let kept = await CancelledWaitsLeaveNothingTests.bytesKept { await creator.flush() }
            #expect(kept < CancelledWaitsLeaveNothingTests.limit, "\(kept) bytes for each")
            gate.open()
            _ = await (task.outcome, next.outcome)
        }
    }

    @Test func `A cancelled wait for an outcome leaves nothing`() async {
        await #expect(processExitsWith: .success) {
            let (_, task, gate) = CancelledWaitsLeaveNothingTests.endless()
            let kept = await CancelledWaitsLeaveNothingTests.bytesKept { _ = await task.outcome }
            #expect(kept < CancelledWaitsLeaveNothingTests.limit, "\(kept) bytes for each")
            gate.open()
            guard case .completed = await task.outcome else { fatalError("ended by those who waited") }
        }
    }

    @Test func `A cancelled loop over the life of an event leaves nothing`() async {
        await #expect(processExitsWith: .success) {
            let (_, task, gate) = CancelledWaitsLeaveNothingTests.endless()
            let kept = await CancelledWaitsLeaveNothingTests.bytesKept { for await _ in task.events {} }
            #expect(kept < CancelledWaitsLeaveNothingTests.limit, "\(kept) bytes for each")
            gate.open()
            var names: [String] = []
            for await event in task.events { names.append(event.name) }
            guard names == ["started", "completed"] else { fatalError("\(names)") }
        }
    }

    @Test func `A cancelled flush of a store with a blocked handler leaves nothing`() async {
        await #expect(processExitsWith: .success) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let gate = Gate()
            let token = store.subscribe { _ in gate.wait() }
            store.dispatch(action: .add(1))
            let kept = await CancelledWaitsLeaveNothingTests.bytesKept { await store.flush() }
            #expect(kept < CancelledWaitsLeaveNothingTests.limit, "\(kept) bytes for each")
            gate.open()
            await store.flush()
            token.unsubscribe()
        }
    }

    /// Fails until its last stop, and counts the attempts.
    enum Failing: FluxAsyncActionConverter {
        struct Event: FluxEvent {}
        struct Failure: Error { let text: String }

        final class Attempts: Sendable {
            let count = Atomic<Int>(0)
            /// The attempts at which it waits, and the gates for each.
            let stops: [(Int, reached: Gate, goesOn: Gate)]
            init(_ stops: [(Int, reached: Gate, goesOn: Gate)]) { self.stops = stops }
        }

        static func convert(
            event: Event, dependency attempts: Attempts, send: @escaping @Sendable (Counter.Action) -> Void
        ) async throws {
            let count = attempts.count.wrappingAdd(1, ordering: .relaxed).newValue
            for stop in attempts.stops where stop.0 == count {
                stop.reached.open()
                await stop.goesOn.opened()
                if stop.0 == attempts.stops.last?.0 { return }
            }
            throw Failure(text: "the \(count)th attempt of an event that was tried many times")
        }
    }

    /// Retries at once.
    final class Again: FluxScheduler {
        func fired(_ ticket: FluxTicket) { ticket.start() }
        func retries(_ ticket: FluxTicket, attempt: Int, _ error: any Error) -> Bool {
            ticket.start()
            return true
        }
    }

    @Test func `A cancelled finish of a subscription leaves nothing`() async {
        await #expect(processExitsWith: .success) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            let (entered, gate) = (Gate(), Gate())
            let token = store.subscribe { _ in
                entered.open()
                gate.wait()
            }
            store.dispatch(action: .add(1))
            await entered.opened()
            token.unsubscribe()
            let kept = await CancelledWaitsLeaveNothingTests.bytesKept { await token.finish() }
            #expect(kept < CancelledWaitsLeaveNothingTests.limit, "\(kept) bytes for each")
            gate.open()
            await token.finish()
        }
    }

    @Test func `A cancelled flush of a delivery leaves nothing`() async {
        await #expect(processExitsWith: .success) {
            let gate = Gate()
            let delivery = FluxQueueDelivery<Int> { _ in gate.wait() }
            delivery.put(1)?.settle()
            let kept = await CancelledWaitsLeaveNothingTests.bytesKept { await delivery.flush() }
            #expect(kept < CancelledWaitsLeaveNothingTests.limit, "\(kept) bytes for each")
            gate.open()
            await delivery.finish()
        }
    }

    @Test func `An event that is retried without a limit keeps nothing of its attempts`() async {
        await #expect(processExitsWith: .success) {
            let (first, last) = ((1_000, reached: Gate(), goesOn: Gate()), (21_000, reached: Gate(), goesOn: Gate()))
            let attempts = Failing.Attempts([first, last])
            let creator = FluxActionCreator<Failing>(
                dependency: attempts, store: FluxStore(initialState: Counter(), dispatcher: nil),
                schedulers: [Again()])
            let task = creator.fire(.init())
            await first.reached.opened()
            let before = Heap.bytesInUse
            first.goesOn.open()
            await last.reached.opened()
            let kept = (Heap.bytesInUse - before) / 20_000
            #expect(kept < CancelledWaitsLeaveNothingTests.limit, "\(kept) bytes for each")
            last.goesOn.open()
            guard case .completed = await task.outcome else { fatalError("it has not completed") }
        }
    }
}
