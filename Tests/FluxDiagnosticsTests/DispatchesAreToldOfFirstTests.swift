import FluxCore
import FluxDiagnostics
import TestSupport
import Testing

/// Observers are notified that an action is under way before it is applied.
///
/// Otherwise the time measured between the two has no length, and a trace shows the change before its cause.
@Suite struct DispatchesAreToldOfFirstTests {
    enum Note: Equatable { case dispatched, handled, applied }

    /// Records when it handles an action.
    struct Handling: FluxState {
        let notes: Recorder<Note>
        func handle(action: Counter.Action) -> Handling? {
            notes.record(.handled)
            if case .addSilently = action { return nil }
            return self
        }
    }

    /// Records what it is notified of.
    struct Looker: FluxInstrumentation {
        let notes: Recorder<Note>
        func dispatched(_ action: any FluxAction, origin: FluxOrigin?) { notes.record(.dispatched) }
        func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
            notes.record(.applied)
        }
    }

    let notes = Recorder<Note>()
    let dispatcher = FluxDispatcher()
    let store: FluxStore<Handling>

    init() {
        store = FluxStore(initialState: Handling(notes: notes), dispatcher: dispatcher)
    }

    @Test func `An action to a store is reported before it is handled, announced or not`() {
        store.instrument(Looker(notes: notes))
        store.dispatch(action: .add(1))
        store.dispatch(action: .addSilently(1))
        #expect(notes.values == [.dispatched, .handled, .applied, .dispatched, .handled, .applied])
    }

    @Test func `An action from a dispatcher or another module is reported before it is handled`() {
        store.instrument(Looker(notes: notes))
        dispatcher.add(1)
        store.handle.withAccess { _ = $0.apply(.action(.add(1)), pastGate: true) }
        #expect(notes.values == [.dispatched, .handled, .applied, .dispatched, .handled, .applied])
    }

    @Test func `An action on an instrumented dispatcher is reported before it is handled`() {
        dispatcher.instrument(Looker(notes: notes))
        dispatcher.add(1)
        #expect(notes.values == [.dispatched, .handled, .applied])
    }

    @Test func `A held action is reported once, when it is applied`() {
        store.instrument(Looker(notes: notes))
        store.handle.withAccess { $0.hold(by: { _ in false }) }
        store.dispatch(action: .add(1))
        #expect(notes.values == [])
        store.handle.withAccess { _ = $0.apply(.action(.add(1)), pastGate: true) }
        #expect(notes.values == [.dispatched, .handled, .applied])
    }

    @Test func `Each of many concurrent actions is reported before it is handled`() async {
        store.instrument(Looker(notes: notes))
        await onThreads(4) { [store] _ in
            for number in 1...500 { store.dispatch(action: .add(number)) }
        }
        let values = notes.values.filter { $0 != .applied }
        #expect(values.count == 4_000 && notes.values.count == 6_000)
        let pairs = stride(from: 0, to: values.count, by: 2).allSatisfy {
            values[$0] == .dispatched && values[$0 + 1] == .handled
        }
        #expect(pairs)
    }

    @Test func `Using a store in dispatched stops the program, and the message names the place`() async {
        struct Nosy: FluxInstrumentation {
            let store: FluxStore<Counter>
            func dispatched(_ action: any FluxAction, origin: FluxOrigin?) { _ = store.state }
        }
        let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
            let store = FluxStore(initialState: Counter(), dispatcher: nil)
            store.instrument(Nosy(store: store))
            store.dispatch(action: .add(1))
        }
        let message = result.said
        #expect(message.contains("was used inside FluxInstrumentation.dispatched of a store"))
    }
}
