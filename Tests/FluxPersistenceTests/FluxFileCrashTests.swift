import Foundation
import TestSupport
import Testing

@testable import FluxPersistence

/// The process stops, or the power fails, at each system call in turn: a load finds the old state or the new one.
@Suite struct FluxFileCrashTests {
    /// What a program does with its file, and what is on the disk before.
    enum Scenario: CaseIterable {
        case firstSave, saveOverOld, saveOverUnread, migration, recovery, unreadable

        static let old = FluxFileFormat.head(version: 1, content: Array("old".utf8)) + Array("old".utf8)
        static let garbage = Array("garbage".utf8)

        var image: MemoryDisk.Image {
            switch self {
            case .firstSave: [:]
            case .saveOverOld, .saveOverUnread, .migration: [MemoryDisk.path: Self.old]
            case .recovery: [MemoryDisk.path: Self.old, MemoryDisk.path + ".new": Array(Self.old.prefix(20))]
            case .unreadable: [MemoryDisk.path: Self.garbage]
            }
        }

        /// What a load may find as long as nothing has been saved.
        var before: Set<Found> {
            switch self {
            case .firstSave: [.nothing]
            case .saveOverOld, .saveOverUnread, .migration, .recovery: [.state("old")]
            case .unreadable: [.refused, .nothing]
            }
        }

        /// Content that some file must still hold, because it was never read.
        var kept: [UInt8]? {
            switch self {
            case .firstSave, .saveOverOld, .migration, .recovery: nil
            case .saveOverUnread: Self.old
            case .unreadable: Self.garbage
            }
        }

        func access(_ disk: MemoryDisk) -> FluxFileAccess<String> {
            let calls = FluxFileCalls(path: MemoryDisk.path, system: disk)
            if self != .migration { return FluxFileAccess(calls: calls) }
            return FluxFileAccess(
                calls: calls, version: 2, migrate: { _, bytes in String(decoding: bytes, as: UTF8.self) })
        }

        func disk(_ plan: MemoryDisk.Plan) -> MemoryDisk {
            MemoryDisk(image, leftover: Crash.leftover, plan: plan)
        }
    }

    /// The result of a load.
    enum Found: Hashable {
        case nothing, refused
        case state(String)
    }

    /// Checks one scenario; throws if a result is wrong.
    struct Crash {
        /// A state that was never saved here, in a file that is intact: a load must never find it.
        static let leftover = FluxFileFormat.head(version: 1, content: Array("???".utf8)) + Array("???".utf8)

        struct Wrong: Error, CustomStringConvertible {
            let description: String
        }

        private struct Seen: Hashable {
            let image: MemoryDisk.Image
            let allowed: Set<Found>
            let kept: [UInt8]?
            let depth: Int
        }

        let scenario: Scenario
        private var seen: Set<Seen> = []

        init(_ scenario: Scenario) { self.scenario = scenario }

        /// The number of different disks on which a program was started.
        var count: Int { seen.count }

        /// Loads, if `loads` is true, and saves.
        ///
        /// - Returns: Whether the save succeeded.
        static func run(
            _ text: String, on access: borrowing FluxFileAccess<String>, loads: Bool = true
        ) -> Bool {
            if loads { _ = try? access.read(for: FluxCancellationFlag(partOf: nil)) }
            return (try? access.write(text)) != nil
        }

        static func load(_ access: borrowing FluxFileAccess<String>) -> Found {
            do {
                return try access.read(for: FluxCancellationFlag(partOf: nil)).map { .state($0) } ?? .nothing
            } catch {
                return .refused
            }
        }

        /// Starts a program on each disk that a power loss may leave, stopped at each call too, `depth` times over.
        mutating func check(
            _ disk: MemoryDisk, allowed: Set<Found>, kept: [UInt8]?, stops depth: Int, _ history: String
        ) throws {
            for image in disk.images() {
                try check(image, allowed: allowed, kept: kept, stops: depth, history)
            }
        }

