import FluxCore
import FluxDiagnostics
import FluxEffects
import FluxObservation
import FluxPersistence
import FluxRouting
import FluxTesting
import TestSupport
import Testing

// How the compiler translates a generic call depends on the memory layout of its types, and Swift 6.3.1 has failed on
// some of them when optimising. So every kind of value goes through all calls here, and CI compiles and runs them in a
// release build too.

private protocol Shape: Equatable, Sendable {
    static var samples: (Self, Self) { get }
}

private struct Nothing: Shape { static let samples = (Nothing(), Nothing()) }
private struct Numbers: Shape {
    enum Choice { case first, second, third }

    // As many words as are returned in registers.
    var a: Int?, b: Bool?, choice = Choice.first
    static let samples = (Numbers(), Numbers(b: false, choice: .third))
}
private struct ManyNumbers: Shape {
    var a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0, i = 0, j: UInt8 = 0, k = 0.5
    static let samples = (ManyNumbers(), ManyNumbers(j: 1))
}
private enum Payload: Shape {
    case none, number(Int), text(String), both(Int, [Int])
    indirect case node(Payload, Int)
    static let samples = (none, node(both(1, [2]), 1))
}
private struct Mixed: Shape {
    var number = 0, text = "", list: [String] = [], table: [Int: String] = [:], choice: Payload?, flag = false
    static let samples = (Mixed(), Mixed(choice: .number(1)))
}
private struct Object: Shape {
    let box = Box(), number: Int
    static let samples = (Object(number: 0), Object(number: 1))
    static func == (first: Object, second: Object) -> Bool { first.number == second.number }
    final class Box: Sendable {}
}
private struct Existential: Shape {
    var value: any Sendable = 0, error: (any Error)?
    static let samples = (Existential(), Existential(error: CancellationError()))
    static func == (first: Existential, second: Existential) -> Bool { (first.error == nil) == (second.error == nil) }
}
private struct Function: Shape {
    var number: @Sendable () -> Int
    static let samples = (Function { 0 }, Function { 1 })
    static func == (first: Function, second: Function) -> Bool { first.number() == second.number() }
}
extension Bool: Shape { fileprivate static let samples = (false, true) }

/// A state of one value, and a count that changes with every action.
private struct Holding<Value: Shape>: FluxState, Equatable {
    struct Action: FluxAction { var value: Value }

    var value = Value.samples.0, count = 0

    mutating func handle(action: Action) -> Holding? {
        (value, count) = (action.value, count + 1)
        return self
    }
}

/// A state that consists of one value.
private struct Bare<Value: Shape>: FluxState {
    struct Action: FluxAction { var value: Value }

    var value = Value.samples.0

    mutating func handle(action: Action) -> Bare? {
        value = action.value
        return self
    }
}

/// An event that is also an action to which a store reacts.
private struct Put<Value: Shape>: FluxEvent, FluxAction { var value: Value }

private enum Putting<Value: Shape>: FluxAsyncActionConverter {
    static func convert(
        event: Put<Value>, dependency: Value, send: @escaping @Sendable (Holding<Value>.Action) -> Void
    ) async { send(.init(value: event.value)) }
}

private enum PuttingByCallback<Value: Shape>: FluxActionConverter {
    static func convert(
        event: Put<Value>, dependency: Void, actionHandler: @escaping @Sendable (Holding<Value>.Action) -> Void
    ) { actionHandler(.init(value: event.value)) }
}

private struct PutLater<Value: Shape>: FluxCommand {
    typealias State = Holding<Value>
    var value: Value
    func execute(state: State, dependency: Value) async -> Value { value }
    func reduce(state: inout State, output: Value) { state.value = output }
}

