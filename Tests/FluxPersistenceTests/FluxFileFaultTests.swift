import FluxCore
import Foundation
import TestSupport
import Testing

@testable import FluxPersistence

/// Every system call that a file makes fails once, each in turn: the old state or the new one is left.
@Suite struct FluxFileFaultTests {
    /// Counts calls and fails the nth; with `onwards` also all later ones, as if the process had died there.
    final class Shim: Sendable {
        private let state: Locked<Int>
        private let onwards: Bool
        let failed = Recorder<FluxFileCalls.Call>()
        let fault: FaultySystem.Fault

        init(nth: Int, _ fault: FaultySystem.Fault = .code(EIO), onwards: Bool = false) {
            state = Locked(nth)
            self.fault = fault
            self.onwards = onwards
        }

        var isReached: Bool { state.withLock { $0 <= 0 } }

        @Sendable func call(_ call: FluxFileCalls.Call, _ path: String) -> FaultySystem.Fault? {
            let fails = state.withLock { count in
                count -= 1
                return count == 0 || (onwards && count < 0)
            }
            if fails { failed.record(call) }
            return fails ? fault : nil
        }
    }

    /// What a program does with its file.
    enum Scenario: CaseIterable {
        case firstSave, nextSave, saveOverUnread, loadAndSave, loadUnreadable, saveOverLeftover, migrateAndSave

        func prepare(_ folder: Folder) async throws {
            switch self {
            case .firstSave: break
            case .nextSave, .saveOverUnread, .loadAndSave, .migrateAndSave: try await folder.file().save("old")
            case .loadUnreadable: folder.write(Array("garbage".utf8))
            case .saveOverLeftover:
                try await folder.file().save("old")
                folder.write(Array("left".utf8), to: "state.new")
            }
        }

        func run(_ file: FluxFile<String>) async throws {
            switch self {
            case .firstSave, .saveOverUnread: try await file.save("new")
            case .nextSave, .loadAndSave, .saveOverLeftover, .migrateAndSave:
                _ = try await file.load()
                try await file.save("new")
            case .loadUnreadable: _ = try await file.load()
            }
        }

        /// The file as a program of the newest version opens it.
        func file(
            in folder: Folder, fault: FaultySystem.Plan? = nil
        ) -> FluxFile<String> {
            if self != .migrateAndSave { return folder.file(fault: fault) }
            return folder.file(
                version: 2, fault: fault,
                migrate: { version, bytes in
                    guard version == 1 else { throw Folder.NoText() }
                    return String(decoding: bytes, as: UTF8.self)
                })
        }
    }

    @Test(arguments: Scenario.allCases, [false, true])
    func `After a failure of any call the old or the new state is there, and the next save works`(
        scenario: Scenario, isCrash: Bool
    ) async throws {
        var failed: Set<String> = []
        var nth = 0
        while true {
            nth += 1
            let folder = Folder()
            try await scenario.prepare(folder)
            let shim = Shim(nth: nth, onwards: isCrash)
            let file = scenario.file(in: folder, fault: shim.call)
            var thrown: (any Error)?
            do { try await scenario.run(file) } catch { thrown = error }
            if !shim.isReached { break }
            for call in shim.failed.values { failed.insert(call.rawValue) }
            if let thrown {
                #expect("\(thrown)".hasPrefix(folder.state + ": "), "call \(nth): \(thrown)")
            }
            // What a restarted program would find.
            let bytes = (folder.names.contains("state") ? folder.read() : [])
            if scenario == .loadUnreadable {
                let kept = folder.names.filter { $0.hasPrefix("state") }.map { folder.read($0) }
                #expect(kept.contains(Array("garbage".utf8)), "call \(nth)")
                continue
            }
            let stored = bytes.isEmpty ? nil : try FluxFileFormat.parse(bytes)
            let text = stored?.content
            if scenario == .migrateAndSave {
                #expect(text == Array((stored?.version == 1 ? "old" : "new").utf8), "call \(nth)")
                #expect(!folder.names.contains("state.unreadable"))
            }
            let wasOld = scenario != .firstSave
            let isKept = folder.names.filter { $0.hasPrefix("state.unreadable") }.map { folder.read($0).suffix(3) }
            switch text {
            case Array("new".utf8): break
            case Array("old".utf8): #expect(wasOld, "call \(nth)")
            case nil: #expect(!wasOld || isKept.contains(ArraySlice("old".utf8)), "call \(nth)")
            default: Issue.record("call \(nth): \(String(describing: text))")
            }
            let next = scenario.file(in: folder)
            _ = try await next.load()
            try await next.save("next")
            #expect(try await scenario.file(in: folder).load() == "next")
            #expect(!folder.names.contains("state.new"))
        }
        #expect(nth > 8)
        if scenario == .loadAndSave {
            let all = Set(FluxFileCalls.Call.allCases.map(\.rawValue))
            #expect(failed.union(["link", "unlink"]) == all, "one keeps what was never read, the other cleans up")
        }
    }

