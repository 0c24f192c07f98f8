import FluxCore
import FluxPersistence
import FluxRouting
import Foundation
import Logging

/// An open list: its state, which is saved in a file, and the creator that receives its events.
final class OpenList: Sendable {
    let store: FluxStore<TodoList>
    private let creator: FluxActionCreator<TodoConverter>

    /// Restores the state from the file; without a file, the list is empty.
    init(path: String, onFailure: @escaping @Sendable (FluxPersistenceFailure) -> Void) async throws {
        let file = FluxFile<TodoList>(
            path: path,
            encode: { Array(try JSONEncoder().encode($0)) },
            decode: { try JSONDecoder().decode(TodoList.self, from: Data($0)) })
        store = try await FluxStore.restored(
            from: file, initialState: TodoList(), dispatcher: nil, onFailure: onFailure)
        // The outcome reports the error to the caller.
        creator = FluxActionCreator(dependency: store, store: store, onFailure: { _, _ in })
    }

    /// Handles an event, and returns once the resulting change is on disk.
    func take(_ event: TodoConverter.Event) async throws {
        // A change that can never be saved would be shown only until the server ends.
        if await isLost { throw Refusal.lost }
        switch await creator.fire(event).outcome {
        case .completed: try await save()
        case .failed(let error): throw error
        case .cancelled, .dropped: throw CancellationError()
        }
    }

    /// Waits for the events in progress, and saves their changes.
    func close() async throws {
        await creator.flush()
        try await save()
    }

    private func save() async throws {
        let end = ContinuousClock.now + .seconds(5)
        // `flush` also returns false if only a later change has failed to be saved.
        while await !store.flush(within: max(.zero, end - .now)) {
            if await isLost { throw Refusal.lost }
            if Task.isCancelled || .now >= end { throw Refusal.notSaved }
        }
    }

    /// Whether saving has failed permanently, for example because another program has written the file.
    private var isLost: Bool {
        get async {
            if case .failed = await store.ready { true } else { false }
        }
    }
}

/// The name of a list or todo in a path: a short word, because a list's file has the same name.
struct Name: LosslessStringConvertible, Hashable, Sendable {
    let description: String

    init?(_ text: String) {
        guard text.wholeMatch(of: /[a-z0-9-]{1,40}/) != nil else { return nil }
        description = text
    }
}

/// All lists of a folder, each opened on demand and closed when it is no longer used.
typealias Lists = FluxFamily<Name, OpenList>

extension Lists {
    convenience init(folder: String, logger: Logger) {
        self.init(idle: .seconds(60), limit: 1_000) { name in
            let path = "\(folder)/\(name)"
            let aside = path + ".unreadable"
            if FileManager.default.fileExists(atPath: aside) {
                logger.error("\(path): its content is in \(aside): repair and move it back, or remove it to continue")
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
