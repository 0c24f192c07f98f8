import Foundation
import ProgramTesting

extension Command {
    static let accessWatch = built("access-watch")

    /// Starts access-watch.
    convenience init(_ arguments: [String], input: String? = nil) throws {
        try self.init(program: Self.accessWatch, arguments, input: input)
    }
}
