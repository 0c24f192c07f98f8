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
/// directory. A file at that path is taken for what a crash has left behind, anything else there makes a load throw, and the path of a
/// ``FluxFile`` may not end so.
/// A save costs as much as the state is long: for a state that changes often, and may lose nothing, there is ``FluxLog``.
///
/// What it has not itself read or written it does not overwrite. A file that cannot be read, because it is empty, cut
/// off, damaged, foreign, of a version without a migration, or of one whose migration throws, is renamed (`.unreadable` at its
/// end, with a number if that is taken) and reported. One that a save finds there, and that was never read, gets such a name besides its own,
/// which it has until the new file takes that; on a file system without second names it is renamed just before. One of a
/// newer version stays in its place, and saves are refused. One that something else has written meanwhile stays too: two
/// stores cannot share a file. They cannot share an object of this class either, and nothing tells them apart then: make
/// one for each store. Where a store was let go, the next load of its path in the same process waits for the save
/// that is due.
///
/// Its directory has to exist and to allow new files, and its name to leave room for `.unreadable-999`, or the first load
/// throws. A directory that may be written but not read, or whose file system syncs none, is not synced: a save counts once
/// the file has its name, and a loss of power may bring the old state back. The file can be read and written by its owner
/// alone. A symbolic link is not followed: it is not a file.
///
/// Thread safety: all of it may be used from any thread; it reads and writes on a queue of its own, one at a time.
nonisolated public final class FluxFile<State: Sendable>: FluxPersistence {
    private let access: FluxFileAccess<State>
    /// Not aimed at a global queue, unlike those of the core: tasks run on the threads of these, and who reads or writes waits.
    private let queue = DispatchQueue(label: "FluxFile")

    /// Names a file, which need not exist; nothing is read yet.
    ///
    /// - Parameters:
    ///   - path: Where it is. Its directory has to exist and to allow new files.
    ///   - version: The version of what `encode` makes, not negative; raise it whenever `decode` no longer takes what was made before.
    ///   - encode: Makes bytes of a state.
    ///   - decode: Makes a state of bytes of this version.
    ///   - migrate: Makes a state of bytes of an older version, which it is given; nil: older versions cannot be read.
    ///     The file stays as it is until the first save, and is put aside where this throws.
    public convenience init(
        path: String,
        version: Int = 1,
        encode: @escaping @Sendable (State) throws -> [UInt8],
        decode: @escaping @Sendable ([UInt8]) throws -> State,
        migrate: (@Sendable (_ version: Int, _ bytes: [UInt8]) throws -> State)? = nil
    ) {
        if version < 0 {
            fatalError("FluxCore: the version of a FluxFile cannot be negative (\(version)). Start with 0 or 1.")
        }
        self.init(
            FluxFileAccess(
                calls: FluxFileCalls(path: path), version: version, encode: encode, decode: decode, migrate: migrate))
    }

    init(_ access: consuming FluxFileAccess<State>) { self.access = access }

    /// The path, however it is written: its folder, as the system knows it, and the name.
    public var place: String? { access.calls.place }

    /// Reads the state in the file, once the stores of this process have saved to it what is due.
    ///
    /// - Returns: The state; nil if there is no file.
    /// - Throws: ``FluxFileError``, with the path; `CancellationError`, at once, in a task that is cancelled: what is read
    ///   then counts as not read.
    public func load() async throws -> State? {
        await FluxUnwritten.settle(at: place)
        try _Concurrency.Task.checkCancellation()
        // A store that has given up on the load goes on from another state, so the file counts as not read then.
        let answer = FluxLoadPromise<State?>(partOf: FluxUnwritten.running?.mark)
        queue.async { answer.give(Swift.Result { try self.access.read(for: answer.mark) }) }
        return try await answer.wait()
    }

    /// Puts a state into the file, also in a task that is cancelled.
    ///
    /// - Parameter state: The state to keep.
    /// - Throws: ``FluxFileError``, with the path.
    public func save(_ state: State) async throws {
        // On the queue, so that a slow disk keeps no thread of the tasks' pool.
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try self.access.write(state) }) }
        }
    }
}