        private mutating func check(
            _ image: MemoryDisk.Image, allowed: Set<Found>, kept: [UInt8]?, stops depth: Int, _ history: String
        ) throws {
            if !seen.insert(Seen(image: image, allowed: allowed, kept: kept, depth: depth)).inserted { return }
            func wrong(_ what: String) -> Wrong {
                Wrong(description: "\(history): \(what), on \(image.mapValues { String(decoding: $0, as: UTF8.self) })")
            }
            let disk = MemoryDisk(image)
            let found = Self.load(scenario.access(disk))
            if !allowed.contains(found) { throw wrong("a load finds \(found)") }
            func checkKept(_ kept: [UInt8]?, _ when: String) throws {
                if let kept, !disk.current.values.contains(kept) { throw wrong("what was never read is gone \(when)") }
            }
            try checkKept(kept, "after the load")
            // A state that has now been read may be overwritten.
            let kept = found == .state("old") ? nil : kept
            let access = scenario.access(disk)
            if !Self.run("next", on: access) { throw wrong("no save works any more") }
            if Self.load(scenario.access(disk)) != .state("next") { throw wrong("the next save is not found") }
            if disk.current.keys.contains(MemoryDisk.path + ".new") { throw wrong("the next save leaves a file") }
            try checkKept(kept, "after the next save")
            if depth == 0 { return }
            for stop in 1... {
                let disk = MemoryDisk(image, leftover: Self.leftover, plan: MemoryDisk.Plan(stop: stop))
                let isSaved = Self.run("next", on: scenario.access(disk))
                // A refused file is moved aside, so the next load may find nothing.
                let found: Set = found == .refused ? [.refused, .nothing] : [found]
                try check(
                    disk, allowed: isSaved ? [.state("next")] : found.union([.state("next")]), kept: kept,
                    stops: depth - 1, "\(history), and again at call \(stop)")
                if disk.calls < stop { break }
            }
        }
    }

    @Test(arguments: Scenario.allCases, [Int.max, 1, 7])
    func `After a stop at any call, and after a second one, a load finds the old or the new state`(
        scenario: Scenario, most: Int
    ) throws {
        var crash = Crash(scenario)
        for stop in 1... {
            let disk = scenario.disk(MemoryDisk.Plan(stop: stop, most: most))
            let isSaved = Crash.run("new", on: scenario.access(disk), loads: scenario != .saveOverUnread)
            let allowed = isSaved ? [.state("new")] : scenario.before.union([.state("new")])
            try crash.check(
                disk, allowed: allowed, kept: scenario.kept, stops: most == .max ? 1 : 0,
                "\(scenario), stopped at call \(stop)")
            if disk.calls < stop {
                #expect(isSaved)
                break
            }
            #expect(!isSaved || disk.calls == stop, "after the save only a descriptor is closed")
        }
        #expect(crash.count > 50)
    }

    @Test(arguments: Scenario.allCases)
    func `A state that is found after the process has stopped is found after a power loss too`(scenario: Scenario) {
        for stop in 1... {
            let disk = scenario.disk(MemoryDisk.Plan(stop: stop))
            _ = Crash.run("new", on: scenario.access(disk), loads: scenario != .saveOverUnread)
            if disk.calls < stop { break }
            disk.goOn()
            let found = Crash.load(scenario.access(disk))
            guard case .state = found else { continue }
            for image in disk.images() {
                #expect(Crash.load(scenario.access(MemoryDisk(image))) == found, "stopped at call \(stop)")
            }
        }
    }

    @Test(arguments: [Scenario.saveOverUnread, .unreadable], [false, true])
    func `Unread content is kept durably before a new file replaces it, even after a failure or a stop`(
        scenario: Scenario, isStopped: Bool
    ) {
        for nth in 1... {
            for calls in 1...40 {
                let disk = scenario.disk(isStopped ? .init(stop: nth) : .init(fault: (nth, EIO)))
                let access = scenario.access(disk)
                _ = Crash.run("new", on: access, loads: scenario == .unreadable)
                if disk.calls < nth { return }
                disk.goOn(for: calls)
                if isStopped {
                    _ = Crash.run("new", on: scenario.access(disk), loads: scenario == .unreadable)
                } else {
                    _ = Crash.run("new", on: access, loads: false)
                    // There is only one such name, however often the save is tried.
                    #expect(disk.current.keys.filter { $0.contains(".unreadable") }.count <= 1)
                }
                for image in disk.images() {
                    #expect(image.values.contains(scenario.kept!), "call \(nth), and \(calls) calls later")
                }
            }
        }
    }