    @Test(arguments: [EIO, ENOSPC, EACCES, EROFS, EDQUOT])
    func `A failed save leaves no temporary file behind`(code: Int32) async throws {
        for nth in 1...40 {
            let folder = Folder()
            try await folder.file().save("old")
            let shim = Shim(nth: nth, .code(code))
            let file = folder.file(fault: shim.call)
            guard (try? await file.load()) != nil else { continue }
            guard (try? await file.save("new")) == nil, shim.failed.values != [.unlink] else { continue }
            #expect(folder.names == ["state"], "call \(nth), \(shim.failed.values)")
        }
    }

    @Test func `A save writes and syncs the new file, renames it, and then syncs the directory`() async throws {
        let folder = Folder()
        try await folder.file().save("old")
        let calls = Recorder<String>()
        let file = folder.file(fault: { call, path in
            calls.record(call == .open ? "open \(path.dropFirst(folder.path.count))" : call.rawValue)
            return nil
        })
        _ = try await file.load()
        let before = calls.values.count
        try await file.save("new")
        #expect(
            calls.values.dropFirst(before) == [
                "open /state.new", "flock", "stat", "stat", "write", "write", "fsync", "stat", "open /state", "read",
                "close", "stat", "rename",
                "close", "open ", "fsync", "close",
            ])
    }

    @Test func `Reads and writes of one byte at a time give the same result`() async throws {
        let folder = Folder()
        let shim = Shim(nth: 1, .short(1), onwards: true)
        try await folder.file(fault: shim.call).save("a text")
        #expect(try await folder.file().load() == "a text")
        #expect(try await folder.file(fault: shim.call).load() == "a text")
    }

    @Test func `A single short read or write changes nothing`() async throws {
        for nth in 1...60 {
            let folder = Folder()
            try await folder.file().save("old")
            let file = folder.file(fault: Shim(nth: nth, .short(20)).call)
            #expect(try await file.load() == "old", "call \(nth)")
            try await file.save("new")
            #expect(try await folder.file().load() == "new", "call \(nth)")
        }
    }

    @Test(.timeLimit(.minutes(1))) func `A save fails if a write writes no bytes and reports no error`() async {
        let folder = Folder()
        let file = folder.file { call, _ in call == .write ? .short(0) : nil }
        let error = await #expect(throws: FluxFileError.self) { try await file.save("new") }
        #expect(error?.description.hasSuffix("write: Input/output error") == true)
    }

    @Test func `The error of a failed call names the call`() async throws {
        for call in FluxFileCalls.Call.allCases where ![.read, .access, .link, .unlink].contains(call) {
            let folder = Folder()
            let file = folder.file { found, _ in found == call ? .code(EIO) : nil }
            let error = await #expect(throws: FluxFileError.self) { try await file.save("new") }
            let place = [.stat, .open, .rename].contains(call) ? " \(folder.state).new" : ""
            #expect(error?.description == "\(folder.state): \(call.rawValue)\(place): Input/output error")
        }
    }

    @Test func `A store reports the failure of its file, and the retry saves`() async throws {
        let folder = Folder()
        let (failures, shim) = (Recorder<FluxPersistenceFailure>(), Shim(nth: 6))
        let file = FluxFile<Counter>(
            FluxFileAccess(
                calls: FluxFileCalls(path: folder.state, system: FaultySystem(folder.state, shim.call)), version: 1,
                encode: { Array("\($0.count)".utf8) },
                decode: { Counter(count: Int(String(decoding: $0, as: UTF8.self))!) },
                migrate: nil))
        let store = FluxStore(
            initialState: Counter(), dispatcher: nil, persistence: file, backoff: .none,
            onFailure: { failures.record($0) })
        store.dispatch(action: .add(4))
        await store.flush()
        #expect(failures.values.map(\.operation) == [.save])
        #expect(try await file.load()?.count == 4)
    }
}

