import FluxCore
import FluxEffects
import TestSupport
import Testing

/// A part of a command that changes the state is announced and saved, whatever else it calls.
///
/// The default of a part reports that it changes nothing. If it did so through the thread, that would count as the
/// report of the part that called it.
@Suite struct CommandsInCommandsAreAnnouncedTests {
    struct Failure: Error {}

    /// Uses the default of every part.
    struct Plain: FluxCommand {
        func execute(state: Counter, dependency: Void) async throws {}
    }

    /// Changes the state in one of its parts, before or after it calls the same part of another command.
    struct Outer: FluxCommand {
        enum Part: CaseIterable, Sendable { case begin, output, error }

        let part: Part
        let changesFirst: Bool

        func begin(state: inout Counter) {
            if part == .begin { change(&state) { Plain().begin(state: &$0) } }
        }
        func execute(state: Counter, dependency: Void) async throws {
            if part == .error { throw Failure() }
        }
        func reduce(state: inout Counter, output: Void) {
            if part == .output { change(&state) { Plain().reduce(state: &$0, output: ()) } }
        }
        func reduce(state: inout Counter, error: any Error) {
            if part == .error { change(&state) { Plain().reduce(state: &$0, error: error) } }
        }

        private func change(_ state: inout Counter, _ other: (inout Counter) -> Void) {
            if changesFirst { state.count += 10 }
            other(&state)
            if !changesFirst { state.count += 10 }
        }
    }

    /// The change is announced once; other parts of `Outer` that run are announced too, without a change.
    @Test(arguments: Outer.Part.allCases, [true, false])
    func `The change of a part that also calls a default is announced`(part: Outer.Part, changesFirst: Bool) async {
        let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil)
        let seen = Recorder<Int>()
        let token = store.subscribe { seen.record($0.count) }
        _ = await store.run(Outer(part: part, changesFirst: changesFirst)).outcome
        await store.flush()
        #expect(store.state.count == 11)
        #expect(seen.values.last == 11, "of \(store.revision) revisions")
        #expect(seen.values.count == Int(store.revision))
        token.unsubscribe()
    }

    /// Implements only `begin`, so no other part can announce its change.
    struct Beginning: FluxCommand {
        func begin(state: inout Counter) {
            state.count += 10
            Plain().begin(state: &state)
        }
        func execute(state: Counter, dependency: Void) async throws {}
    }

    @Test func `A begin that calls a default is one revision and is delivered to subscriptions`() async {
        let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil)
        let seen = Recorder<Int>()
        let token = store.subscribe { seen.record($0.count) }
        #expect(await store.run(Beginning()).outcome.name == "completed")
        await store.flush()
        #expect(store.state.count == 11 && store.revision == 1 && seen.values == [11])
        token.unsubscribe()
    }

    @Test func `A begin that calls a default is reported to observers`() async {
        let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil)
        let actions = Actions(store)
        #expect(await store.run(Beginning()).outcome.name == "completed")
        #expect(actions.seen.values == ["Beginning.begin"])
    }

    @Test func `A command whose parts are all defaults announces nothing`() async {
        let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil)
        #expect(await store.run(Plain()).outcome.name == "completed")
        #expect(store.revision == 0)
    }

    /// Reports its failure through a change, and calls a default as well.
    struct Telling: FluxCommand {
        func execute(state: Counter, dependency: Void) async throws { throw Failure() }
        func reduce(state: inout Counter, error: any Error) {
            state.count = -1
            Plain().reduce(state: &state, error: error)
        }
    }

    @Test func `A failure that a part handles is not reported, even if the part calls a default`() async {
        let result = await #expect(processExitsWith: .success, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            _ = await store.run(Telling()).outcome
            // Runs another command, in case a report came only after the end of the first one.
            _ = await store.run(Plain()).outcome
            guard store.state.count == -1 && store.revision == 1 else { fatalError("not announced") }
        }
        let text = result.said
        #expect(!text.contains("failed with"), "\(text)")
    }

    /// Passes every part on to another command.
    struct Wrapped<Inner: FluxCommand>: FluxCommand {
        let inner: Inner

        func begin(state: inout Inner.State) { inner.begin(state: &state) }
        func execute(state: Inner.State, dependency: Inner.Dependency) async throws -> Inner.Output {
            try await inner.execute(state: state, dependency: dependency)
        }
        func reduce(state: inout Inner.State, output: Inner.Output) { inner.reduce(state: &state, output: output) }
        func reduce(state: inout Inner.State, error: any Error) { inner.reduce(state: &state, error: error) }
    }

    @Test func `A command that wraps another one behaves like that one`() async {
        let store = FluxStore(initialState: Counter(count: 1), dispatcher: nil)
        #expect(await store.run(Wrapped(inner: Beginning())).outcome.name == "completed")
        #expect(await store.run(Wrapped(inner: Telling())).outcome.name == "failed")
        #expect(store.state.count == -1)
    }

    /// Decides by itself whether there is nothing to announce.
    struct Rarely: FluxCommand {
        let amount: Int
        func begin(state: inout Counter) throws(FluxUnchanged) {
            if amount == 0 { throw FluxUnchanged() }
            state.count += amount
        }
        func execute(state: Counter, dependency: Void) async throws {}
    }

    @Test func `A part may report that it changed nothing`() async {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        store.run(Rarely(amount: 0))
        #expect(store.revision == 0)
        store.run(Rarely(amount: 1))
        #expect(store.revision == 1)
    }

    /// Calls a part that is declared to throw, which does not compile without a `try`.
    struct Besides: FluxCommand {
        let amount: Int
        func begin(state: inout Counter) {
            state.count += 10
            try? Rarely(amount: amount).begin(state: &state)
        }
        func execute(state: Counter, dependency: Void) async throws {}
    }

    /// Calls it with `try`, so its report counts for the whole part.
    struct Thereby: FluxCommand {
        let amount: Int
        func begin(state: inout Counter) throws {
            state.count += 10
            try Rarely(amount: amount).begin(state: &state)
        }
        func execute(state: Counter, dependency: Void) async throws {}
    }

    @Test func `A part called with try? reports only for itself, and with try also for its caller`() {
        let store = FluxStore(initialState: Counter(), dispatcher: nil)
        store.run(Besides(amount: 0))
        #expect(store.state.count == 10 && store.revision == 1)
        store.run(Besides(amount: 1))
        #expect(store.state.count == 21 && store.revision == 2)
        store.run(Thereby(amount: 0))
        #expect(store.state.count == 21 && store.revision == 2, "all of it is taken back")
        store.run(Thereby(amount: 1))
        #expect(store.state.count == 32 && store.revision == 3)
    }
}
