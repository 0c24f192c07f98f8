import FluxPersistence
import Foundation

// A recipe, to copy: a `Codable` state as JSON on disk.
//
//     let store = FluxStore(initialState: Todo(), persistence: FluxFile<Todo>.json(path: "/var/lib/todo/state"))

extension FluxFile where State: Codable {
    /// A state as JSON in a file.
    ///
    /// - Parameters:
    ///   - path: Where it is. Its directory has to exist and to allow new files.
    ///   - version: The version of the state's type; raise it whenever the new type no longer decodes what the old one made.
    ///   - migrate: Makes a state of the JSON of an older version; nil: older versions cannot be read.
    /// - Returns: What a store loads from and saves to.
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
