import FluxCore
import FluxPersistence
import FluxRouting
import Foundation
import Logging

/// A list that is open: its state, which is kept in a file, and the way in for events.
final class OpenList: Sendable {
    let store: FluxStore<TodoList>
    private let creator: FluxActionCreator<TodoConverter>

    /// Goes on from the file, which need not be there yet.
    init(path: String, onFailure: @escaping @Sendable (FluxPersistenceFailure) -> Void) async throws {
        let file = FluxFile<TodoList>(
            path: path,
            encode: { Array(try JSONEncoder().encode($0)) },
            decode: { try JSONDecoder().decode(TodoList.self, from: Data($0)) })
        store = try await FluxStore.restored(
            from: file, initialState: TodoList(), dispatcher: nil, onFailure: onFailure)
        // Whoever asked is told what failed, by the outcome.
        creator = FluxActionCreator(dependency: store, store: store, onFailure: { _, _ in })
    }

    /// Takes an event, and returns once what came of it is on disk.
    func take(_ event: TodoConverter.Event) async throws {
        // Once that is known: what is never saved would only be shown until the server ends.
        if await isLost { throw Refusal.lost }
        switch await creator.fire(event).outcome {
        case .completed: try await save()
        case .failed(let error): throw error
        case .cancelled, .dropped: throw CancellationError()
        }
    }

    /// Ends what is under way, and saves it.
    func close() async throws {
        await creator.flush()
        try await save()
    }

    private func save() async throws {
        let end = ContinuousClock.now + .seconds(5)
        // It is also false where only a change that came meanwhile has just failed to be saved.
        while await !store.flush(within: max(.zero, end - .now)) {
            if await isLost { throw Refusal.lost }
            if Task.isCancelled || .now >= end { throw Refusal.notSaved }
        }
    }

    /// Some errors no other attempt can cure, as where something else has written the file.
    private var isLost: Bool {
        get async {
            if case .failed = await store.ready { true } else { false }
        }
    }
}

/// What a list or a todo is called in a path: a short word, since a list's file has that name too.
struct Name: LosslessStringConvertible, Hashable, Sendable {
    let description: String

    init?(_ text: String) {
        guard text.wholeMatch(of: /[a-z0-9-]{1,40}/) != nil else { return nil }
        description = text
    }
}

/// All lists of a folder: each is opened when somebody asks for it, and put away when nobody needs it.
typealias Lists = FluxFamily<Name, OpenList>

extension Lists {
    convenience init(folder: String, logger: Logger) {
        self.init(idle: .seconds(60), limit: 1_000) { name in
            let path = "\(folder)/\(name)"
            let aside = path + ".unreadable"
            if FileManager.default.fileExists(atPath: aside) {
                logger.error("\(path): what it had is in \(aside): move that back mended, or remove it to go on")
                throw Refusal.unreadable
            }
            do {
                return try await OpenList(path: path) { failure in logger.error("\(failure)") }
            } catch let error as FluxFileError {
                logger.error("\(error)")
                throw Refusal.unreadable
            }
        } close: { list in
            try await list.close()
        }
    }
}
