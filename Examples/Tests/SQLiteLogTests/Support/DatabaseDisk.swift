import Foundation
import GRDBSQLite
import Synchronization

/// A disk in memory for SQLite that tracks what was synced, so that it knows what a power loss may leave.
///
/// SQLite reaches it by a path that begins with its `folder`, through a VFS that passes all other paths to the
/// system's. It counts the changes of the disk: each write, sync, truncation and deletion.
final class DatabaseDisk: Sendable {
    /// The content of each file, by its path in the folder.
    typealias Image = [String: [UInt8]]

    /// What goes wrong, by the number of the change.
    struct Plan: Sendable {
        /// From this change on nothing happens: the process is gone.
        var stop = Int.max
        /// This change fails; a write leaves half of its bytes, as on a full disk.
        var fault: (number: Int, isFull: Bool)?
    }

    enum Kind: Int32 {
        case read = 1
        case write = 3
        case sync = 4
        case truncation = 6
        case deletion = 10

        /// SQLite's code for a disk error in such a call.
        var code: Int32 { SQLITE_IOERR | rawValue << 8 }
    }

    private enum Change {
        case write(at: Int, [UInt8])
        case truncation(Int)

        func apply(to content: inout [UInt8]) {
            switch self {
            case .write(let position, let bytes):
                let end = position + bytes.count
                if content.count < end { content += [UInt8](repeating: 0, count: end - content.count) }
                content.replaceSubrange(position..<end, with: bytes)
            case .truncation(let size): if content.count > size { content.removeSubrange(size...) }
            }
        }
    }

    private struct File {
        var content: [UInt8] = []
        /// Nil if a power loss leaves no such file.
        var synced: [UInt8]?
        var isDeleted = false
    }

    private struct State {
        var files: [String: File] = [:]
        /// The unsynced changes in order, without those that a failed sync has forgotten.
        var unsynced: [(file: String, change: Change)] = []
        var plan: Plan
        var changes: [Kind] = []
    }

    let folder = "/memory-\(UUID().uuidString)/"
    private let state: Mutex<State>

    init(_ image: Image = [:], plan: Plan = Plan()) {
        var state = State(plan: plan)
        for (name, bytes) in image { state.files[name] = File(content: bytes, synced: bytes) }
        self.state = Mutex(state)
        DatabaseVFS.add(self)
    }

    deinit {
        DatabaseVFS.remove(folder)
    }

    /// The number of changes so far.
    var changes: Int { state.withLock { $0.changes.count } }

    /// The change that the planned fault has hit; nil if the fault was not reached.
    var failed: Kind? {
        state.withLock { state in
            guard let number = state.plan.fault?.number, number <= state.changes.count else { return nil }
            return state.changes[number - 1]
        }
    }

    /// What is there as long as the power is on.
    var current: Image { state.withLock { $0.files.filter { !$0.value.isDeleted }.mapValues(\.content) } }

    // MARK: - Power loss

    /// What may be there after a power loss, or after only the process has ended.
    ///
    /// A power loss keeps all unsynced changes, none, all up to any point, all but any one, any single one, or some at
    /// random; or all, but only half of the last write.
    func images(random: inout some RandomNumberGenerator) -> Set<Image> {
        state.withLock { state in
            let all = Array(state.unsynced.indices)
            var kept: Set<[Int]> = [all, []]
            for index in all {
                kept.insert(Array(all[..<index]))
                kept.insert(all.filter { $0 != index })
                kept.insert([index])
            }
            for _ in 0..<4 { kept.insert(all.filter { _ in Bool.random(using: &random) }) }
            var images = Set(kept.map { image(of: state, $0.map { state.unsynced[$0] }) })
            if case (let file, .write(let position, let bytes))? = state.unsynced.last {
                let torn = Change.write(at: position, Array(bytes.prefix(max(bytes.count / 2, 1))))
                images.insert(image(of: state, state.unsynced.dropLast() + [(file, torn)]))
            }
            images.insert(state.files.filter { !$0.value.isDeleted }.mapValues(\.content))
            return images
        }
    }