#if os(Linux)
    /// Failures that only the real system can produce, each test in its own process, isolated from the others.
    @Suite struct FluxFileSystemTests {
        @Test func `Without permission nothing is read or written, and the error names the path`() async {
            await #expect(processExitsWith: .success) {
                let folder = Folder()
                try await folder.file().save("old")
                let bytes = folder.read()
                chmod(folder.state, 0)
                chmod(folder.path, 0o555)
                // Permissions do not bind root, so the test becomes another user.
                if geteuid() == 0 { try #require(setegid(65_534) == 0 && seteuid(65_534) == 0) }
                let file = folder.file()
                let load = await #expect(throws: FluxFileError.self) { try await file.load() }
                #expect(load?.description == "\(folder.state): open: Permission denied")
                let save = await #expect(throws: FluxFileError.self) { try await file.save("new") }
                #expect(save?.description == "\(folder.state): open \(folder.state).new: Permission denied")
                if getuid() == 0 { try #require(seteuid(0) == 0 && setegid(0) == 0) }
                chmod(folder.path, 0o755)
                chmod(folder.state, 0o600)
                #expect(folder.read() == bytes)
                #expect(folder.names == ["state"])
                let next = folder.file()
                #expect(try await next.load() == "old")
                try await next.save("new")
            }
        }

        @Test func `In a folder that can be written but not listed, a renamed file counts as saved`() async {
            await #expect(processExitsWith: .success) {
                let folder = Folder()
                chmod(folder.path, 0o733)
                if geteuid() == 0 {
                    try #require(setegid(65_534) == 0 && seteuid(65_534) == 0)
                } else {
                    chmod(folder.path, 0o333)
                }
                let file = folder.file()
                try await file.save("old")
                try await file.save("new")
                #expect(try await folder.file().load() == "new")
                if getuid() == 0 { try #require(seteuid(0) == 0 && setegid(0) == 0) }
                chmod(folder.path, 0o755)
                #expect(folder.names == ["state"])
            }
        }

        @Test
        func `An unreadable file that cannot be renamed stays, and the error first says why it is unreadable`() async {
            await #expect(processExitsWith: .success) {
                let folder = Folder()
                folder.write(Array("garbage".utf8))
                chmod(folder.state, 0o644)
                chmod(folder.path, 0o555)
                if geteuid() == 0 { try #require(setegid(65_534) == 0 && seteuid(65_534) == 0) }
                let error = await #expect(throws: FluxFileError.self) { try await folder.file().load() }
                #expect(
                    error?.description
                        == "\(folder.state): the file was not written by FluxFile; it was left in place, because it "
                        + "could not be renamed: open \(folder.state).new: Permission denied")
                #expect(error?.keptAt == nil)
                if getuid() == 0 { try #require(seteuid(0) == 0 && setegid(0) == 0) }
                chmod(folder.path, 0o755)
                #expect(folder.names == ["state"])
            }
        }

        static let mayMount: Bool = {
            let folder = Folder()
            defer { umount(folder.path) }
            return mount("tmpfs", folder.path, "tmpfs", 0, "size=64k") == 0
        }()

        @Test(.enabled(if: mayMount, "needs the right to mount a tmpfs"))
        func `On a full disk a save keeps the old state, and a shorter state can still be saved`() async throws {
            let folder = Folder()
            try #require(mount("tmpfs", folder.path, "tmpfs", 0, "size=64k") == 0)
            defer { umount(folder.path) }
            let file = folder.file()
            try await file.save("old")
            let long = String(repeating: "x", count: 100_000)
            for _ in 0..<3 {
                let error = await #expect(throws: FluxFileError.self) { try await file.save(long) }
                #expect(error?.description == "\(folder.state): write: No space left on device")
                #expect(folder.names == ["state"])
                #expect(try await folder.file().load() == "old")
            }
            try await file.save("short")
            #expect(try await folder.file().load() == "short")
        }

        @Test func `No descriptor is left open, whichever call fails`() async {
            await #expect(processExitsWith: .success) {
                let folder = Folder()
                // Only those of this folder: the system opens others when it needs them, for example for timers.
                func descriptors() throws -> [String] {
                    let (manager, all) = (FileManager.default, "/proc/self/fd")
                    return try manager.contentsOfDirectory(atPath: all)
                        .compactMap { try? manager.destinationOfSymbolicLink(atPath: "\(all)/\($0)") }
                        .filter { $0.contains(folder.name) }
                }
                try await folder.file().save("old")
                for nth in 1...60 {
                    let shim = FluxFileFaultTests.Shim(nth: nth)
                    let file = folder.file(fault: shim.call)
                    _ = try? await file.load()
                    try? await file.save("new")
                }
                #expect(try descriptors() == [])
            }
        }
    }
#endif
