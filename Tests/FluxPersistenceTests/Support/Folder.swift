import FluxCore
import Foundation

@testable import FluxPersistence

/// A folder for one test, removed when the object is released.
final class Folder: Sendable {
    let name = "FluxCore-\(UUID().uuidString)"
    let path: String

    init() {
        path = NSTemporaryDirectory() + "/" + name
        try! FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit {
        try? FileManager.default.removeItem(atPath: path)
    }

    var state: String { path + "/state" }

    /// The names of all files in the folder.
    var names: [String] { try! FileManager.default.contentsOfDirectory(atPath: path).sorted() }

    func write(_ bytes: some Sequence<UInt8>, to name: String = "state") {
        _ = FileManager.default.createFile(atPath: path + "/" + name, contents: Data(bytes))
    }

    func read(_ name: String = "state") -> [UInt8] {
        Array(FileManager.default.contents(atPath: path + "/" + name) ?? Data())
    }

    func file(on system: FaultySystem) -> FluxFile<String> {
        FluxFile(FluxFileAccess(calls: FluxFileCalls(path: state, system: system)))
    }

    /// A text in this folder's file.
    func file(
        version: Int = 1,
        fault: FaultySystem.Plan? = nil,
        migrate: (@Sendable (Int, [UInt8]) throws -> String)? = nil
    ) -> FluxFile<String> {
        Self.file(at: state, version: version, fault: fault, migrate: migrate)
    }

    static func file(
        at path: String,
        version: Int = 1,
        fault: FaultySystem.Plan? = nil,
        migrate: (@Sendable (Int, [UInt8]) throws -> String)? = nil
    ) -> FluxFile<String> {
        FluxFile(
            FluxFileAccess(
                calls: FluxFileCalls(path: path, system: FaultySystem(path, fault)), version: version,
                migrate: migrate))
    }

    struct NoText: Error {}
}

extension FluxFileAccess<String> {
    /// A text, as UTF-8.
    init(calls: FluxFileCalls, version: Int = 1, migrate: (@Sendable (Int, [UInt8]) throws -> String)? = nil) {
        self.init(
            calls: calls, version: version, encode: { Array($0.utf8) },
            decode: { bytes in
                guard let text = String(validating: bytes, as: UTF8.self) else { throw Folder.NoText() }
                return text
            },
            migrate: migrate)
    }
}

extension FluxFileFormat {
    static func parse(_ file: [UInt8]) throws -> (version: Int, content: [UInt8]) {
        try parse(file, at: "")
    }
}
