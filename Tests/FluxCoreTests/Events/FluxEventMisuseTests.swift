import Testing

@testable import FluxCore

/// What stops the program where events are concerned, and what is written where nobody listens.
@Suite struct FluxEventMisuseTests {
    typealias Rule = FluxRule<WorkConverter.Event>
    typealias Creator = FluxActionCreator<WorkConverter>

    /// A creator with a condition that uses it, and two events that make it be asked.
    static func fire(using body: @escaping @Sendable (Creator, FluxTask) -> Void) {
        let place = Locked<(Creator, FluxTask)?>(nil)
        let rule = Rule.unique(cancelling: .earlier, for: { _ in 1 }) { _, _ in
            if let (creator, task) = place.current { body(creator, task) }
            return true
        }
        let creator = Creator(
            dependency: .init { _ in true }, store: FluxStore(initialState: Log(), dispatcher: nil), rules: [rule])
        let task = creator.fire(.add(1))
        place.withLock { $0 = (creator, task) }
        creator.fire(.add(2))
    }

    private func expect(_ result: ExitTest.Result?, says message: String) {
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        #expect(text.contains(message), "\(text)")
    }

    @Test func `A condition that cancels stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.fire { $1.cancel() }
        }
        expect(result, says: "FluxTask.cancel() was used inside a condition of a FluxRule")
    }

    @Test func `A condition that counts stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.fire { creator, _ in _ = creator.inFlight }
        }
        expect(result, says: "inFlight was used inside a condition of a FluxRule")
    }

    @Test func `A condition that cancels all stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            Self.fire { creator, _ in creator.cancelAll() }
        }
        expect(result, says: "cancelAll() was used inside a condition of a FluxRule")
    }

    @Test func `A retry of what cannot throw stops the program with a message`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxActionCreator<CounterConverter>(
                dispatcher: FluxDispatcher(), rules: [.retry(for: FluxRule.caseName, limit: 1)])
        }
        expect(result, says: "a rule .retry was given to a creator of CounterConverter")
    }

    @Test func `A shutdown within less than no time stops the program with a message`() async {
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

    @Test func `An error that nobody would get to know is written to the standard error output, once`() async {
        let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
            let (told, gone) = (Recorder<Bool>(), (0..<3).map { _ in Gate() })
            let quiet = FluxActionCreator<Failing>(dispatcher: FluxDispatcher())
            let heard = FluxActionCreator<Failing>(dispatcher: FluxDispatcher()) { _, _ in told.record(true) }
            quiet.fire(.untold(Canary(gone[0])))
            quiet.fire(.told(Canary(gone[1])))
            heard.fire(.untold(Canary(gone[2])))
            // It is told after the end, and before the event goes.
            for gate in gone { await gate.opened() }
            guard told.values == [true] else { fatalError("not told") }
        }
        let text = String(decoding: result?.standardErrorContent ?? [], as: UTF8.self)
        let lines = text.split(separator: "\n").filter { $0.hasPrefix("FluxCore: ") }
        #expect(lines == ["FluxCore: Failing failed with Failure(), and its creator has no onFailure."])
    }

    @Test func `Durations without end are as good as very long ones`() async {
        let creator = Creator(
            dependency: .init(), dispatcher: FluxDispatcher(),
            rules: [
                .debounce(for: { if case .job = $0 { 1 } else { nil } }, .seconds(Int64.max)),
                .throttle(for: { _ in 2 }, .seconds(Int64.max), latest: false),
            ])
        let waiting = creator.fire(.job("x", 1))
        #expect(await creator.fire(.add(1)).outcome.name == "completed")
        #expect(await creator.fire(.add(1)).outcome.name == "dropped")
        async let counts = creator.shutdown(within: .seconds(Int64.max))
        waiting.cancel()
        #expect(await counts == FluxShutdown(completed: 1, cancelled: 1, dropped: 1))
    }

    @Test func `The case of an enum that describes itself is still its key`() {
        enum Described: FluxEvent, CustomStringConvertible {
            case one, two
            case three(Int)
            var description: String { self.isOne ? "the first" : "another" }
            var isOne: Bool { if case .one = self { true } else { false } }
        }
        func name(_ event: Described) -> String { "\(FluxRule<Described>.caseName(event)!)" }
        #expect(name(.three(1)) == "three")
        #expect(name(.three(2)) == "three")
        #expect(name(.one) != name(.two))
    }
}
