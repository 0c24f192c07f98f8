import Foundation

/// A folder that goes with the last reference.
///
/// Thread safety: all of it may be used from any thread.
public final class TemporaryFolder: Sendable {
    /// Where it is.
    public let url = FileManager.default.temporaryDirectory.appending(component: "examples-\(UUID())")

    /// Makes one, with nothing in it.
    public init() throws {
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(at: url)
    }

    /// Writes a file.
    ///
    /// - Parameters:
    ///   - name: Its name.
    ///   - content: What is in it.
    /// - Returns: Its path.
    /// - Throws: Why it cannot be written.
    public func file(_ name: String, _ content: some DataProtocol) throws -> String {
        let file = url.appending(component: name)
        try Data(content).write(to: file)
        return file.path
    }
}
