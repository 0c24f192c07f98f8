import FluxPersistence
import Foundation

// A recipe to copy: a `Codable` state as JSON on disk.
//
//     let store = FluxStore(initialState: Todo(), persistence: FluxFile<Todo>.json(path: "/var/lib/todo/state"))

extension FluxFile where State: Codable {
    /// Creates a file that holds a state as JSON.
    ///
    /// - Parameters:
    ///   - path: The path of the file. Its directory must exist and allow new files.
    ///   - version: The version of the state's type; raise it whenever the new type no longer decodes what the old one
    ///     encoded.
    ///   - migrate: Creates a state from the JSON of an older version; nil if older versions cannot be read.
    /// - Returns: The file that a store loads from and saves to.
    static func json(
        path: String, version: Int = 1, migrate: (@Sendable (_ version: Int, _ json: [UInt8]) throws -> State)? = nil
    ) -> FluxFile {
        FluxFile(
            path: path, version: version,
            encode: { Array(try JSONEncoder().encode($0)) },
            decode: { try JSONDecoder().decode(State.self, from: Data($0)) },
            migrate: migrate)
    }
}
