import FluxCore
import Foundation

struct Todo: Codable, Equatable, Sendable {
    var title: String
    var isDone: Bool
}

/// The state of one list: what there is to do, by ids that the clients choose.
struct TodoList: FluxState, Codable {
    enum Action: FluxAction {
        case put(id: String, Todo)
        case remove(id: String)
    }

    private(set) var todos: [String: Todo] = [:]

    mutating func handle(action: Action) -> TodoList? {
        switch action {
        case .put(let id, let todo):
            if todos[id] == todo { return nil }
            todos[id] = todo
        case .remove(let id):
            if todos.removeValue(forKey: id) == nil { return nil }
        }
        return self
    }
}

/// Decides what becomes of what the clients ask for.
enum TodoConverter: FluxAsyncActionConverter {
    enum Event: FluxEvent {
        case put(id: String, Todo)
        case remove(id: String)
    }
    typealias Action = TodoList.Action

    static func convert(
        event: Event, dependency store: FluxStore<TodoList>, send: @escaping @Sendable (Action) -> Void
    ) async throws {
        switch event {
        case .put(let id, var todo):
            todo.title = todo.title.trimmingCharacters(in: .whitespacesAndNewlines)
            guard (1...1_000).contains(todo.title.utf8.count) else { throw Refusal.title }
            let todos = store.state.todos
            guard todos.count < 1_000 || todos[id] != nil else { throw Refusal.full }
            send(.put(id: id, todo))
        case .remove(let id): send(.remove(id: id))
        }
    }
}

/// Why a client does not get what it asked for.
enum Refusal: String, Error {
    case title = "a title has 1 to 1,000 bytes"
    case full = "a list has 1,000 todos at most"
    case notSaved = "it is not on disk yet; send it again"
    case lost = "it cannot be saved any more; the log says why: mend that, start the server again, then send it"
    case unreadable = "the list cannot be opened; the log says why, and where it is"
}
