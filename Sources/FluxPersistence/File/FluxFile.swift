import Dispatch

#if canImport(FluxCore)
    import FluxCore
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
/// else has written meanwhile stays too: two stores cannot share a file. One that is let go saves what is due after that,
/// so `await` its store's `flush()` first where the path is opened again in the same process.
///
/// Its directory has to exist. One that may be written but not read, or whose file system syncs no directories, is not
/// synced: a save counts once the file has its name, and a loss of power may bring the old state back. The file can be
/// read and written by its owner alone. A symbolic link is not followed: it is not a file.
///
/// Thread safety: all of it may be used from any thread; it reads and writes on a queue of its own, one at a time.
nonisolated public final class FluxFile<State: Sendable>: FluxPersistence {
    /// Changed on the queue alone, so in the order of reads and writes.
    let known = FluxLock(FluxFileKnown.nothing)
    let calls: FluxFileCalls
    let version: Int
    let encode: @Sendable (State) throws -> [UInt8]
    let decode: @Sendable ([UInt8]) throws -> State
    let migrate: (@Sendable (_ version: Int, _ bytes: [UInt8]) throws -> State)?
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
    /// - Throws: ``FluxFileError``, with the path; `CancellationError`, at once, in a task that is cancelled: what is read
    ///   then counts as not read.
    public func load() async throws -> State? {
        // A store that has given up on the load goes on from another state, so the file counts as not read then.
        let cancellation = FluxLoadCancellation(partOf: .current)
        let answer = perform { () throws -> State? in
            // It may have waited long for its turn: nothing is to be moved any more either.
            if cancellation.isCancelled { throw _Concurrency.CancellationError() }
            let answer = try self.read()
            let found = answer.map { FluxFileKnown.file($0.1) } ?? .absence
            self.known.withLock { $0 = .found(found, by: cancellation, before: $0.valid) }
            return answer?.0
        }
        let result = await withTaskCancellationHandler {
            await answer.wait()
        } onCancel: {
            cancellation.cancel()
        }
        guard !cancellation.isCancelled, let result else { throw _Concurrency.CancellationError() }
        return try result.get()
    }

    /// Puts a state into the file, also in a task that is cancelled.
    ///
    /// - Parameter state: The state to keep.
    /// - Throws: ``FluxFileError``, with the path.
    public func save(_ state: State) async throws {
        try await perform { try self.write(state) }.waitToTheEnd()
    }

    /// Does something on the queue, so that a slow disk keeps no thread of the tasks' pool.
    private func perform<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) -> FluxStoragePromise<Value> {
        let answer = FluxStoragePromise<Value>()
        queue.async { answer.keep(Swift.Result { try body() }) }
        return answer
    }
}

/// What a ``FluxFile`` knows of the file in its place, and so may overwrite.
nonisolated enum FluxFileKnown: Sendable {
    /// It was neither read nor written here: what is there is kept aside.
    case nothing
    /// There was none when it was last looked for: what is there now is another's.
    case absence
    /// The file as it was last read or written here.
    case file(FluxFileCalls.Identity)
    /// What a load has found; once that is void, what was known before.
    indirect case found(FluxFileKnown, by: FluxLoadCancellation, before: FluxFileKnown)

    /// What counts now.
    var valid: FluxFileKnown {
        guard case .found(let known, let load, let before) = self else { return self }
        return load.isCancelled ? before : known
    }
}
