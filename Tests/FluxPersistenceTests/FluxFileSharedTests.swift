import FluxCore
import Foundation
import TestSupport
import Testing

@testable import FluxPersistence

/// Two objects on one path: neither overwrites or moves what the other has written.
@Suite struct FluxFileSharedTests {
    let folder = Folder()

    func expectChanged(_ body: () async throws -> Void, sourceLocation: SourceLocation = #_sourceLocation) async {
        do {
            try await body()
            Issue.record("it was saved", sourceLocation: sourceLocation)
        } catch let error as FluxFileError {
            guard case .changedByAnother = error.reason else {
                Issue.record("\(error)", sourceLocation: sourceLocation)
                return
            }
        } catch {
            Issue.record("\(error)", sourceLocation: sourceLocation)
        }
    }

    @Test func `A file keeps its identity with new device and inode numbers, but not with a new size`() {
        var status = stat()
        (status.st_dev, status.st_ino, status.st_size) = (1, 2, 3)
        let before = FluxFileCalls.Identity(status)
        (status.st_dev, status.st_ino) = (9, 9)
        #expect(FluxFileCalls.Identity(status) == before)
        status.st_size = 4
        #expect(FluxFileCalls.Identity(status) != before)
    }

    @Test
    func `A save does not overwrite another's content even in a file of the same inode, size and time`() async throws {
        var system = FaultySystem(folder.state, nil)
        system.isCoarse = true
        let (one, other) = (folder.file(on: system), folder.file(on: system))
        try await one.save("1st")
        #expect(try await other.load() == "1st")
        try await other.save("2nd")
        try await other.save("3rd")
        await expectChanged { try await one.save("4th") }
        #expect(try await folder.file().load() == "3rd")
        #expect(try await one.load() == "3rd")
        try await one.save("4th")
        #expect(folder.names == ["state"])
    }

    @Test func `A file whose inode number changes is still the same file`() async throws {
        var system = FaultySystem(folder.state, nil)
        let added = Locked<UInt64>(0)
        system.added = added
        let file = folder.file(on: system)
        for text in ["1st", "2nd", "3rd"] {
            try await file.save(text)
            added.withLock { $0 += 1 }
        }
        #expect(folder.names == ["state"] && folder.read().suffix(3) == Array("3rd".utf8))
    }

    @Test(arguments: [EACCES, EPERM, EINVAL, ENOTSUP, ENOSYS])
    func `Without hard links a save keeps an unread file by renaming it`(code: Int32) async throws {
        try await folder.file().save("old")
        try await folder.file { call, _ in call == .link ? .code(code) : nil }.save("new")
        #expect(folder.names == ["state", "state.unreadable"])
        #expect(folder.read("state.unreadable").suffix(3) == Array("old".utf8))
    }

    @Test func `A save succeeds even if the file disappears while the save checks it`() async throws {
        let (path, goes) = (folder.state, Locked(false))
        let file = folder.file { call, place in
            if call == .open, place == path, goes.current { unlink(path) }
            return nil
        }
        try await file.save("1st")
        goes.withLock { $0 = true }
        try await file.save("2nd")
        goes.withLock { $0 = false }
        #expect(try await file.load() == "2nd")
    }

    @Test func `A load that finds its file unreadable reads the file that has replaced it meanwhile`() async throws {
        let folder = Folder()
        folder.write(FluxFileFormat.head(version: 1, content: Array("bad".utf8)) + Array("bad".utf8))
        let file = FluxFile<String>(
            path: folder.state, encode: { Array($0.utf8) },
            decode: { bytes in
                let text = String(decoding: bytes, as: UTF8.self)
                if text != "bad" { return text }
                folder.write(FluxFileFormat.head(version: 1, content: Array("good".utf8)) + Array("good".utf8))
                throw Folder.NoText()
            })
        #expect(try await file.load() == "good")
        #expect(folder.names == ["state"])
        try await file.save("next")
        #expect(try await folder.file().load() == "next")
    }

    @Test
    func `If two objects find no file, the second save is refused, and the file of the first stays`() async throws {
        let (one, other) = (folder.file(), folder.file())
        #expect(try await one.load() == nil)
        #expect(try await other.load() == nil)
        try await one.save("one")
        await expectChanged { try await other.save("other") }
        #expect(folder.names == ["state"])
        try await one.save("one again")
        #expect(try await folder.file().load() == "one again")
        #expect(try await other.load() == "one again", "once it has read it, it may write")
        try await other.save("other")
        #expect(folder.names == ["state"])
    }

    @Test
    func `An object that kept an unreadable file aside does not replace the file written after it`() async throws {
        folder.write(Array("garbage".utf8))
        let (one, other) = (folder.file(), folder.file())
        await #expect(throws: FluxFileError.self) { try await one.load() }
        #expect(try await other.load() == nil)
        try await other.save("other")
        await expectChanged { try await one.save("one") }
        #expect(folder.names == ["state", "state.unreadable"])
        #expect(try await folder.file().load() == "other")
    }

    @Test func `When two stores share a new path, one saves and the other reports an error`() async throws {
        let told = Recorder<String>()
        let clock = TestClock()
        let stores = [0, 1].map { _ in
            FluxStore(
                initialState: Counter(), dispatcher: nil,
                persistence: FluxFile<Counter>(
                    path: folder.state, encode: { Array("\($0.count)".utf8) },
                    decode: { Counter(count: Int(String(decoding: $0, as: UTF8.self))!) }),
                backoff: .constant(.seconds(1)), clock: clock, onFailure: { told.record("\($0.error)") })
        }
        for store in stores { expect(await store.ready, is: "empty") }
        stores[0].dispatch(action: .add(10))
        await stores[0].flush()
        stores[1].dispatch(action: .add(20))
        await told.count(1)
        stores[0].dispatch(action: .add(1))
        await stores[0].flush()
        #expect(told.values.count == 1)
        #expect(told.values[0].contains("something else has written the file"))
        #expect(folder.names == ["state"])
        #expect(try FluxFileFormat.parse(folder.read()).content == Array("11".utf8))
    }
}
