import Explorer
import Flux

/// The state of most scenarios: a list of what was added, in the order in which it was applied.
struct Log: FluxState {
    enum Action: FluxAction {
        case add(Int)
        /// Changes nothing that is announced.
        case silent
    }

    var entries: [Int] = []
    /// Where another thread may go on while an action is half applied.
    var scene: Scene?

    mutating func handle(action: Action) -> Log? {
        guard case .add(let entry) = action else { return nil }
        var all = entries
        scene?.point()
        all.append(entry)
        entries = all
        return self
    }
}

extension Scene {
    /// A store that stands for itself.
    func log(dispatcher: FluxDispatcher? = nil) -> FluxStore<Log> {
        FluxStore(initialState: Log(), dispatcher: dispatcher)
    }

    /// Fails unless two values are equal.
    func expect<Value: Equatable>(
        _ value: Value, is expected: Value, _ what: String, file: StaticString = #fileID, line: UInt = #line
    ) {
        expect(value == expected, "\(what): \(value) instead of \(expected)", file: file, line: line)
    }
}

/// Sends what it is told to, the events one after the other.
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
