import Foundation

/// A folder that is removed when its last reference is released.
///
/// Thread safety: all of it may be used from any thread.
public final class TemporaryFolder: Sendable {
    /// The location of the folder.
    public let url = FileManager.default.temporaryDirectory.appending(component: "examples-\(UUID())")

    /// Creates an empty folder.
    public init() throws {
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: url)
    }

    /// Writes a file.
    ///
    /// - Parameters:
    ///   - name: The name of the file.
    ///   - content: The content of the file.
    /// - Returns: The path of the file.
    /// - Throws: An error if the file cannot be written.
    public func file(_ name: String, _ content: some DataProtocol) throws -> String {
        let file = url.appending(component: name)
        try Data(content).write(to: file)
        return file.path
    }
}
