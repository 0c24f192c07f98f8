#if canImport(FluxCore)
    import FluxCore
#endif

/// The condition of a replica, and its failures; the state of ``FluxReplica/status``.
///
/// Thread safety: a value.
nonisolated public struct FluxReplicaStatus: FluxState, Equatable {
    /// What a replica can do at the moment.
    ///
    /// Thread safety: a value.
    public enum Condition: Sendable, Equatable {
        /// The replica follows the log.
        case following
        /// The replica is loading a snapshot: it is new, or so far behind that entries it needs are gone.
        case loading
        /// The log did not answer or could not be read, for this reason; the state may be old.
        ///
        /// The replica keeps trying. After a reading has ended, the log counts as read again once the next reading
        /// brings an entry, or once that reading has begun and the log answers that there is no newer entry.
        case unavailable(String)
        /// The state differs from another node's; the replica loads a snapshot, and does not serve until it has caught
        /// up.
        case diverged(FluxReplicaDivergence)
        /// The replica has stopped permanently before something that it does not know; its state is old.
        case stopped(FluxReplicaStop)
        /// The replica was closed; its state is old.
        case closed
    }

    /// Replaces the status; only replicas create this action.
    ///
    /// Thread safety: a value.
    public struct Action: FluxAction {
        let status: FluxReplicaStatus
    }

    /// What the replica can do at the moment.
    public let condition: Condition
    /// Why this node's last attempt to save a snapshot, or to trim the log after it, failed; nil if it succeeded.
    ///
    /// The log grows until a node succeeds. A snapshot that is due while the previous one is still being saved is
    /// skipped; this property reports that until the previous save has ended.
    public let snapshotFailure: String?
    /// Why this node could not compute the last checksum that was due; nil if it could.
    ///
    /// Until it can, neither this node nor the others notice whether its state differs from theirs.
    public let checksumFailure: String?

    /// Replaces the status with that of the action.
    ///
    /// - Parameter action: The action with the new status.
    /// - Returns: The new status.
    public mutating func handle(action: Action) -> FluxReplicaStatus? { action.status }
}

/// The error when two nodes have read the same entries but have different states: one of the two is wrong.
///
/// Thread safety: a value.
nonisolated public struct FluxReplicaDivergence: Swift.Error, Equatable, CustomStringConvertible {
    /// The position of the entry that carried the other node's checksum.
    public let position: UInt64
    /// The number of entries after which the two states were compared.
    public let count: UInt64
    /// The checksum of this node at that point.
    public let own: UInt64
    /// The checksum of the other node at that point.
    public let other: UInt64

    /// One line that describes the divergence.
    public var description: String {
        """
        after \(count) entries this node has the checksum \(String(own, radix: 16)), and the writer of the entry at \
        \(position) has \(String(other, radix: 16))
        """
    }
}

/// An entry or a snapshot that this program does not know: it was created by a newer program, or is damaged.
///
/// Thread safety: a value.
nonisolated public struct FluxReplicaStop: Swift.Error, Equatable, CustomStringConvertible {
    /// The position of the entry or of the snapshot.
    ///
    /// The entries before an unknown entry have been applied. If it is a snapshot, ``FluxReplicaStop/reason`` says so.
    public let position: UInt64
    /// The version of the entry or snapshot; nil if it is too damaged to have one.
    public let version: Int?
    /// The newest version that this program knows.
    public let known: Int
    /// What is wrong with the entry or snapshot.
    public let reason: String

    /// One line that describes the unknown entry or snapshot.
    public var description: String {
        """
        what is at \(position), of version \(version.map(String.init) ?? "unknown"), is not known to this program, which \
        knows versions up to \(known): \(reason)
        """
    }
}

/// The reason why a call of a replica failed.
///
/// Thread safety: a value.
nonisolated public enum FluxReplicaError: Swift.Error, Equatable, CustomStringConvertible {
    /// The action was not applied and will not be, for this reason; it may be dispatched again.
    ///
    /// The log refused the action, it came too late, or it could not be encoded. Or 1,000 dispatches of this replica
    /// are unconfirmed behind one that still waits: then the replica accepts the next one once that dispatch has its
    /// answer or its time is up.
    case notApplied(String)
    /// It is not known whether the action was applied, for this reason.
    ///
    /// It may still be applied, until a later action of the same replica is applied.
    case unconfirmed(String)
    /// The log did not answer in time, refused a call, or could not be read; with the last failure that it reported.
    case unavailable(String)
    /// The state of this node differs from another node's, and the node is starting over; nothing was done.
    case diverged(FluxReplicaDivergence)
    /// The replica has stopped permanently before something that it does not know; nothing was done.
    case stopped(FluxReplicaStop)
    /// The replica was closed; nothing was done.
    case closed
    /// The task was cancelled; nothing was done.
    case cancelled

    /// One line that describes the error.
    public var description: String {
        switch self {
        case .notApplied(let reason): "the action was not applied: \(reason)"
        case .unconfirmed(let reason): "it is not known whether the action was applied: \(reason)"
        case .unavailable(let reason): "the log is not available: \(reason)"
        case .diverged(let divergence): "nothing was done: \(divergence)"
        case .stopped(let stop): "nothing was done, because the replica has stopped: \(stop)"
        case .closed: "nothing was done, because the replica was closed"
        case .cancelled: "nothing was done, because the task was cancelled"
        }
    }
}
