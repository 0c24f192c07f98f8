import FluxCore
import FluxTesting
import Foundation
import TestSupport
import Testing

@testable import FluxPersistence

/// A state in a file: what the file contains, what is refused, and what remains of unreadable content.
@Suite struct FluxFileTests {
    let folder = Folder()

    @Test func `A file passes the conformance checks for a persistence`() async throws {
        let long = String(repeating: "an odd text, with a zero \0 and an é. ", count: 20_000)
        try await FluxConformance.check(states: ["", "one", long, "two", ""]) { folder.file() }
        #expect(folder.names.contains("state"))
        #expect(!folder.names.contains("state.new"))
    }

    @Test func `A store is restored from its file`() async throws {
        let codec = {
            FluxFile<Note>(
                path: $0, encode: { Array($0.text.utf8) }, decode: { Note(text: String(decoding: $0, as: UTF8.self)) })
        }
        do {
            let store = FluxStore(initialState: Note(), dispatcher: nil, persistence: codec(folder.state))
            store.dispatch(action: .append("a"))
            store.dispatch(action: .append("b"))
            await store.flush()
        }
        let store = try await FluxStore.restored(from: codec(folder.state), initialState: Note(), dispatcher: nil)
        #expect(store.state.text == "ab")
    }

    @Test(.timeLimit(.minutes(1))) func `Hanging saves of many files do not block other tasks`() async throws {
        let isWell = Gate()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<64 {
                let file = FluxFile<Int>(
                    path: "\(folder.path)/\(number)",
                    encode: { _ in
                        isWell.wait()
                        return []
                    }, decode: { _ in 0 })
                group.addTask { try await file.save(number) }
            }
            for _ in 0..<1_000 { await _Concurrency.Task.detached {}.value }
            isWell.open()
            try await group.waitForAll()
        }
        #expect(folder.names.count == 64)
    }

    @Test func `A file is accessible only to its owner and has its content after a head of 40 bytes`() async throws {
        try await folder.file(version: 2).save("the content")
        try await folder.file(version: 2).save("the content, again")
        let all = try FileManager.default.attributesOfItem(atPath: folder.state)
        #expect(all[.posixPermissions] as? Int == 0o600)
        let bytes = folder.read()
        #expect(bytes[..<8].elementsEqual("FluxFile".utf8))
        #expect(bytes[8..<32].filter { $0 != 0 } == [1, 2, 18], "format, version and length")
        #expect(bytes[40...].elementsEqual("the content, again".utf8))
    }

    // MARK: - Bad input

    @Test func `A load of a missing file returns nil and creates no file`() async throws {
        #expect(try await folder.file().load() == nil)
        #expect(folder.names.isEmpty)
    }

    static let unreadable: [(name: String, bytes: [UInt8], says: String)] = [
        ("an empty file", [], "the file is empty"),
        ("a foreign file", Array("{\"a\": 1}".utf8), "the file was not written by FluxFile"),
        ("a foreign file as long as a head", Array(repeating: 7, count: 40), "the file was not written by FluxFile"),
        ("the first byte only", Array("F".utf8), "the file is incomplete"),
        ("half a head", Array("FluxFile1234".utf8), "the file is incomplete"),
    ]

    @Test(arguments: unreadable.indices)
    func `An unreadable file is kept aside, and the error names its path`(index: Int) async throws {
        let (_, bytes, says) = Self.unreadable[index]
        folder.write(bytes)
        let file = folder.file()
        let error = await #expect(throws: FluxFileError.self) { try await file.load() }
        #expect(error?.description == "\(folder.state): \(says); it was renamed to \(folder.state).unreadable")
        #expect(folder.names == ["state.unreadable"])
        #expect(folder.read("state.unreadable") == bytes)
        try await file.save("new")
        #expect(try await folder.file().load() == "new")
        #expect(folder.read("state.unreadable") == bytes)
    }

    @Test func `A file that is cut off or changed at any byte is detected and kept aside`() async throws {
        try await folder.file().save("a text of some length")
        let whole = folder.read()
        for count in 1..<whole.count {
            folder.write(whole[..<count])
            await #expect(throws: FluxFileError.self) { try await folder.file().load() }
        }
        for index in whole.indices {
            var damaged = whole
            damaged[index] ^= 0x10
            folder.write(damaged)
            let error = await #expect(throws: FluxFileError.self, "byte \(index)") { try await folder.file().load() }
            #expect(error?.keptAt != nil, "byte \(index)")
        }
        folder.write(whole + [0])
        await #expect(throws: FluxFileError.self) { try await folder.file().load() }
        #expect(folder.names.count > whole.count, "each was kept under a name of its own")
    }

    @Test(arguments: [false, true])
    func `A file that has no head or is larger than its head says is not read to its end`(isOurs: Bool) async throws {
        // A sparse file: it occupies no disk space, but reading it whole would exhaust the memory.
        let head = isOurs ? FluxFileFormat.head(version: 1, content: [1, 2]) : Array("something else".utf8)
        folder.write(head + [1, 2])
        try #require(truncate(folder.state, 1 << 40) == 0)
        let error = await #expect(throws: FluxFileError.self) { try await folder.file().load() }
        #expect(error?.description.contains(isOurs ? "incomplete" : "not written by FluxFile") == true)
        #expect(folder.names == ["state.unreadable"])
        // A save that finds the unread file there does not read it to its end either.
        try FileManager.default.moveItem(atPath: folder.state + ".unreadable", toPath: folder.state)
        try await folder.file().save("new")
        #expect(Set(folder.names) == ["state", "state.unreadable"])
    }

    @Test func `A file whose state cannot be decoded is kept aside too`() async throws {
        folder.write(FluxFileFormat.head(version: 1, content: [0xff]) + [0xff])
        let error = await #expect(throws: FluxFileError.self) { try await folder.file().load() }
        guard case .coding(let reason) = error?.reason else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(reason is Folder.NoText)
        #expect(folder.names == ["state.unreadable"])
    }

    @Test func `A directory in place of the file is refused and stays`() async throws {
        try FileManager.default.createDirectory(atPath: folder.state, withIntermediateDirectories: false)
        let file = folder.file()
        for attempt in [{ _ = try await file.load() }, { try await file.save("new") }] as [() async throws -> Void] {
            let error = await #expect(throws: FluxFileError.self) { try await attempt() }
            #expect(error?.description == "\(folder.state): there is something other than a file")
        }
        #expect(folder.names == ["state"])
    }

    @Test func `A load and a save report the path of a missing directory`() async throws {
        let path = folder.path + "/none/state"
        let save = await #expect(throws: FluxFileError.self) { try await Folder.file(at: path).save("new") }
        #expect(save?.description == "\(path): open \(path).new: No such file or directory")
        let load = await #expect(throws: FluxFileError.self) { try await Folder.file(at: path).load() }
        #expect(load?.description == "\(path): access \(folder.path)/none: No such file or directory")
        #expect(save?.isPermanent == true && load?.isPermanent == true)
    }

    @Test func `A save keeps an unread file aside and does not overwrite it`() async throws {
        try await folder.file().save("old")
        let old = folder.read()
        try await folder.file().save("new")
        #expect(try await folder.file().load() == "new")
        #expect(folder.read("state.unreadable") == old)
    }

    @Test func `A save does not overwrite content that another object has written meanwhile`() async throws {
        let (one, other) = (folder.file(), folder.file())
        try await one.save("one")
        #expect(try await other.load() == "one")
        try await other.save("other")
        let error = await #expect(throws: FluxFileError.self) { try await one.save("one again") }
        guard case .changedByAnother = error?.reason else {
            Issue.record("\(String(describing: error))")
            return
        }
        #expect(try await folder.file().load() == "other")
        #expect(try await one.load() == "other", "once it has read it, it may write")
        try await one.save("one again")
        #expect(try await folder.file().load() == "one again")
    }

    @Test func `Two simultaneous saves leave one whole state and no other file`() async throws {
        try await folder.file().save("")
        for _ in 0..<50 {
            let files = [folder.file(), folder.file()]
            for file in files { _ = try await file.load() }
            let texts = ["a", "b"].map { String(repeating: $0, count: 50_000) }
            await withTaskGroup(of: Void.self) { group in
                for (file, text) in zip(files, texts) { group.addTask { try? await file.save(text) } }
            }
            let text = try await folder.file().load()
            #expect(texts.contains(text ?? ""))
        }
        #expect(folder.names == ["state"])
    }

    @Test func `A save removes the temporary file that a crash has left behind`() async throws {
        try await folder.file().save("old")
        folder.write(Array("half a st".utf8), to: "state.new")
        let file = folder.file()
        #expect(try await file.load() == "old")
        try await file.save("new")
        #expect(try await folder.file().load() == "new")
        #expect(folder.names == ["state"])
    }

    @Test func `A relative path is accepted`() async throws {
        // Up to the root and down again: a run that is killed would leave a file behind in the current directory.
        let up = FileManager.default.currentDirectoryPath.split(separator: "/").map { _ in "../" }.joined()
        let path = up + folder.state.drop { $0 == "/" }
        try await Folder.file(at: path).save("here")
        #expect(try await Folder.file(at: path).load() == "here")
        #expect(folder.names == ["state"])
    }

    // MARK: - Versions

    @Test func `A migration is given the stored version and the raw bytes`() async throws {
        try await folder.file(version: 3).save("old")
        let file = folder.file(
            version: 7, migrate: { version, bytes in "\(version): " + String(decoding: bytes, as: UTF8.self) })
        #expect(try await file.load() == "3: old")
        try await file.save("new")
        #expect(try await folder.file(version: 7).load() == "new")
    }

    @Test func `Without a migration the old content is kept aside and reported`() async throws {
        try await folder.file(version: 1).save("old")
        let bytes = folder.read()
        let error = await #expect(throws: FluxFileError.self) { try await folder.file(version: 2).load() }
        #expect(error?.description.contains("there is no migration from version 1; it was renamed to") == true)
        #expect(folder.read("state.unreadable") == bytes)
    }

    @Test func `The old content is kept aside if the migration throws`() async throws {
        try await folder.file(version: 1).save("old")
        let bytes = folder.read()
        let file = folder.file(version: 2, migrate: { _, _ in throw Folder.NoText() })
        await #expect(throws: FluxFileError.self) { try await file.load() }
        #expect(folder.read("state.unreadable") == bytes)
    }

    @Test func `A downgrade is refused: the newer content stays, and saves are refused`() async throws {
        try await folder.file(version: 2).save("newer")
        let bytes = folder.read()
        let file = folder.file(version: 1, migrate: { _, _ in "migrated" })
        for attempt in [{ _ = try await file.load() }, { try await file.save("old") }] as [() async throws -> Void] {
            let error = await #expect(throws: FluxFileError.self) { try await attempt() }
            #expect(
                error?.description == "\(folder.state): a newer program wrote the file, as version 2")
        }
        #expect(folder.read() == bytes)
        #expect(folder.names == ["state"])
    }

    @Test func `A file of a later format stays, and a file with a damaged format number is kept aside`() async throws {
        let bytes: [UInt8] = [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        let sum = bytes.reduce(0xcbf2_9ce4_8422_2325 as UInt64) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 }
        let later = FluxFileFormat.mark + bytes + (0..<8).map { UInt8(truncatingIfNeeded: sum >> (8 * $0)) }
        folder.write(later)
        let newer = await #expect(throws: FluxFileError.self) { try await folder.file().load() }
        #expect(newer?.description == "\(folder.state): a newer program wrote the file, as version 1")
        #expect(newer?.isPermanent == true && folder.names == ["state"])
        try await Folder.file(at: folder.path + "/other").save("")
        var damaged = folder.read("other")
        damaged[8] = 2
        folder.write(damaged)
        let error = await #expect(throws: FluxFileError.self) { try await folder.file().load() }
        #expect(
            error?.description
                == "\(folder.state): the content of the file is damaged; it was renamed to \(folder.state).unreadable"
        )
    }

    struct Note: FluxState {
        enum Action: FluxAction { case append(String) }
        var text = ""
        mutating func handle(action: Action) -> Note? {
            if case .append(let more) = action { text += more }
            return self
        }
    }
}
