import FluxCore
import Foundation
import TestSupport
import Testing

@testable import FluxPersistence

/// Paths that cannot be used: each save fails with an error that names the obstacle.
@Suite struct FluxFilePathTests {
    let folder = Folder()

    func refused(_ path: String, _ body: () async throws -> Void) async -> String {
        do {
            try await body()
            return "no error"
        } catch { return "\(error)" }
    }

    @Test(.timeLimit(.minutes(1)))
    func `A save fails if there is a link in place of the temporary file, and the link stays`() async throws {
        for (name, target) in [("nowhere", "nowhere"), ("elsewhere", "elsewhere")] {
            if name == "elsewhere" { folder.write(Array("elsewhere".utf8), to: name) }
            try? FileManager.default.removeItem(atPath: folder.state + ".new")
            try FileManager.default.createSymbolicLink(
                atPath: folder.state + ".new", withDestinationPath: folder.path + "/" + target)
            // Without this limit, a save that retries forever would make the test hang.
            let calls = Locked(0)
            let file = folder.file { _, _ in
                calls.withLock {
                    $0 += 1; return $0 > 100_000 ? .code(EIO) : nil
                }
            }
            #expect(
                await refused(folder.state) { try await file.save("new") }
                    == "\(folder.state): open \(folder.state).new: Too many levels of symbolic links")
            #expect(!folder.names.contains("state"))
            #expect(folder.names.contains("state.new"))
        }
        #expect(folder.read("elsewhere") == Array("elsewhere".utf8))
    }

    @Test(.timeLimit(.minutes(1))) func `A save fails if its temporary file keeps appearing and disappearing`() async {
        let opens = Locked(0)
        let file = folder.file { call, _ in
            guard call == .open else { return nil }
            let count = opens.withLock {
                $0 += 1; return $0
            }
            return .code(count > 100_000 ? EIO : count.isMultiple(of: 2) ? ENOENT : EEXIST)
        }
        #expect(
            await refused(folder.state) { try await file.save("new") }
                == "\(folder.state): open \(folder.state).new: File exists")
        #expect(opens.current < 10_000)
    }

    @Test func `The error of a save names a directory in place of the temporary file`() async throws {
        try FileManager.default.createDirectory(
            atPath: folder.state + ".new", withIntermediateDirectories: false)
        #expect(
            await refused(folder.state) { try await folder.file().save("new") }
                == "\(folder.state): open \(folder.state).new: Is a directory")
        #expect(folder.names == ["state.new"])
    }

    @Test func `The error of a save names a pipe in place of the temporary file and is permanent`() async {
        #expect(mkfifo(folder.state + ".new", 0o600) == 0)
        let error = await #expect(throws: FluxFileError.self) { try await folder.file().save("new") }
        #expect(error?.description == "\(folder.state): open \(folder.state).new: No such device or address")
        #expect(error?.isPermanent == true)
    }

    @Test(arguments: ["a directory", "a pipe", "a link"])
    func `A load fails if there is something other than a file in place of the temporary file`(
        what: String
    ) async throws {
        let new = folder.state + ".new"
        switch what {
        case "a pipe": #expect(mkfifo(new, 0o600) == 0)
        case "a link": try FileManager.default.createSymbolicLink(atPath: new, withDestinationPath: folder.path)
        default: try FileManager.default.createDirectory(atPath: new, withIntermediateDirectories: false)
        }
        let error = await #expect(throws: FluxFileError.self) { _ = try await folder.file().load() }
        #expect(error?.description == "\(folder.state): there is something other than a file at \(new)")
        #expect(error?.path == folder.state)
        #expect(error?.isPermanent == true)
        #expect(folder.names == ["state.new"])
    }

    @Test(arguments: [(252, ".new"), (251, ".unreadable-999"), (241, ".unreadable-999")])
    func `A load refuses a name that is too long for the names derived from it`(count: Int, ending: String) async {
        let path = folder.path + "/" + String(repeating: "x", count: count)
        let error = await #expect(throws: FluxFileError.self) { try await Folder.file(at: path).load() }
        #expect(error?.description == "\(path): stat \(path)\(ending): File name too long")
        #expect(error?.isPermanent == true)
    }

    @Test(arguments: ["state.new", "state.New", "\u{600}.new"])
    func `A save refuses a name that ends in .new in any letter case, after any character`(name: String) async {
        let path = folder.path + "/" + name
        let error = await #expect(throws: FluxFileError.self) { try await Folder.file(at: path).save("lost") }
        #expect(error?.isPermanent == true)
        #expect(folder.names.isEmpty)
    }

    // On a Mac's disks both spellings name the same file.
    #if !canImport(Darwin)
        @Test func `Two names that differ only in Unicode normalization have two places`() throws {
            let places = try ["\u{E9}", "e\u{301}"].map { try #require(Folder.file(at: folder.path + "/" + $0).place) }
            #expect(places[0] != places[1])
        }
    #endif

    @Test func `Two names that differ by a combining mark after the slash have two places`() throws {
        let places = try ["x", "\u{301}x"].map { try #require(Folder.file(at: folder.path + "/" + $0).place) }
        #expect(places[0] != places[1])
    }

    @Test func `An existing file is loaded even if its name is too long for the names derived from it`() async throws {
        let path = folder.path + "/" + String(repeating: "x", count: 251)
        try await Folder.file(at: path).save("old")
        #expect(try await Folder.file(at: path).load() == "old")
    }

    @Test func `The longest allowed name leaves room for the names of unreadable files`() async throws {
        let name = String(repeating: "x", count: 240)
        for number in 1...9 {
            folder.write(Array("garbage".utf8), to: name)
            await #expect(throws: FluxFileError.self) { try await Folder.file(at: folder.path + "/" + name).load() }
            try await Folder.file(at: folder.path + "/" + name).save("new")
            #expect(folder.names.count == number + 1)
        }
    }

    @Test func `A load reports a leftover temporary file that cannot be opened`() async {
        folder.write(Array("half a st".utf8), to: "state.new")
        let new = folder.state + ".new"
        let file = folder.file(fault: { call, path in call == .open && path == new ? .code(EACCES) : nil })
        let error = await #expect(throws: FluxFileError.self) { try await file.load() }
        #expect(error?.description == "\(folder.state): open \(new): Permission denied")
        #expect(error?.isPermanent == true)
    }

    @Test(arguments: ["", "a\0b", "/\0"]) func `A load and a save refuse an invalid path`(path: String) async {
        let file = Folder.file(at: path)
        let says =
            path.isEmpty
            ? "\"\": the path is empty"
            : "\"\(path.split(separator: "\0", omittingEmptySubsequences: false).joined(separator: "\\0"))\": "
                + "the path contains a zero byte"
        #expect(await refused(path) { _ = try await file.load() } == says)
        #expect(await refused(path) { try await file.save("new") } == says)
    }

    @Test func `A load and a save refuse a path that ends in .new and do not touch the file there`() async throws {
        let path = folder.state + ".new"
        folder.write(Array("precious".utf8), to: "state.new")
        let says = "\"\(path)\": the path ends in .new, which is reserved for the temporary file of a save"
        #expect(await refused(path) { _ = try await Folder.file(at: path).load() } == says)
        #expect(await refused(path) { try await Folder.file(at: path).save("new") } == says)
        #expect(folder.names == ["state.new"])
    }

    @Test func `A link in the path to the folder is followed, and a link in place of the file is not`() async throws {
        let link = folder.path + "-link"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: folder.path)
        defer { try? FileManager.default.removeItem(atPath: link) }
        let file = Folder.file(at: link + "/state")
        try await file.save("new")
        #expect(try await file.load() == "new")
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/other", withDestinationPath: folder.state)
        let other = Folder.file(at: folder.path + "/other")
        #expect(
            await refused(folder.path) { _ = try await other.load() }
                == "\(folder.path)/other: there is something other than a file")
    }
}
