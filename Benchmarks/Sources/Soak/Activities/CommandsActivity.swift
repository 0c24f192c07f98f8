import FluxCore
import FluxDiagnostics
import FluxEffects

/// Commands, some of them cancelled, on a store with a history.
struct CommandsActivity: Activity {
    private static let commands = 30

    func round() async throws {
        let shelf = FluxStore(initialState: Shelf(), dispatcher: nil)
        let history = FluxHistory(shelf, limit: 10)
        let tasks = (0..<Self.commands).map { shelf.run(Fetch(number: $0), dependency: Canary()) }
        for task in tasks.shuffled().prefix(5) { task.cancel() }
        var completed = 0
        for task in tasks where await task.outcome.isCompleted { completed += 1 }
        let state = shelf.state
        try promise("C9", "what the commands that completed have brought", state.items, is: completed)
        if state.pending < 0 || state.pending > Self.commands - completed {
            throw BrokenPromise("C9", "\(state.pending) commands pending, and \(completed) have completed")
        }
        if history.undo() != nil {
            history.redo()
            try promise("C1", "what was undone and done again", shelf.state, is: state)
        }
    }
}

private struct Shelf: FluxState, Equatable {
    struct Action: FluxAction {}

    var items = 0
    var pending = 0

    mutating func handle(action: Action) -> Shelf? { nil }
}

private struct Fetch: FluxCommand {
    static let rules: [FluxRule<Fetch>] = [.concurrency(3)]

    let number: Int

    func begin(state: inout Shelf) { state.pending += 1 }

    func execute(state: Shelf, dependency: Canary) async throws -> Int {
        await Task.yield()
        return 1
    }

    func reduce(state: inout Shelf, output: Int) {
        state.pending -= 1
        state.items += output
    }
}
