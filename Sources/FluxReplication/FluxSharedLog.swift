/// A log that many processes write and read, with each entry at the same place for all of them; replicas build on it.
///
/// A conformance passes on the guarantees of an engine: a consensus among its servers, or a database. One value is the
/// log of one key. The engine's own object creates these values: `let boards = try await JetStreamLog(…)`,
/// `boards.log(for: "b1")`.
///
/// Positions are above 0 and rise in the order of the entries. They may have gaps, for example if many keys share one
/// stream.
///
/// A log that is deleted and created again is a different log. Close the replicas of the old log first: they would wait
/// for the positions after their own, and pass over all others.
///
/// A call throws ``FluxSharedLogError/unavailable(_:)`` if it fails in a way that a retry may cure. It does the same,
/// promptly, if its task is cancelled; a `read` may also return instead. If the engine is silent, each call has to time
/// out by itself, because a replica sets no time limit for it. Until the call ends, closing the replica waits for it, a
/// released replica stays in memory, and the status does not report the silence.
///
/// Test your log with `FluxConformance.sharedLog` of `FluxTesting`.
///
/// Thread safety: all members may be used from any thread, by many tasks at once.
nonisolated public protocol FluxSharedLog<Entry>: Sendable {
    /// The content of an entry and of a snapshot; bytes, for an engine.
    associatedtype Entry: Sendable

    /// Appends an entry; returns once it is stored safely against every failure that the engine tolerates.
    ///
    /// - Parameters:
    ///   - entry: The entry.
    ///   - key: A key for engines that de-duplicate: the same for each attempt to append the entry, and different from
    ///     that of every other entry. For a key that was seen before, the log may return the first position or append
    ///     the entry again: readers apply each entry once.
    /// - Returns: The position of the entry.
    /// - Throws: ``FluxSharedLogError/unavailable(_:)`` if the entry may be in the log all the same, or may still get
    ///   there; ``FluxSharedLogError/refused(_:)`` if it is not in the log and never will be.
    func append(_ entry: Entry, key: String) async throws(FluxSharedLogError) -> UInt64

    /// Reads all entries after a position, in order, and continues with new entries as they come.
    ///
    /// - Parameters:
    ///   - position: The last position that the reader knows; 0 to read from the start.
    ///   - receive: Receives the next entries, at least one. It is not called again before it has returned.
    /// - Throws: ``FluxSharedLogError/trimmed(through:)`` if an entry after the position may be gone; the error that
    ///   `receive` throws; and any other error that ends the reading. It may return without an error only if its task
    ///   was cancelled.
    func read(after position: UInt64, _ receive: ([FluxSharedEntry<Entry>]) async throws -> Void) async throws

    /// Returns the end of the log; no entry that was acknowledged on any node before the call is after it.
    ///
    /// - Returns: The position of the last entry; 0 if there never was one.
    /// - Throws: The reason why the engine cannot tell. A server that may be out of date must not answer from memory.
    func end() async throws(FluxSharedLogError) -> UInt64

    /// Returns the newest snapshot.
    ///
    /// - Returns: The snapshot; nil if none was saved.
    /// - Throws: The reason why it could not be read.
    func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<Entry>?

    /// Saves a snapshot in place of the present one; has no effect if that has the same position or a later one.
    ///
    /// - Parameter snapshot: The snapshot.
    /// - Throws: The reason why it was not saved, or may not have been.
    func save(_ snapshot: FluxSharedSnapshot<Entry>) async throws(FluxSharedLogError)

    /// Allows the log to remove the entries up to a position, now or later, because a snapshot includes them.
    ///
    /// The end does not change, and no position is used a second time; a log may keep its last entry to ensure that.
    ///
    /// - Parameter position: The position of the last entry to remove.
    /// - Throws: The reason why they were not removed.
    func trim(through position: UInt64) async throws(FluxSharedLogError)
}

/// An entry of a shared log, with its position.
///
/// Thread safety: a value.
nonisolated public struct FluxSharedEntry<Entry: Sendable>: Sendable {
    /// The place of the entry in the order.
    public let position: UInt64
    /// The content that was appended.
    public let entry: Entry

    /// Creates an entry.
    ///
    /// - Parameters:
    ///   - position: The place of the entry in the order, above 0.
    ///   - entry: The content that was appended.
    public init(position: UInt64, entry: Entry) {
        self.position = position
        self.entry = entry
    }
}

/// The state that replaces all entries of a shared log up to a position.
///
/// Thread safety: a value.
nonisolated public struct FluxSharedSnapshot<Entry: Sendable>: Sendable {
    /// The position of the last entry that the snapshot includes.
    public let position: UInt64
    /// The result of these entries.
    public let state: Entry

    /// Creates a snapshot.
    ///
    /// - Parameters:
    ///   - position: The position of the last entry that the snapshot includes.
    ///   - state: The result of these entries.
    public init(position: UInt64, state: Entry) {
        self.position = position
        self.state = state
    }
}

/// The reason why a call of a shared log failed.
///
/// Thread safety: a value.
nonisolated public enum FluxSharedLogError: Swift.Error, Equatable, CustomStringConvertible {
    /// The log cannot do it at the moment, for example during an election or a network outage; the call may be retried.
    ///
    /// The call may have taken effect all the same.
    case unavailable(String)
    /// The call had no effect and never will: the entry is too large, not permitted, or the configuration is wrong.
    case refused(String)
    /// Entries up to this position are gone, and may include some of those requested; there is a snapshot.
    case trimmed(through: UInt64)

    /// One line that describes the error.
    public var description: String {
        switch self {
        case .unavailable(let reason): "the log is not available: \(reason)"
        case .refused(let reason): "the log refused the call: \(reason)"
        case .trimmed(through: let position): "the entries of the log up to \(position) are gone"
        }
    }
}
