#if canImport(FluxCore)
    import FluxCore
#endif

/// How a replica is doing; the state of ``FluxReplica/status``.
///
/// Thread safety: a value.
nonisolated public struct FluxReplicaStatus: FluxState, Equatable {
    /// What a replica can do at the moment.
    ///
    /// Thread safety: a value.
    public enum Condition: Sendable, Equatable {
        /// It follows the log.
        case following
        /// It loads a snapshot: it is new, or was behind for so long that entries that it needs are gone.
        case loading
        /// The log did not answer, or could not be read, and is asked again and again; why: what is read may be old.
        ///
        /// Where a reading has ended, the next one counts as soon as it brings an entry, or has begun and the log answers that there
        /// is none.
        case unavailable(String)
        /// Its state is not that of another node: it is loading a snapshot, and serves nobody until it has caught up.
        case diverged(FluxReplicaDivergence)
        /// It has stopped for good before what it does not know: what is read is old.
        case stopped(FluxReplicaStop)
        /// It was closed: what is read is old.
        case closed
    }

    /// Takes the place of the old status; only replicas make one.
    ///
    /// Thread safety: a value.
    public struct Action: FluxAction {
        let status: FluxReplicaStatus
    }

    /// What it can do.
    public let condition: Condition
    /// Why this node could not save a snapshot, or not trim the log after it, when it last tried; nil if it could.
    ///
    /// Until a node does, the log grows. One that is due while the one before it is still being saved is not saved; this says so
    /// until that save has ended.
    public let snapshotFailure: String?
    /// Why this node could not take the last checksum that was due; nil if it could.
    ///
    /// Until it can, it does not notice whether its state is that of the other nodes, and neither do they.
    public let checksumFailure: String?

    /// Takes the place of the old status.
    ///
    /// - Parameter action: The new one.
    /// - Returns: The new one.
    public mutating func handle(action: Action) -> FluxReplicaStatus? { action.status }
}

/// Two nodes that have read the same entries, and have different states: one of the two is wrong.
///
/// Thread safety: a value.
nonisolated public struct FluxReplicaDivergence: Swift.Error, Equatable, CustomStringConvertible {
    /// The position of the entry that told what the other node has.
    public let position: UInt64
    /// After how many entries the two were compared.
    public let count: UInt64
    /// The checksum of this node then.
    public let own: UInt64
    /// The checksum of the other.
    public let other: UInt64

    /// One line that says so.
    public var description: String {
        """
        after \(count) entries this node has the checksum \(String(own, radix: 16)), and the writer of the entry at \
        \(position) has \(String(other, radix: 16))
        """
    }
}

/// An entry or a snapshot that this program does not know: it was made by a newer one, or is damaged.
///
/// Thread safety: a value.
nonisolated public struct FluxReplicaStop: Swift.Error, Equatable, CustomStringConvertible {
    /// The position of what is not known: of an entry, then what comes before it is applied; or of a snapshot, which the reason says.
    public let position: UInt64
    /// Its version; nil where it is too damaged to have one.
    public let version: Int?
    /// The newest version that this program knows.
    public let known: Int
    /// What is wrong with it.
    public let reason: String

    /// One line that says so.
    public var description: String {
        """
        what is at \(position), of version \(version.map(String.init) ?? "unknown"), is not known to this program, which \
        knows versions up to \(known): \(reason)
        """
    }
}

/// Why a replica did not do what it was asked for.
///
/// Thread safety: a value.
nonisolated public enum FluxReplicaError: Swift.Error, Equatable, CustomStringConvertible {
    /// The action was not applied and will not be, so it may be dispatched again; why.
    ///
    /// The log has refused it, it came too late, it does not encode; or 1,000 dispatches of this replica are unconfirmed behind one
    /// that still waits: then the next is taken once that one has its answer, or its time is up.
    case notApplied(String)
    /// It is not known whether the action was applied; why.
    ///
    /// It may still be, until a later one of the same replica is.
    case unconfirmed(String)
    /// The log did not answer in time, or could not be read; what it said last.
    case unavailable(String)
    /// The state of this node is not that of another, which it is about to mend; nothing was done.
    case diverged(FluxReplicaDivergence)
    /// The replica has stopped for good before what it does not know; nothing was done.
    case stopped(FluxReplicaStop)
    /// The replica was closed; nothing was done.
    case closed
    /// The task was cancelled; nothing was done.
    case cancelled

    /// One line that says so.
    public var description: String {
        switch self {
        case .notApplied(let reason): "the action was not applied: \(reason)"
        case .unconfirmed(let reason): "it is not known whether the action was applied: \(reason)"
        case .unavailable(let reason): "the log is not available: \(reason)"
        case .diverged(let divergence): "nothing was done: \(divergence)"
        case .stopped(let stop): "nothing was done, as the replica has stopped: \(stop)"
        case .closed: "nothing was done, as the replica was closed"
        case .cancelled: "nothing was done, as the task was cancelled"
        }
    }
}
