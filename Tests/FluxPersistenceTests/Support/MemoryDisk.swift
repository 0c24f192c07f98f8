import Foundation
import TestSupport

@testable import FluxPersistence

/// A file system in memory that tracks what was synced, so that it knows everything that a power loss may leave.
///
/// Unsynced content may be there up to any length, be zeroed, or be what was on that part of the disk before. Each
/// unsynced change to the names has happened or not, independently of the others and of the data.
final class MemoryDisk: FluxFileSystem {
    /// The content of each file, by its path.
    typealias Image = [String: [UInt8]]

    /// What goes wrong, by the number of the call.
    struct Plan: Sendable {
        /// From this call on nothing happens: the process is gone.
        var stop = Int.max
        /// This call fails with the code and does nothing.
        var fault: (call: Int, code: Int32)?
        /// The failing call still does its work before it fails.
        var isFaultLate = false
        /// A write accepts at most this many bytes.
        var most = Int.max
    }

    private struct File {
        var synced: [UInt8] = []
        var unsynced: [[UInt8]] = []
        /// A sync has failed: the system forgets the data that it has not written, and a later sync does not report it.
        var isForgotten = false
        var modified: Int

        var content: [UInt8] { synced + unsynced.joined() }
    }

    private struct Opened {
        /// Nil for the folder.
        let file: Int?
        var position = 0
    }

    private enum Change {
        case add(String, Int)
        case move(String, to: String, Int)
        case remove(String, Int)

        func apply(to names: inout [String: Int]) {
            switch self {
            case .add(let name, let file): names[name] = file
            case .move(let from, let to, let file):
                if names[from] == file { names[from] = nil }
                names[to] = file
            case .remove(let name, let file): if names[name] == file { names[name] = nil }
            }
        }
    }

    private struct State {
        var files: [File] = []
        var names: [String: Int] = [:]
        var syncedNames: [String: Int] = [:]
        var changes: [Change] = []
        var open: [Int32: Opened] = [:]
        var plan: Plan
        /// All calls, and whether they concerned the folder.
        var calls: [(call: FluxFileCalls.Call, isFolder: Bool)] = []

        mutating func change(_ change: Change) {
            change.apply(to: &names)
            changes.append(change)
        }
    }

    private static let folder = "/disk"
    static let path = folder + "/state"

    private let state: Locked<State>
    /// The intact content of an earlier file, which occupied the space where a new one is written.
    private let leftover: [UInt8]

    init(_ image: Image = [:], leftover: [UInt8] = [], plan: Plan = Plan()) {
        var state = State(plan: plan)
        for (index, entry) in image.sorted(by: { $0.key < $1.key }).enumerated() {
            state.files.append(File(synced: entry.value, modified: index))
            state.names[entry.key] = index
        }
        state.syncedNames = state.names
        self.state = Locked(state)
        self.leftover = leftover
    }

    /// The call that the planned fault has hit; nil if the fault was not reached.
    var failed: (call: FluxFileCalls.Call, isFolder: Bool)? {
        state.withLock { state in
            guard let call = state.plan.fault?.call, call <= state.calls.count else { return nil }
            return state.calls[call - 1]
        }
    }

    /// Continues for this many calls or, by default, without an end, as for a process after the one that was stopped.
    func goOn(for calls: Int = .max) {
        state.withLock { $0.plan = Plan(stop: calls == .max ? .max : $0.calls.count + calls) }
    }

    /// The number of calls so far.
    var calls: Int { state.withLock { $0.calls.count } }

    /// What is there as long as the power is on.
    var current: Image { state.withLock { state in state.names.mapValues { state.files[$0].content } } }

    // MARK: - Power loss

    /// Everything that may be there after a power loss, or after only the process has ended.
    func images() -> Set<Image> {
        state.withLock { state in
            var images: Set = [state.names.mapValues { state.files[$0].content }]
            for subset in 0..<(1 << state.changes.count) {
                var names = state.syncedNames
                for (index, change) in state.changes.enumerated() where subset & 1 << index != 0 {
                    change.apply(to: &names)
                }
                var contents: [[Int: [UInt8]]] = [[:]]
                for file in Set(names.values) {
                    let possible = possibleContents(of: state.files[file])
                    contents = contents.flatMap { content in
                        possible.map { content.merging([file: $0]) { $1 } }
                    }
                }
                for content in contents { images.insert(names.mapValues { content[$0]! }) }
            }
            return images
        }
    }

    private func possibleContents(of file: File) -> Set<[UInt8]> {
        let unsynced = Array(file.unsynced.joined())
        if unsynced.isEmpty { return [file.synced] }
        var contents = Set((0...unsynced.count).map { file.synced + unsynced[..<$0] })
        // Zeros in place of any single write, or of all of them.
        for lost in file.unsynced.indices {
            let parts = file.unsynced.enumerated().map { $0 == lost ? [UInt8](repeating: 0, count: $1.count) : $1 }
            contents.insert(file.synced + parts.joined())
        }
        contents.insert(file.synced + [UInt8](repeating: 0, count: unsynced.count))
        if file.synced.isEmpty { contents.insert(leftover) }
        return contents
    }

