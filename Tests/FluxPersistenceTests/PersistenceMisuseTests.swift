import FluxCore
import FluxPersistence
import TestSupport
import Testing

/// Meaningless limits stop the program with a message at the call that gives them.
@Suite struct PersistenceMisuseTests {
    private func expect(_ result: ExitTest.Result?, says message: String) {
        let text = result.said
        #expect(text.contains(message), "\(text)")
    }

    @Test func `A negative loadTimeout is refused with a persistence and with a log`() async {
        let persistence = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxStore(
                initialState: Counter(), dispatcher: nil, persistence: MemoryPersistence<Counter>(),
                loadTimeout: .seconds(-1))
        }
        expect(
            persistence, says: "FluxCore: a loadTimeout cannot be negative (-1.0 seconds). Give nil for no limit.")
        let log = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxStore(
                initialState: Counter(), dispatcher: nil, log: MemoryLog<Counter>(), loadTimeout: .nanoseconds(-1))
        }
        expect(log, says: "FluxCore: a loadTimeout cannot be negative")
    }

    @Test func `A compactEvery of zero is refused`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxStore(initialState: Counter(), dispatcher: nil, log: MemoryLog<Counter>(), compactEvery: 0)
        }
        expect(
            result, says: "FluxCore: compactEvery is 0, but has to be 1 or more.")
    }

    @Test func `A capacity of zero is refused, and by restored(from:) a negative one`() async {
        let zero = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxStore(initialState: Counter(), dispatcher: nil, log: MemoryLog<Counter>(), capacity: 0)
        }
        expect(zero, says: "FluxCore: with a capacity of 0 no action could be dispatched durably. Give 1 or more.")
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = try await FluxStore.restored(
                from: MemoryLog<Counter>(), initialState: Counter(), dispatcher: nil, capacity: -3)
        }
        expect(
            result, says: "FluxCore: with a capacity of -3 no action could be dispatched durably. Give 1 or more.")
    }

    @Test func `A negative version is refused with a message that names it`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            _ = FluxFile<Counter>(path: "/nowhere", version: -2, encode: { _ in [] }, decode: { _ in Counter() })
        }
        expect(result, says: "FluxCore: the version of a FluxFile cannot be negative (-2). Start with 0 or 1.")
    }

    struct Dispatching: FluxState {
        enum Action: FluxAction { case act }
        mutating func handle(action: Action) -> Dispatching? {
            FluxDispatcher().dispatch(action: action)
            return self
        }
    }

    @Test func `A dispatch inside handle(action:) stops the program even during the replay of a log`() async {
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let log = MemoryLog<Dispatching>()
            try await log.append([FluxLogEntry(number: 1, action: .act)])
            _ = try await FluxStore.restored(from: log, initialState: Dispatching(), dispatcher: nil)
        }
        expect(result, says: "FluxState.handle(action:)")
    }

    @Test func `The longest possible loadTimeout is accepted`() async {
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: MemoryPersistence(Counter(count: 7)),
            loadTimeout: .seconds(Int64.max))
        _ = await store.ready
        #expect(store.state.count == 7)
    }

    @Test func `A loadTimeout of zero and limits of one are accepted`() async throws {
        let log = MemoryLog<Counter>()
        let store = FluxStore(initialState: Counter(), dispatcher: nil, log: log, compactEvery: 1, capacity: 1)
        for _ in 0..<5 { try await store.dispatch(durably: .add(1)) }
        #expect(log.contents.snapshot?.state.count == 5)
        let gate = Gate()
        let persistence = MemoryPersistence<Counter>()
        persistence.script.block(until: gate)
        let late = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: persistence, loadTimeout: .zero, onFailure: { _ in })
        guard case .timedOut = await late.ready else {
            Issue.record("it should not have waited")
            return
        }
        gate.open()
    }
}