    @Test func `Wherever a load is stopped, a file named unreadable holds the content that could not be read`() {
        for stop in 1... {
            let disk = Scenario.unreadable.disk(MemoryDisk.Plan(stop: stop))
            _ = Crash.load(Scenario.unreadable.access(disk))
            for image in disk.images() {
                let kept = image.filter { $0.key.contains(".unreadable") }.values
                #expect(kept.allSatisfy { $0 == Scenario.garbage }, "stopped at call \(stop)")
            }
            if disk.calls < stop { break }
        }
    }

    @Test(arguments: Scenario.allCases, [EIO, EINTR, ENOENT])
    func `A rename, link or removal that works but reports an error loses nothing, and a retry works`(
        scenario: Scenario, code: Int32
    ) throws {
        for nth in 1... {
            let disk = scenario.disk(MemoryDisk.Plan(fault: (nth, code), isFaultLate: true))
            let access = scenario.access(disk)
            var kept = MemoryDisk.path
            if scenario == .unreadable {
                do { _ = try access.read(for: .init(partOf: nil)) } catch {
                    kept = (error as? FluxFileError)?.keptAt ?? kept
                }
            }
            let before = disk.current
            let isSaved = Crash.run("new", on: access, loads: ![.saveOverUnread, .unreadable].contains(scenario))
            guard let failed = disk.failed else { break }
            if ![.link, .rename, .unlink].contains(failed.call) { continue }
            let history = "\(failed.call) failed with \(code) at call \(nth)"
            if let content = scenario.kept { #expect(disk.current.values.contains(content), "\(history)") }
            // The content is where the load's error says that it was kept.
            if scenario == .unreadable { #expect(before[kept] == Scenario.garbage, "\(history)") }
            #expect(isSaved || Crash.run("new", on: access, loads: false), "\(history)")
            #expect(Crash.load(scenario.access(disk)) == .state("new"), "\(history)")
        }
    }

    @Test(arguments: Scenario.allCases, [ENOSPC, EIO, EINTR, EACCES, EROFS])
    func `After a failure of any call and a later stop, a load finds the old or the new state`(
        scenario: Scenario, code: Int32
    ) throws {
        var crash = Crash(scenario)
        for nth in 1... {
            for stop in [.max] + Array(nth + 1...nth + 60) {
                let disk = scenario.disk(MemoryDisk.Plan(stop: stop, fault: (nth, code)))
                let access = scenario.access(disk)
                let isSaved = Crash.run("new", on: access, loads: scenario != .saveOverUnread)
                guard let failed = disk.failed else {
                    #expect(isSaved)
                    #expect(nth > 14)
                    return
                }
                // A folder that cannot be synced does not prevent a save, but makes it less durable.
                let isWeaker = failed.isFolder && isSaved
                let history = "\(scenario), \(failed.call) failed with \(code) at call \(nth), stopped at call \(stop)"
                var allowed = scenario.before.union([.state("new")])
                if isSaved && !isWeaker { allowed = [.state("new")] }
                // Without hard links the old file is moved aside before the new one is in place.
                if scenario == .saveOverUnread && failed.call == .link && code == EACCES { allowed.insert(.nothing) }
                try crash.check(
                    disk, allowed: allowed, kept: failed.isFolder ? nil : scenario.kept, stops: 0, history)
                if stop == .max {
                    let isRetried = Crash.run("new", on: access, loads: false)
                    #expect(isRetried, "\(history)")
                    try crash.check(disk, allowed: [.state("new")], kept: nil, stops: 0, history + ", tried again")
                } else if disk.calls < stop {
                    break
                }
            }
        }
    }
}
