import Dispatch

/// A state in a file, replaced as a whole at each save: a crash leaves either the old state or the new one.
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
/// directory. A file at that path is taken for the remains of a crash; anything else there makes a load throw. The path
/// of a ``FluxFile`` itself may not end in `.new`.
///
/// The cost of a save is proportional to the size of the state. For a state that changes often and must lose nothing,
/// use ``FluxLog``.
///
/// No file is overwritten that this object has not read or written, except one that ends in `.new`:
/// - A file that a load cannot read is renamed, with `.unreadable` at its end and a number if that is taken, and
///   reported. Such a file is empty, cut off, damaged, foreign, of a version without a migration, or makes `decode` or
///   `migrate` throw.
/// - A file that a save finds, and that was never read, gets such a name as a second one and keeps its own until the
///   new file takes it. On a file system without hard links, it is renamed just before.
/// - A file of a newer version stays in its place, and saves are refused.
/// - A file that something else has written meanwhile stays too, and saves are refused: two stores cannot share a file.
///
/// Two stores cannot share an object of this class either, but nothing detects that: create one for each store. After a
/// store was released, the next load of its path in the same process waits for the pending save.
///
/// The directory has to exist and to allow new files, and the name of the file has to leave room for `.unreadable-999`;
/// otherwise the first load throws. A directory is not synced if it can be written but not read, or if its file system
/// syncs no directories: a save then counts once the file has its name, and a loss of power may bring the old state
/// back. Only the owner of the file can read and write it. A symbolic link is not followed: it is not a file.
///
/// Thread safety: all of it may be used from any thread; it reads and writes on its own queue, one at a time.
nonisolated public final class FluxFile<State: Sendable>: FluxPersistence {
    private let access: FluxFileAccess<State>
    /// Unlike the core's queues, it does not target a global queue: Swift tasks run on the threads of the global
    /// queues, and a read or a write blocks its thread.
    private let queue = DispatchQueue(label: "FluxFile")

    /// Creates an object for a file, which need not exist; nothing is read yet.
    ///
    /// - Parameters:
    ///   - path: Where the file is. Its directory has to exist and to allow new files.
    ///   - version: The version of what `encode` returns, not negative; raise it whenever `decode` can no longer read
    ///     older content.
    ///   - encode: Converts a state to bytes.
    ///   - decode: Converts bytes of this version to a state.
    ///   - migrate: Converts bytes of an older version, which it is given, to a state; nil: older versions cannot be
    ///     read. The file stays unchanged until the first save, and is renamed if this throws.
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

    /// Identifies the file, however its path is written: by its folder, as the system knows it, and its name.
    public var place: String? { access.calls.place }

    /// Reads the state in the file, once the stores of this process have completed their pending saves to it.
    ///
    /// - Returns: The state; nil if there is no file.
    /// - Throws: ``FluxFileError``, with the path. If the task is cancelled, `CancellationError`, at once: the file
    ///   then counts as not read.
    public func load() async throws -> State? {
        await FluxUnwritten.settle(at: place)
        try _Concurrency.Task.checkCancellation()
        // If a store gives up on the load, it continues from another state, so the file then counts as not read.
        let answer = FluxLoadPromise<State?>(partOf: FluxUnwritten.running?.flag)
        queue.async { answer.give(Swift.Result { try self.access.read(for: answer.flag) }) }
        return try await answer.wait()
    }

    /// Saves a state to the file, even if the task is cancelled.
    ///
    /// - Parameter state: The state to keep.
    /// - Throws: ``FluxFileError``, with the path.
    public func save(_ state: State) async throws {
        // On the queue, so that a slow disk blocks no thread of the pool that Swift tasks run on.
        try await withCheckedThrowingContinuation { continuation in
            queue.async { continuation.resume(with: Swift.Result { try self.access.write(state) }) }
        }
    }
}
