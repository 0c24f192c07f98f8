import Foundation

/// The summary as the program prints it with `--json`.
struct Report: Decodable, Equatable, Sendable {
    struct Path: Decodable, Equatable, Sendable {
        var path: String
        var requests: Int
        var missed: Int
    }

    var lines: Int
    var malformed: Int
    var requests: Int
    var bytes: Int
    var statusClasses: [String: Int]
    var busiestPaths: [Path]
    var withoutPath: Int

    init(_ text: String) throws {
        self = try JSONDecoder().decode(Report.self, from: Data(text.utf8))
    }
}
