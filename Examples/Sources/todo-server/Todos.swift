import FluxCore
import Foundation

struct Todo: Codable, Equatable, Sendable {
    var title: String
    var isDone: Bool
}

/// The state of one list: its todos, by ids that the clients choose.
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

/// Turns the requests of clients into actions, or refuses them.
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

/// Why the server refuses or fails a request.
enum Refusal: String, Error {
    case title = "a title must have 1 to 1,000 bytes"
    case full = "a list can have at most 1,000 todos"
    case notSaved = "the change is not on disk yet; send it again"
    case lost = "the list can no longer be saved; the log says why: fix that, restart the server, send the change again"
    case unreadable = "the list cannot be opened; the log has the reason and the path"
}
