import Dispatch

#if canImport(Darwin)
    import Darwin
#elseif canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#elseif canImport(Android)
    import Android
#endif

/// A state in a file: replaced as a whole at each save, so that a crash leaves the old state or the new one.
///
/// ```swift
/// let file = FluxFile<Todo>(
///     path: "/var/lib/todo/state", version: 2,
///     encode: { Array(try JSONEncoder().encode($0)) },
///     decode: { try JSONDecoder().decode(Todo.self, from: Data($0)) },
///     migrate: { version, bytes in try Todo(version: version, bytes: bytes) })
/// ```
///
/// A save writes a new file beside the old one (the path with `.new` at its end), syncs it, renames it and syncs the
/// directory. It costs as much as the state is long: for a state that changes often, and may lose nothing, there is
/// ``FluxLog``.
///
/// What it has not itself read or written it does not overwrite. A file that cannot be read, because it is empty, cut
/// off, damaged, foreign, or of a version without a migration, is renamed (`.unreadable` at its end, with a number if
/// that is taken) and reported. One of a newer version stays in its place, and saves are refused. One that something
/// else has written meanwhile stays too: two stores cannot share a file.
///
/// Its directory has to exist. A symbolic link is not followed: it is not a file.
///
/// Thread safety: all of it may be used from any thread; it reads and writes on a queue of its own, one at a time.
nonisolated public final class FluxFile<State: Sendable>: FluxPersistence {
    /// The file as it was last read or written here; nil: not yet.
    private let known = FluxLock<FluxFileCalls.Identity?>(nil)
    private let calls: FluxFileCalls
    private let version: Int
    private let encode: @Sendable (State) throws -> [UInt8]
    private let decode: @Sendable ([UInt8]) throws -> State
    private let migrate: (@Sendable (_ version: Int, _ bytes: [UInt8]) throws -> State)?
    private let queue = DispatchQueue(label: "FluxFile", target: .global())

    /// Names a file, which need not exist; nothing is read yet.
    ///
    /// - Parameters:
    ///   - path: Where it is. Its directory has to exist and to allow new files.
    ///   - version: The version of what `encode` makes; raise it whenever `decode` no longer takes what was made before.
    ///   - encode: Makes bytes of a state.
    ///   - decode: Makes a state of bytes of this version.
    ///   - migrate: Makes a state of bytes of an older version, which it is given; nil: there is none that it could.
    public convenience init(
        path: String,
        version: Int = 1,
        encode: @escaping @Sendable (State) throws -> [UInt8],
        decode: @escaping @Sendable ([UInt8]) throws -> State,
        migrate: (@Sendable (_ version: Int, _ bytes: [UInt8]) throws -> State)? = nil
    ) {
        self.init(
            calls: FluxFileCalls(path: path), version: version, encode: encode, decode: decode, migrate: migrate)
    }

    init(
        calls: FluxFileCalls,
        version: Int,
        encode: @escaping @Sendable (State) throws -> [UInt8],
        decode: @escaping @Sendable ([UInt8]) throws -> State,
        migrate: (@Sendable (_ version: Int, _ bytes: [UInt8]) throws -> State)?
    ) {
        self.calls = calls
        self.version = version
        self.encode = encode
        self.decode = decode
        self.migrate = migrate
    }

    /// Reads the state in the file.
    ///
    /// - Returns: The state; nil if there is no file.
    /// - Throws: ``FluxFileError``, with the path.
    public func load() async throws -> State? {
        let answer = try await perform { try self.read() }
        // A store that has given up on the load goes on from another state, so the file counts as not read.
        try _Concurrency.Task.checkCancellation()
        guard let (state, identity) = answer else { return nil }
        known.withLock { $0 = identity }
        return state
    }

    /// Puts a state into the file.
    ///
    /// - Parameter state: The state to keep.
    /// - Throws: ``FluxFileError``, with the path.
    public func save(_ state: State) async throws {
        try await perform { try self.write(state) }
    }

    // MARK: - Reading

    private func read() throws -> (State, FluxFileCalls.Identity)? {
        guard let found = try calls.identity(at: calls.path) else { return nil }
        if !found.isFile { throw FluxFileError(calls.path, .notAFile) }
        let descriptor = try calls.openFile(calls.path, O_RDONLY)
        let (identity, bytes): (FluxFileCalls.Identity, [UInt8])
        do {
            identity = try calls.identity(of: descriptor)
            bytes = try calls.readFile(descriptor)
        } catch {
            try? calls.closeFile(descriptor)
            throw error
        }
        try calls.closeFile(descriptor)
        do {
            return (try state(of: bytes), identity)
        } catch var error {
            if error.isUnreadable { error.keptAt = try keepAside() }
            throw error
        }
    }

    private func state(of file: [UInt8]) throws(FluxFileError) -> State {
        let (stored, content): (Int, [UInt8])
        do {
            (stored, content) = try FluxFileFormat.parse(file)
        } catch {
            throw FluxFileError(calls.path, error.reason)
        }
        if stored > version { throw FluxFileError(calls.path, .newer(version: stored)) }
        do {
            if stored == version { return try decode(content) }
            if let migrate { return try migrate(stored, content) }
        } catch {
            throw FluxFileError(calls.path, .coding(error))
        }
        throw FluxFileError(calls.path, .noMigration(version: stored))
    }

    /// Renames the file to a name that is free, and returns that.
    private func keepAside() throws(FluxFileError) -> String {
        var number = 1
        while true {
            let name = calls.path + ".unreadable" + (number == 1 ? "" : "-\(number)")
            number += 1
            do {
                // Made first, so that of two who look for a free name only one gets it.
                try calls.closeFile(calls.openFile(name, O_WRONLY | O_CREAT | O_EXCL))
            } catch {
                if case .system(_, EEXIST) = error.reason { continue }
                throw error
            }
            do {
                try calls.renameFile(calls.path, to: name)
            } catch {
                try? calls.unlinkFile(name)
                throw error
            }
            try syncDirectory()
            return name
        }
    }

    // MARK: - Writing

    private func write(_ state: State) throws {
        let content: [UInt8]
        do {
            content = try encode(state)
        } catch {
            throw FluxFileError(calls.path, .coding(error))
        }
        let name = calls.path + ".new"
        let descriptor = try openNew(name)
        var isRenamed = false
        do {
            // From here on, and until it is closed, nobody else writes the file in the same way.
            try calls.writeFile(descriptor, FluxFileFormat.head(version: version, content: content))
            try calls.writeFile(descriptor, content)
            try calls.syncFile(descriptor)
            try makeWay()
            let identity = try calls.identity(of: descriptor)
            try calls.renameFile(name, to: calls.path)
            isRenamed = true
            known.withLock { $0 = identity }
            try syncDirectory()
        } catch {
            if !isRenamed { try? calls.unlinkFile(name) }
            try? calls.closeFile(descriptor)
            throw error
        }
        try calls.closeFile(descriptor)
    }

    /// Makes the new file and locks it, once nobody else has one; one that a crash has left behind is removed.
    private func openNew(_ name: String) throws(FluxFileError) -> Int32 {
        while true {
            var isNew = true
            var descriptor: Int32
            do {
                descriptor = try calls.openFile(name, O_WRONLY | O_CREAT | O_EXCL)
            } catch {
                guard case .system(_, EEXIST) = error.reason else { throw error }
                isNew = false
                do {
                    descriptor = try calls.openFile(name, O_WRONLY)
                } catch {
                    if case .system(_, ENOENT) = error.reason { continue }
                    throw error
                }
            }
            do {
                try calls.lockFile(descriptor)
                // By the time it is locked it may have been renamed or removed by the one who had the lock before.
                let isInPlace = try calls.identity(at: name)?.number == calls.identity(of: descriptor).number
                if isInPlace && isNew { return descriptor }
                if isInPlace { try calls.unlinkFile(name) }
            } catch {
                if isNew { try? calls.unlinkFile(name) }
                try? calls.closeFile(descriptor)
                throw error
            }
            try calls.closeFile(descriptor)
        }
    }

    /// Sees that what is in the file's place may be overwritten.
    private func makeWay() throws(FluxFileError) {
        guard let found = try calls.identity(at: calls.path) else { return }
        if !found.isFile { throw FluxFileError(calls.path, .notAFile) }
        if let known = known.withLock({ $0 }) {
            if found != known { throw FluxFileError(calls.path, .changedByAnother) }
            return
        }
        // Never read here, or not to the end. Unless it is of a newer version it makes way, and is kept.
        let descriptor = try calls.openFile(calls.path, O_RDONLY)
        let head = try? calls.readFile(descriptor)
        try calls.closeFile(descriptor)
        if let head, let (stored, _) = try? FluxFileFormat.parse(head), stored > version {
            throw FluxFileError(calls.path, .newer(version: stored))
        }
        _ = try keepAside()
    }

    private func syncDirectory() throws(FluxFileError) {
        let end = calls.path.utf8.lastIndex(of: UInt8(ascii: "/"))
        let directory = end.map { $0 == calls.path.startIndex ? "/" : String(calls.path[..<$0]) } ?? "."
        let descriptor = try calls.openFile(directory, O_RDONLY)
        do {
            try calls.syncFile(descriptor)
        } catch {
            try? calls.closeFile(descriptor)
            throw error
        }
        try calls.closeFile(descriptor)
    }

    // MARK: - Support

    /// Runs a body on the queue, so that a slow disk keeps no thread of the tasks' pool.
    private func perform<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
        let latch = FluxLatch()
        let answer = FluxAnswer<Value>()
        latch.enter()
        queue.async {
            answer.lock.withLock { $0 = Swift.Result { try body() } }
            latch.leave()
        }
        await latch.wait()
        guard let result = answer.lock.withLock({ $0 }) else { throw _Concurrency.CancellationError() }
        return try result.get()
    }
}

/// What a body on a queue came to.
nonisolated private final class FluxAnswer<Value: Sendable>: Sendable {
    let lock = FluxLock<Swift.Result<Value, any Error>?>(nil)
}
