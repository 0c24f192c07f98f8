import Explorer
import Flux

/// The state of most scenarios: a list of what was added, in the order in which it was applied.
struct Log: FluxState {
    enum Action: FluxAction {
        case add(Int)
        /// Changes the state but announces nothing.
        case addSilently(Int)
    }

    var entries: [Int] = []
    /// Lets another thread run while an action is half applied.
    var scene: Scene?

    mutating func handle(action: Action) -> Log? {
        var all = entries
        scene?.point()
        switch action {
        case .add(let entry):
            entries = all + [entry]
            return self
        case .addSilently(let entry):
            all.append(entry)
            entries = all
            return nil
        }
    }
}

/// Another state with the same actions, which counts them.
struct Count: FluxState {
    var count = 0

    mutating func handle(action: Log.Action) -> Count? {
        count += 1
        return self
    }
}

extension Scene {
    /// Fails unless two values are equal.
    func expect<Value: Equatable>(
        _ value: Value, is expected: Value, _ what: String, file: StaticString = #fileID, line: UInt = #line
    ) {
        expect(value == expected, "\(what): \(value) instead of \(expected)", file: file, line: line)
    }

    /// Fails unless each value is higher than the one before it.
    func expectRising(_ seen: [Int], _ who: String = "it", file: StaticString = #fileID, line: UInt = #line) {
        expect(seen == Array(Set(seen)).sorted(), "\(who) went back: \(seen)", file: file, line: line)
    }

    /// Fails unless these entries come in this order, with any others between them.
    func expect(
        _ order: [Int], in entries: [Int], _ what: String, file: StaticString = #fileID, line: UInt = #line
    ) {
        let found = entries.filter { order.contains($0) }
        expect(found == order, "\(what): \(entries), where \(order) come in another order", file: file, line: line)
    }
}

/// Creates a store of a log.
func makeLog(_ dispatcher: FluxDispatcher? = nil) -> FluxStore<Log> {
    FluxStore(initialState: Log(), dispatcher: dispatcher)
}

extension FluxStore where State == Log {
    var entries: [Int] { state.entries }
    func add(_ entry: Int) { dispatch(action: .add(entry)) }
}

extension FluxDispatcher {
    func add(_ entry: Int) { dispatch(action: Log.Action.add(entry)) }
}

/// Creates two dispatchers in the order of their addresses, which is also their locking order, the same in each run.
func twoDispatchers() -> (FluxDispatcher, FluxDispatcher) {
    let (one, other) = (FluxDispatcher(), FluxDispatcher())
    return ObjectIdentifier(one) < ObjectIdentifier(other) ? (one, other) : (other, one)
}

/// Sends numbers, one after another.
enum Sending: FluxActionConverter {
    enum Event: FluxEvent {
        case add([Int])
    }

    static func convert(event: Event, dependency: Void, actionHandler: @escaping (Log.Action) -> Void) {
        switch event {
        case .add(let entries): for entry in entries { actionHandler(.add(entry)) }
        }
    }
}

/// Sends a number, or opens a gate.
enum Opening: FluxActionConverter {
    enum Event: FluxEvent {
        case add(Int)
        case open
    }

    static func convert(event: Event, dependency: Gate, actionHandler: @escaping (Log.Action) -> Void) {
        switch event {
        case .add(let entry): actionHandler(.add(entry))
        case .open: dependency.open()
        }
    }
}

/// Sends ten times a number, suspends, and sends one more than that; or fails.
enum Working: FluxAsyncActionConverter {
    enum Event: FluxEvent {
        case work(Int)
        case fail(Int)
    }

    struct Failure: Error {}

    static func convert(event: Event, dependency: Void, send: @escaping @Sendable (Log.Action) -> Void) async throws {
        switch event {
        case .work(let number):
            send(.add(number * 10))
            await yieldTask()
            send(.add(number * 10 + 1))
        case .fail(let number):
            send(.add(number * 10))
            throw Failure()
        }
    }

    static func action(for error: any Error, event: Event) -> Log.Action? {
        if case .fail(let number) = event { .add(number * 10 + 9) } else { nil }
    }
}

extension FluxStoreAccess<Log> {
    /// Holds changes back from now on.
    mutating func hold(in held: Noted<[FluxChange<Log>]>) {
        hold {
            held.value.append($0)
            return false
        }
    }

    /// Applies what was held back, and holds nothing back any more.
    mutating func applyHeld(_ held: Noted<[FluxChange<Log>]>) {
        hold(by: nil)
        for change in held.value { apply(change, pastGate: true) }
    }
}