    private func image(of state: borrowing State, _ changes: [(file: String, change: Change)]) -> Image {
        var image = state.files.compactMapValues(\.synced)
        for (file, change) in changes { change.apply(to: &image[file, default: []]) }
        return image
    }

    // MARK: - Calls from SQLite

    /// Makes a change unless the plan says otherwise; returns SQLite's code.
    private func perform(_ kind: Kind, _ body: (inout State) -> Void, partly: (inout State) -> Void = { _ in }) -> Int32
    {
        state.withLock { state in
            state.changes.append(kind)
            let number = state.changes.count
            if number >= state.plan.stop { return kind.code }
            guard let fault = state.plan.fault, fault.number == number else {
                body(&state)
                return SQLITE_OK
            }
            partly(&state)
            return fault.isFull && kind == .write ? SQLITE_FULL : kind.code
        }
    }

    func open(_ name: String, _ flags: Int32) -> Bool {
        state.withLock { state in
            let isThere = state.files[name].map { !$0.isDeleted } ?? false
            if !isThere {
                if flags & SQLITE_OPEN_CREATE == 0 || state.changes.count >= state.plan.stop { return false }
                state.files[name] = File(synced: state.files[name]?.synced)
            }
            return true
        }
    }

    func exists(_ name: String) -> Bool { state.withLock { $0.files[name].map { !$0.isDeleted } ?? false } }

    func size(of name: String) -> Int { state.withLock { $0.files[name]?.content.count ?? 0 } }

    /// Fills the buffer, with zeros after the end of the file; returns SQLite's code.
    func read(_ name: String, at position: Int, into buffer: UnsafeMutableRawBufferPointer) -> Int32 {
        state.withLock { state in
            if state.changes.count >= state.plan.stop { return Kind.read.code }
            let content = state.files[name]?.content ?? []
            let part = content.dropFirst(position).prefix(buffer.count)
            buffer.copyBytes(from: part)
            if part.count == buffer.count { return SQLITE_OK }
            for index in part.count..<buffer.count { buffer[index] = 0 }
            return SQLITE_IOERR | 2 << 8
        }
    }

    func write(_ name: String, at position: Int, _ bytes: [UInt8]) -> Int32 {
        perform(.write) { state in
            Self.change(&state, name, .write(at: position, bytes))
        } partly: { state in
            Self.change(&state, name, .write(at: position, Array(bytes.prefix(bytes.count / 2))))
        }
    }

    func truncate(_ name: String, to size: Int) -> Int32 {
        perform(.truncation) { Self.change(&$0, name, .truncation(size)) }
    }

    private static func change(_ state: inout State, _ name: String, _ change: Change) {
        change.apply(to: &state.files[name, default: File()].content)
        state.unsynced.append((name, change))
    }

    func sync(_ name: String) -> Int32 {
        perform(.sync) { state in
            // With the first sync of a new file SQLite also has the folder synced, and with it the deletions there.
            if state.files[name]?.synced == nil { state.files = state.files.filter { !$0.value.isDeleted } }
            let remembered = Self.remembered(state, name)
            state.files[name]?.synced = remembered
            state.unsynced.removeAll { $0.file == name }
        } partly: { state in
            // The data may not have reached the disk, and the system does not try again.
            state.unsynced.removeAll { $0.file == name }
        }
    }

    private static func remembered(_ state: State, _ name: String) -> [UInt8] {
        var content = state.files[name]?.synced ?? []
        for (file, change) in state.unsynced where file == name { change.apply(to: &content) }
        return content
    }

    func delete(_ name: String, isSynced: Bool) -> Int32 {
        perform(.deletion) { state in
            state.files[name]?.isDeleted = true
            state.files[name]?.content = []
            state.unsynced.removeAll { $0.file == name }
            if isSynced { state.files[name] = nil }
        }
    }
}
