import Foundation
import Testing

@testable import todo_server

@Suite struct OpenListTests {
    @Test("An accepted change is on disk, and a refused one is not applied")
    func durable() async throws {
        let path = FileManager.default.temporaryDirectory.appending(component: "todos-\(UUID())").path
        defer { try? FileManager.default.removeItem(atPath: path) }
        let list = try await OpenList(path: path) { failure in Issue.record("\(failure)") }
        try await list.take(.put(id: "milk", Todo(title: " Milk ", isDone: false)))
        await #expect(throws: Refusal.title) {
            try await list.take(.put(id: "eggs", Todo(title: " ", isDone: false)))
        }

        // The file begins with a header of 40 bytes.
        let content = try Data(contentsOf: URL(filePath: path)).dropFirst(40)
        let saved = try JSONDecoder().decode(TodoList.self, from: content)
        #expect(saved.todos == ["milk": Todo(title: "Milk", isDone: false)])
    }
}
