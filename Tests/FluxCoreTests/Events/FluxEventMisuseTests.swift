import TestSupport
import Testing

@testable import FluxCore

/// Misuse of events that stops the program, and errors that are written to standard error because nothing handles them.
@Suite struct FluxEventMisuseTests {
    typealias Creator = FluxActionCreator<WorkConverter>

    /// Fires two events; for the second one, the scheduler calls a closure with the creator and the first event's task.
    static func fire(using body: @escaping @Sendable (Creator, FluxTask) -> Void) {
        let place = Locked<(Creator, FluxTask)?>(nil)
        let scheduler = Scheduling(starting: { ticket in
            if let (creator, task) = place.current { body(creator, task) }
            ticket.start()
        })
        let creator = Creator(
            dependency: .init { _ in true }, store: FluxStore(initialState: Log(), dispatcher: nil),
            schedulers: [scheduler])
        let task = creator.fire(.add(1))
        place.withLock { $0 = (creator, task) }
        creator.fire(.add(2))
    }

    private func expect(_ result: ExitTest.Result?, says message: String) {
        let text = result.said
        #expect(text.contains(message), "\(text)")
    }

    @Test func `A scheduler that cancels a task stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.fire { $1.cancel() }
        }
        expect(result, says: "FluxTask.cancel() was used inside a FluxScheduler, or a condition of a rule")
    }

    @Test func `A scheduler that reads inFlight stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.fire { creator, _ in _ = creator.inFlight }
        }
        expect(result, says: "inFlight was used inside a FluxScheduler, or a condition of a rule")
    }

    @Test func `A scheduler that calls cancelAll stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.fire { creator, _ in creator.cancelAll() }
        }
        expect(result, says: "cancelAll() was used inside a FluxScheduler, or a condition of a rule")
    }

    @Test func `A shutdown within a negative duration stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            await Creator(dependency: .init(), dispatcher: FluxDispatcher()).shutdown(within: .seconds(-1))
        }
        expect(result, says: "shutdown(within:) was given a negative duration")
    }

    enum Failing: FluxAsyncActionConverter {
        enum Event: FluxEvent { case told(Canary), untold(Canary) }
        typealias Action = Counter.Action
        struct Failure: Error {}
        static func convert(event: Event, dependency: Void, send: @escaping @Sendable (Action) -> Void) async throws {
            throw Failure()
        }
        static func action(for error: any Error, event: Event) -> Action? {
            if case .told = event { .add(1) } else { nil }
        }
    }

    @Test func `An error that nothing handles is written to standard error once`() async {
        let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
            let (told, gone) = (Recorder<Bool>(), (0..<3).map { _ in Gate() })
            let quiet = FluxActionCreator<Failing>(dispatcher: FluxDispatcher())
            let heard = FluxActionCreator<Failing>(dispatcher: FluxDispatcher()) { _, _ in told.record(true) }
            quiet.fire(.untold(Canary(gone[0])))
            quiet.fire(.told(Canary(gone[1])))
            heard.fire(.untold(Canary(gone[2])))
            // The error is reported before the event is released.
            for gate in gone { await gate.opened() }
            guard told.values == [true] else { fatalError("not told") }
        }
        let text = result.said
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("FluxCore: ") }
        #expect(lines == ["FluxCore: Failing failed, and its creator has no onFailure: Failure()"])
    }

    @Test func `A shutdown within Int64.max seconds waits until its events have ended`() async {
        let creator = Creator(dependency: .init { _ in true }, dispatcher: FluxDispatcher())
        let waiting = creator.fire(.add(1))
        async let counts = creator.shutdown(within: .seconds(Int64.max))
        waiting.cancel()
        #expect(await counts.cancelled == 1)
    }

    @Test func `Reading the single event of a shared conversion stops the program with a message`() async {
        enum Sharing: FluxActionConverter {
            struct Event: FluxEvent {}
            static func convert(event: Event, dependency: Void, actionHandler: @escaping (Counter.Action) -> Void) {}
            static func start(_ conversion: FluxConversion<Self>) { _ = conversion.event }
        }
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let creator = FluxActionCreator<Sharing>(dispatcher: FluxDispatcher())
            creator.fire([.init(), .init()])
            await creator.flush()
        }
        expect(result, says: "shares one conversion among events")
    }

    @Test func `Ending a shared conversion by hand stops the program with a message, however it ended`() async {
        enum Ending: FluxActionConverter {
            struct Event: FluxEvent {}
            static func convert(event: Event, dependency: Void, actionHandler: @escaping (Counter.Action) -> Void) {}
            static func start(_ conversion: FluxConversion<Self>) { conversion.end(.completed) }
        }
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let creator = FluxActionCreator<Ending>(dispatcher: FluxDispatcher())
            creator.fire([.init(), .init()])
            await creator.flush()
        }
        expect(result, says: "shares one conversion among events")
    }
}
