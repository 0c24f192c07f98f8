import FluxCore
import FluxEffects
import Synchronization
import TestSupport
import Testing

/// A cancelled wait leaves nothing behind, even if what it waited for continues.
///
/// A server that polls with a timeout must not grow. Each test counts the bytes that many such waits leave, in a
/// separate process. A wait that stays registered takes more than 40 bytes; chance leaves far fewer.
@Suite struct CancelledWaitsUnderRulesTests {
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

    // A lost wait takes at least 40 bytes; what the allocator keeps for a new thread is less than 4 per wait.
    static let limit = 24

    /// Returns a creator, and the task of an event that ends only when the gate opens.
    static func endless(
        rules: [FluxRule<NestedConverter.Event>] = []
    ) -> (FluxActionCreator<NestedConverter>, FluxTask, Gate) {
        let gate = Gate()
        let creator = FluxActionCreator<NestedConverter>(
            dependency: (), store: FluxStore(initialState: Counter(), dispatcher: nil), rules: rules)
        return (creator, creator.fire(.init("endless") { await gate.opened() }), gate)
    }

    @Test func `A cancelled flush of a creator with rules leaves nothing behind`() async {
        await #expect(processExitsWith: .success) {
            let (creator, task, gate) = CancelledWaitsUnderRulesTests.endless(rules: [.sequence()])
            let next = creator.fire(.init("next"))
            let kept = await CancelledWaitsUnderRulesTests.bytesKept { await creator.flush() }
            #expect(kept < CancelledWaitsUnderRulesTests.limit, "\(kept) bytes for each")
            gate.open()
            _ = await (task.outcome, next.outcome)
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

    @Test func `Attempts of an event that is retried without a limit leave nothing behind`() async {
        await #expect(processExitsWith: .success) {
            let (first, last) = ((1_000, reached: Gate(), goesOn: Gate()), (21_000, reached: Gate(), goesOn: Gate()))
            let attempts = Failing.Attempts([first, last])
            let creator = FluxActionCreator<Failing>(
                dependency: attempts, store: FluxStore(initialState: Counter(), dispatcher: nil),
                rules: [.retry(limit: .max)])
            let task = creator.fire(.init())
            await first.reached.opened()
            let before = Heap.bytesInUse
            first.goesOn.open()
            await last.reached.opened()
            let kept = (Heap.bytesInUse - before) / 20_000
            #expect(kept < CancelledWaitsUnderRulesTests.limit, "\(kept) bytes for each")
            last.goesOn.open()
            guard case .completed = await task.outcome else { fatalError("it has not completed") }
        }
    }
}
