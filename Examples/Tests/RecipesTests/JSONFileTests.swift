import FluxCore
import FluxPersistence
import Foundation
import Testing

/// The recipe of a state as JSON on disk.
@Suite final class JSONFileTests {
    /// The state in the first version of a program.
    struct OldTodo: FluxState, Codable {
        struct Append: FluxAction { let title: String }
        var titles: [String] = []
        mutating func handle(action: Append) -> OldTodo? {
            titles.append(action.title)
            return self
        }
    }

    /// The same state in the next version.
    struct Todo: FluxState, Codable, Equatable {
        struct Item: Codable, Equatable {
            var title: String
            var isDone = false
        }
        struct Append: FluxAction { let title: String }
        var items: [Item] = []
        mutating func handle(action: Append) -> Todo? {
            items.append(Item(title: action.title))
            return self
        }
    }

    let folder = FileManager.default.temporaryDirectory.appending(path: "FluxCore-\(UUID().uuidString)")
    var path: String { folder.appending(path: "todo").path }

    init() throws { try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true) }
    deinit { try? FileManager.default.removeItem(at: folder) }

    @Test func `A state is stored as JSON, and the next program continues from it`() async throws {
        let file = { [path] in FluxFile<OldTodo>.json(path: path) }
        let store = FluxStore(initialState: OldTodo(), dispatcher: nil, persistence: file())
        store.dispatch(action: .init(title: "milk"))
        await store.flush()
        #expect(try Data(contentsOf: URL(filePath: path)).dropFirst(40) == Data(#"{"titles":["milk"]}"#.utf8))
        let next = try await FluxStore.restored(from: file(), initialState: OldTodo(), dispatcher: nil)
        #expect(next.state.titles == ["milk"])
    }

    @Test func `The next version reads the file of the first by a migration`() async throws {
        try await FluxFile<OldTodo>.json(path: path).save(OldTodo(titles: ["milk"]))
        let file = FluxFile<Todo>.json(path: path, version: 2) { version, json in
            let old = try JSONDecoder().decode(OldTodo.self, from: Data(json))
            return Todo(items: old.titles.map { Todo.Item(title: $0) })
        }
        let store = try await FluxStore.restored(from: file, initialState: Todo(), dispatcher: nil)
        store.dispatch(action: .init(title: "bread"))
        await store.flush()
        #expect(try await FluxFile<Todo>.json(path: path, version: 2).load() == store.state)
        #expect(store.state.items.map(\.title) == ["milk", "bread"])
    }

    #if os(Linux) || os(macOS)
        @Test func `The file can be read by hand, as the article says`() async throws {
            try await FluxFile<OldTodo>.json(path: path, version: 2).save(OldTodo(titles: ["milk"]))
            #expect(try output(of: "tail", "-c", "+41", path) == #"{"titles":["milk"]}"#)
            let numbers = try output(of: "od", "-A", "n", "-t", "d8", "-j", "8", "-N", "24", path)
            #expect(numbers.split(whereSeparator: \.isWhitespace) == ["1", "2", "19"])
        }

        private func output(of command: String...) throws -> String {
            let (process, pipe) = (Process(), Pipe())
            process.executableURL = URL(filePath: "/usr/bin/env")
            process.arguments = command
            process.standardOutput = pipe
            try process.run()
            let data = try pipe.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            return String(decoding: data, as: UTF8.self)
        }
    #endif
}