@Suite struct ShapesTests {
    /// Makes every call that depends on a user's type; a release build compiles them anew for each type named below.
    private func use<Value: Shape>(_ type: Value.Type) async throws {
        let (first, second) = Value.samples
        let hasChanged = first != second
        let dispatcher = FluxDispatcher()
        let store = FluxStore(initialState: Holding<Value>(), dispatcher: dispatcher)
        let bare = FluxStore(initialState: Bare<Value>(), dispatcher: dispatcher)
        let history = FluxHistory(store, limit: 3)

        // Views of one, two, three and many sources; of values, states and optionals.
        let part = store.view { $0.value }
        let whole = store.view { $0 }
        let byHand = FluxView(store, by: { $0.0 == $1.0 }) { ($0.value, $0.count) }
        let two = FluxView(store, bare) { $0.value == $1.value ? nil : $1.value }
        let three = FluxView(store, bare, part) { [$0.value, $1.value, $2] }
        let many = FluxView([store, store]) { $0.map { $0.value } }
        let nested = FluxView(part, two) { $1 ?? $0 }

        // Subscriptions.
        let parts = FluxRecorder<Value>(), states = FluxRecorder<Holding<Value>>(), actions = FluxRecorder<Value>()
        let tokens = [
            store.subscribe { states.record($0) },
            store.subscribe(.latest) { states.record($0) },
            store.subscribe(to: \.value) { parts.record($0) },
            store.subscribe(to: \.value, .latest) { _ in },
            store.subscribe(toAnyOf: \.value, \.count) { state, _ in states.record(state) },
            store.subscribeActions { actions.record($0.action.value) },
            part.subscribe { _ in }, two.subscribe(.latest) { _ in }, nested.subscribe { _ in },
            bare.subscribe(.buffered(newest: 2)) { _ in },
        ]
        var iterators = (
            store.states(.every).makeAsyncIterator(), store.values(of: \.value, .latest).makeAsyncIterator(),
            nested.states(.latest).makeAsyncIterator()
        )
        #expect(await iterators.0.next()?.value == first)
        #expect(await iterators.1.next() == first)
        #expect(await iterators.2.next() == first)

        // Actions and events, through middleware, reactions and rules.
        let seen = FluxRecorder<Value>()
        dispatcher.add(
            .on(Holding<Value>.Action.self) { action, next in
                seen.record(action.value)
                next(action)
            })
        let creators = (
            FluxActionCreator<Putting<Value>>(dependency: first, dispatcher: dispatcher, rules: [.sequence()]),
            FluxActionCreator<PuttingByCallback<Value>>(dispatcher: dispatcher)
        )
        _ = await creators.0.fire(Put(value: second)).outcome
        _ = await creators.1.fire(Put(value: first)).outcome
        #expect(dispatcher.dispatch(action: Holding<Value>.Action(value: second)) == 1)
        bare.on(Put<Value>.self) { $0.value = $1.value }
        #expect(dispatcher.dispatch(action: Put(value: second)) == 1)
        #expect(seen.elements == [second, first, second])
        #expect(store.state == Holding(value: second, count: 3) && bare.state.value == second)
        #expect(part.state == second && whole.state.value == second && byHand.state.0 == second && two.state == nil)
        #expect(three.state == [second, second, second] && many.state == [second, second] && nested.state == second)
        _ = await store.run(PutLater(value: first), dependency: second).outcome
        #expect(store.state.value == first)
        await store.flush()
        await nested.flush()
        #expect(parts.elements == (hasChanged ? [second, first, second, first] : []))
        #expect(actions.elements == [second, first, second])
        #expect(states.elements.last?.value == first)
        #expect(history.undo() != nil && store.state.value == second)
        #expect(store.handle.withAccess { $0.state.value } == second)
        withExtendedLifetime(tokens) {}

        // Families, and stores that are saved.
        let family = FluxFamily<String, FluxStore<Holding<Value>>> { _ in
            FluxStore(initialState: Holding(), dispatcher: nil)
        }
        let all = FluxView(family) { $0.mapValues { $0.value } }
        let lease = try await family.lease("a")
        lease.member.dispatch(action: .init(value: second))
        #expect(all.state == ["a": second])
        lease.release()
        let log = MemoryLog<Holding<Value>>()
        let lasting = FluxStore(initialState: Holding<Value>(), dispatcher: nil, log: log)
        #expect(try await lasting.dispatch(durably: .init(value: second)) == 1)
        let again = try await FluxStore.restored(from: log, initialState: Holding<Value>(), dispatcher: nil)
        #expect(again.state.value == second)
        let saving = FluxStore(initialState: Bare<Value>(), dispatcher: nil, persistence: MemoryPersistence(bare.state))
        await saving.flush()
        #expect(saving.state.value == second)
    }

    @Test func `Values of every shape go through all generic calls`() async throws {
        try await use(Nothing.self)
        try await use(Numbers.self)
        try await use(ManyNumbers.self)
        try await use(Payload.self)
        try await use(Mixed.self)
        try await use(Object.self)
        try await use(Existential.self)
        try await use(Function.self)
        try await use(Bool.self)
    }
}