    // MARK: - Calls

    /// Performs a call unless the plan says otherwise; the closure returns a negative code to fail.
    private func perform(
        _ call: FluxFileCalls.Call, isFolder: Bool = false, _ body: (inout State) -> Int
    ) -> Int {
        let result = state.withLock { state in
            state.calls.append((call, isFolder))
            let number = state.calls.count
            if number >= state.plan.stop { return -Int(EIO) }
            if let fault = state.plan.fault, fault.call == number {
                if call == .sync && fault.code != EINTR { markForgotten(&state) }
                if state.plan.isFaultLate { _ = body(&state) }
                return -Int(fault.code)
            }
            return body(&state)
        }
        if result >= 0 { return result }
        errno = Int32(-result)
        return -1
    }

    private func markForgotten(_ state: inout State) {
        for case let file? in state.open.values.map(\.file) where !state.files[file].unsynced.isEmpty {
            state.files[file].isForgotten = true
        }
    }

    private func fill(_ status: inout stat, _ file: Int, _ state: State) {
        status.st_dev = 1
        status.st_ino = numericCast(file + 1)
        status.st_size = numericCast(state.files[file].content.count)
        status.st_mode = S_IFREG | 0o600
        #if canImport(Darwin)
            status.st_mtimespec.tv_sec = state.files[file].modified
        #else
            status.st_mtim.tv_sec = state.files[file].modified
        #endif
    }

    func lookUp(_ path: String, _ status: inout stat) -> Int {
        perform(.stat) { state in
            guard let file = state.names[path] else { return -Int(ENOENT) }
            fill(&status, file, state)
            return 0
        }
    }

    func lookUp(_ descriptor: Int32, _ status: inout stat) -> Int {
        perform(.stat) { state in
            guard let file = state.open[descriptor]?.file else { return -Int(EBADF) }
            fill(&status, file, state)
            return 0
        }
    }

    func mayWrite(in folder: String) -> Int {
        perform(.access, isFolder: true) { _ in folder == Self.folder ? 0 : -Int(ENOENT) }
    }

    func openFile(_ path: String, _ flags: Int32) -> Int {
        perform(.open, isFolder: path == Self.folder) { state in
            var file = state.names[path]
            if path != Self.folder {
                if flags & O_CREAT != 0 {
                    if file != nil { return -Int(EEXIST) }
                    file = state.files.count
                    state.files.append(File(modified: state.calls.count))
                    state.change(.add(path, state.files.count - 1))
                }
                if file == nil { return -Int(ENOENT) }
            }
            let descriptor = Int32(state.calls.count)
            state.open[descriptor] = Opened(file: file)
            return Int(descriptor)
        }
    }

    func lockFile(_ descriptor: Int32) -> Int {
        perform(.lock) { state in state.open[descriptor] == nil ? -Int(EBADF) : 0 }
    }

    func readFile(_ descriptor: Int32, _ buffer: UnsafeMutableRawBufferPointer) -> Int {
        perform(.read) { state in
            guard let file = state.open[descriptor]?.file else { return -Int(EBADF) }
            let rest = state.files[file].content[state.open[descriptor]!.position...].prefix(buffer.count)
            buffer.copyBytes(from: rest)
            state.open[descriptor]!.position += rest.count
            return rest.count
        }
    }

    func writeFile(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
        perform(.write) { state in
            guard let file = state.open[descriptor]?.file else { return -Int(EBADF) }
            let part = Array(bytes.prefix(state.plan.most))
            state.files[file].unsynced.append(part)
            state.files[file].modified = state.calls.count + 1_000
            return part.count
        }
    }

    func syncFile(_ descriptor: Int32) -> Int {
        perform(.sync, isFolder: isFolder(descriptor)) { state in
            guard let opened = state.open[descriptor] else { return -Int(EBADF) }
            guard let file = opened.file else {
                state.syncedNames = state.names
                state.changes = []
                return 0
            }
            if !state.files[file].isForgotten {
                state.files[file].synced = state.files[file].content
                state.files[file].unsynced = []
            }
            return 0
        }
    }

    private func isFolder(_ descriptor: Int32) -> Bool {
        state.withLock { state in state.open[descriptor].map { $0.file == nil } ?? false }
    }

    func closeFile(_ descriptor: Int32) -> Int {
        perform(.close) { state in state.open.removeValue(forKey: descriptor) == nil ? -Int(EBADF) : 0 }
    }

    func linkFile(_ from: String, to: String) -> Int {
        perform(.link) { state in
            guard let file = state.names[from] else { return -Int(ENOENT) }
            if state.names[to] != nil { return -Int(EEXIST) }
            state.change(.add(to, file))
            return 0
        }
    }

    func renameFile(_ from: String, to: String) -> Int {
        perform(.rename) { state in
            guard let file = state.names[from] else { return -Int(ENOENT) }
            state.change(.move(from, to: to, file))
            return 0
        }
    }

    func unlinkFile(_ path: String) -> Int {
        perform(.unlink) { state in
            guard let file = state.names[path] else { return -Int(ENOENT) }
            state.change(.remove(path, file))
            return 0
        }
    }
}
