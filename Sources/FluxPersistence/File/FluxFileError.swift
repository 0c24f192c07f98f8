/// Why a ``FluxFile`` could not be read or written.
///
/// A file that could not be read is still there, or at ``keptAt``. After a failed save, the file has the old content or
/// the new one.
///
/// Thread safety: a value.
nonisolated public struct FluxFileError: FluxPermanentError, CustomStringConvertible {
    /// What is wrong.
    ///
    /// Thread safety: a value.
    public enum Reason: Sendable {
        /// The system refused a call, such as `open`, with a code from `errno`.
        case system(call: String, code: Int32)
        /// The path is empty, contains a zero byte, or ends in `.new`.
        ///
        /// The system ends a path at a zero byte, and a name that ends in `.new` is what a save of another file writes
        /// to before it renames.
        case notAPath
        /// Something other than a regular file is at the path, such as a directory.
        case notAFile
        /// The file has no content.
        case empty
        /// The file does not begin as the files of a ``FluxFile`` do.
        case foreign
        /// The file ends before its content does, or continues after it.
        case truncated
        /// The content is not what was written.
        case damaged
        /// The content is of an older version, and there is no migration.
        case noMigration(version: Int)
        /// The content is of a newer version than the program knows, or the file is of a newer format.
        case newer(version: Int)
        /// The content could not be encoded, decoded or migrated: the error that the closure threw.
        case coding(any Swift.Error)
        /// Something else has written the file since it was read or written here.
        case changedByAnother
    }

    /// The path that the file object was created with.
    public let path: String
    /// What is wrong.
    public let reason: Reason
    /// Where the file that could not be read was moved to; nil: it was not moved.
    public internal(set) var keptAt: String?
    /// The path that the error is about, if that is not the file itself.
    var place: String?
    /// Why the file that could not be read was not moved.
    var obstacle: String?

    init(_ path: String, _ reason: Reason, at place: String? = nil) {
        (self.path, self.reason) = (path, reason)
        self.place = place == path ? nil : place
    }

    /// A one-line description that begins with the path.
    public var description: String {
        var line = "\(name): \(explanation)"
        if let keptAt { line += "; it was renamed to \(keptAt)" }
        if let obstacle { line += "; it was left in place, because it could not be renamed: \(obstacle)" }
        return line
    }

    /// The path, quoted where an empty one or a zero byte has to show.
    private var name: String {
        guard case .notAPath = reason else { return path }
        return "\"" + path.split(separator: "\0", omittingEmptySubsequences: false).joined(separator: "\\0") + "\""
    }

    var explanation: String {
        switch reason {
        case .system(let call, let code):
            "\(call)\(place.map { " " + $0 } ?? ""): \(Self.text(of: code))"
        case .notAPath where path.isEmpty: "the path is empty"
        case .notAPath where path.utf8.contains(0): "the path contains a zero byte"
        case .notAPath:
            "the path ends in \(FluxFileCalls.newEnding), which is reserved for the temporary file of a save"
        case .notAFile: "there is something other than a file\(place.map { " at " + $0 } ?? "")"
        case .empty: "the file is empty"
        case .foreign: "the file was not written by FluxFile"
        case .truncated: "the file is incomplete"
        case .damaged: "the content of the file is damaged"
        case .noMigration(let version): "there is no migration from version \(version)"
        case .newer(let version): "a newer program wrote the file, as version \(version)"
        case .coding(let error): "the content could not be encoded, decoded or migrated: \(error)"
        case .changedByAnother: "something else has written the file in the meantime, so it was not overwritten"
        }
    }

    /// Whether this program cannot use the content, so that the file is to be kept under another name.
    var isUnreadable: Bool {
        switch reason {
        case .empty, .foreign, .truncated, .damaged, .noMigration, .coding: true
        case .system, .notAPath, .notAFile, .newer, .changedByAnother: false
        }
    }
}
