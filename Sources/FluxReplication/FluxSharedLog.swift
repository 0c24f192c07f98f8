#if canImport(FluxCore)
    import FluxCore
#endif

/// A log that many processes write and read, each entry at one place for all of them: what replicas stand on.
///
/// Whoever implements it hands over what an engine guarantees: a consensus among its servers, or a database. One value is the log
/// of one key; an engine's own object makes them: `let boards = try await JetStreamLog(…)`, `boards.log(for: "b1")`.
///
/// Positions are above 0 and rise in the order of the entries. They may have gaps, as where many keys share one stream.
/// A log that is deleted and made anew is another one: the replicas of the old one are closed first, for they would wait for the
/// positions behind theirs, and pass the others over.
/// What fails in a way that trying again may cure throws ``FluxSharedLogError/unavailable(_:)``. So does what ends because its
/// task was cancelled, soon then; a `read` may also just return. Where the engine is silent each call has to end by itself after a
/// while: no clock here ends it, closing a replica waits for it, one that is let go of is kept by it, and until then its status
/// does not tell.
/// Hand your log to `FluxConformance.sharedLog` of `FluxTesting`.
///
/// Thread safety: all of it may be used from any thread, by many tasks at once.
nonisolated public protocol FluxSharedLog<Entry>: Sendable {
    /// What is in an entry and in a snapshot: bytes, for an engine.
    associatedtype Entry: Sendable

    /// Adds an entry at the end, and returns once the engine has it where no failure that it stands reaches it.
    ///
    /// - Parameters:
    ///   - entry: The entry.
    ///   - key: The same at each attempt to add it, and no other entry's, for the de-duplication of an engine that has one. An
    ///     entry whose key was seen before may be answered with its first position, or be added again: readers apply each once.
    /// - Returns: Its position.
    /// - Throws: ``FluxSharedLogError/unavailable(_:)`` where it may be in the log all the same, or get in there later;
    ///   ``FluxSharedLogError/refused(_:)`` where it is not and never will be.
    func append(_ entry: Entry, key: String) async throws(FluxSharedLogError) -> UInt64

    /// Reads all entries after a position, in order, and goes on with new ones as they come.
    ///
    /// - Parameters:
    ///   - position: The last that is known; 0 to read from the start.
    ///   - receive: Gets the next entries, at least one. There is no next call before it has returned.
    /// - Throws: ``FluxSharedLogError/trimmed(through:)`` where an entry after the position may be gone; what `receive` throws; and
    ///   what ends the reading otherwise. It may return without an error only where its task was cancelled.
    func read(after position: UInt64, _ receive: ([FluxSharedEntry<Entry>]) async throws -> Void) async throws

    /// The end of the log: whatever was acknowledged to anybody before the call is not behind it.
    ///
    /// - Returns: The position of the last entry; 0 where there never was one.
    /// - Throws: Why the engine cannot tell; it does not answer from what a server remembers that may have been left behind.
    func end() async throws(FluxSharedLogError) -> UInt64

    /// The newest snapshot.
    ///
    /// - Returns: The snapshot; nil where none was saved.
    /// - Throws: Why it could not be read.
    func snapshot() async throws(FluxSharedLogError) -> FluxSharedSnapshot<Entry>?

    /// Saves a snapshot in the place of the one that is there; without effect where that is of the same position or a later one.
    ///
    /// - Parameter snapshot: The snapshot.
    /// - Throws: Why it was not saved, or may not have been.
    func save(_ snapshot: FluxSharedSnapshot<Entry>) async throws(FluxSharedLogError)

    /// Says that nobody needs the entries up to a position, since there is a snapshot; the log removes them, now or later.
    ///
    /// The end stays what it is, and no position is given a second time: a log may keep its last entry for that.
    ///
    /// - Parameter position: The position of the last that may go.
    /// - Throws: Why they were not removed.
    func trim(through position: UInt64) async throws(FluxSharedLogError)
}

/// An entry as it stands in a shared log.
///
/// Thread safety: a value.
nonisolated public struct FluxSharedEntry<Entry: Sendable>: Sendable {
    /// Its place in the order.
    public let position: UInt64
    /// What was appended.
    public let entry: Entry

    /// Makes an entry.
    ///
    /// - Parameters:
    ///   - position: Its place in the order, above 0.
    ///   - entry: What was appended.
    public init(position: UInt64, entry: Entry) {
        self.position = position
        self.entry = entry
    }
}

/// What stands for all entries of a shared log up to a position.
///
/// Thread safety: a value.
nonisolated public struct FluxSharedSnapshot<Entry: Sendable>: Sendable {
    /// The position of the last entry that is in it.
    public let position: UInt64
    /// What they have led to.
    public let state: Entry

    /// Makes a snapshot.
    ///
    /// - Parameters:
    ///   - position: The position of the last entry that is in it.
    ///   - state: What they have led to.
    public init(position: UInt64, state: Entry) {
        self.position = position
        self.state = state
    }
}

/// Why a shared log did not do what it was asked for.
///
/// Thread safety: a value.
nonisolated public enum FluxSharedLogError: Swift.Error, Equatable, CustomStringConvertible {
    /// It cannot at the moment, as in an election or with the network down; it may be tried again.
    ///
    /// It may have been done all the same.
    case unavailable(String)
    /// It was not done, and never will be: too large, not permitted, a wrong configuration.
    case refused(String)
    /// Entries up to this position are gone, and some of those that were asked for may be among them: there is a snapshot.
    case trimmed(through: UInt64)

    /// One line that says so.
    public var description: String {
        switch self {
        case .unavailable(let reason): "the log is not available: \(reason)"
        case .refused(let reason): "the log has refused it: \(reason)"
        case .trimmed(through: let position): "the entries of the log up to \(position) are gone"
        }
    }
}
