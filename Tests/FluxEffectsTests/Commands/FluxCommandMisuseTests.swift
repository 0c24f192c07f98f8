import FluxCore
import FluxEffects
import TestSupport
import Testing

/// Commands whose failure no part handles, and what their rules may do.
@Suite(.timeLimit(.minutes(5))) struct FluxCommandMisuseTests {
    struct Failure: Error {}

    struct Silent: FluxCommand {
        let canary: Canary
        func execute(state: Counter, dependency: Void) async throws { throw Failure() }
    }

    struct Loud: FluxCommand {
        func execute(state: Counter, dependency: Void) async throws { throw Failure() }
        func reduce(state: inout Counter, error: any Error) { state.count = -1 }
    }

    /// Announces nothing for its failure.
    struct Picky: FluxCommand {
        func execute(state: Counter, dependency: Void) async throws { throw Failure() }
        func reduce(state: inout Counter, error: any Error) throws { throw FluxUnchanged() }
    }

    struct Outer: FluxCommand {
        static let inner = Locked<(@Sendable () -> Void)?>(nil)
        static var rules: [FluxRule<Outer>] {
            inner.current?()
            return [.sequence(for: FluxRule.caseName)]
        }
        func execute(state: Counter, dependency: Void) async throws -> Int { state.count + 1 }
        func reduce(state: inout Counter, output: Int) { state.count = output }
    }

    struct Throwing: FluxCommand {
        let error: any Error
        func begin(state: inout Counter) throws {
            state.count += 1
            throw error
        }
        func execute(state: Counter, dependency: Void) async throws -> Int { 10 }
        func reduce(state: inout Counter, output: Int) throws { state.count += output }
    }

    /// Has its own clock, for its debounce and its retry.
    struct Patient: FluxCommand {
        static let time = TestClock()
        static var clock: any Clock<Duration> { time }
        static let rules: [FluxRule<Patient>] = [
            .debounce(for: FluxRule.caseName, .seconds(1)),
            .retry(for: FluxRule.caseName, limit: 1, backoff: .constant(.seconds(1))),
        ]
        let attempts: Recorder<Int>
        let canary: Canary
        func execute(state: Guarded, dependency: Void) async throws {
            attempts.record(state.count)
            if attempts.values.count == 1 { throw Failure() }
        }
        func begin(state: inout Guarded) { state.count += 1 }
        func reduce(state: inout Guarded, output: Void) { state.done.open() }
    }

    struct Guarded: FluxState {
        var count = 0
        let canary: Canary
        let done: Gate
        mutating func handle(action: Counter.Action) -> Guarded? { self }
    }

    @Test func `A part that is declared to throw anything is called, and may throw FluxUnchanged`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        #expect(await store.run(Throwing(error: FluxUnchanged())).outcome.isCompleted)
        #expect(store.state.count == 10 && store.revision == 1)
    }

    @Test func `A part that throws another error stops the program, and the message says where to throw it`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            FluxStore(initialState: Counter(), dispatcher: nil).run(Throwing(error: Failure()))
        }
        let message = result.said
        #expect(message.contains("Throwing.begin threw Failure()"))
        #expect(message.contains("Throw other errors from execute"))
    }

    @Test func `Running a command in pure code stops the program, and the message names run`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            store.handle.withAccess { _ in _ = store.run(Loud()) }
        }
        let message = result.said
        #expect(message.contains("FluxCore: run was used inside"))
    }

    /// Calls the first part of another command, without a `try`.
    struct Wrapping<Inner: FluxCommand>: FluxCommand where Inner.State == Counter {
        let inner: Inner
        func begin(state: inout Counter) { inner.begin(state: &state) }
        func execute(state: Counter, dependency: Void) async throws {}
    }

    @Test func `A part that throws another error stops the program even if another command calls the part`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            FluxStore(initialState: Counter(), dispatcher: nil).run(Wrapping(inner: Throwing(error: Failure())))
        }
        let message = result.said
        #expect(message.contains("Throwing.begin threw Failure()"))
    }

    @Test func `A failure that no part handles is written to the standard error output, once`() async {
        let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            _ = await store.run(Loud()).outcome
            _ = await store.run(Picky()).outcome
            let gone = Gate()
            store.run(Silent(canary: Canary(gone)))
            // The failure is reported before the command is released.
            await gone.opened()
            guard store.state.count == -1 else { fatalError("not told") }
        }
        let text = result.said
        #expect(text.split(separator: "\n").filter { $0.contains("FluxCore: Silent failed with Failure()") }.count == 1)
        #expect(!text.contains("Loud") && !text.contains("Picky"), "\(text)")
    }

    @Test func `The rules of a command may run another command`() async {
        let (store, inner) = (FluxStore(initialState: Counter(), dispatcher: nil), Recorder<FluxTask>())
        Outer.inner.withLock { $0 = { inner.record(store.run(Loud())) } }
        defer { Outer.inner.withLock { $0 = nil } }
        #expect(await store.run(Outer()).outcome.name == "completed")
        #expect(!inner.values.isEmpty)
        for task in inner.values { #expect(await task.outcome.name == "failed") }
    }

    @Test func `A released store completes a command that waits and is retried, and then both are released`() async {
        let (storeGone, commandGone, done) = (Gate(), Gate(), Gate())
        let attempts = Recorder<Int>()
        do {
            let store = FluxStore(
                initialState: Guarded(canary: Canary(storeGone), done: done), dispatcher: FluxDispatcher())
            store.run(Patient(attempts: attempts, canary: Canary(commandGone)))
        }
        for _ in 0..<2 {
            await Patient.time.sleepers(1)
            Patient.time.advance(by: .seconds(1))
        }
        await done.opened()
        await storeGone.opened()
        await commandGone.opened()
        #expect(attempts.values == [1, 1], "begun once, before the first attempt")
    }
}
