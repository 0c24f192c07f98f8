#if canImport(FluxCore)
    import FluxCore
#endif

/// A store that is the same on many nodes: every node applies the actions of a shared log in the log's order.
///
/// ```swift
/// let replica = try await FluxReplica.joined(log: boards.log(for: "b1"), initialState: Board(), coding: coding)
/// try await replica.dispatch(action: .add("milk"))  // this node has applied it, and every other one will
/// print(replica.store.state.titles)
/// ```
///
/// `handle(action:)` has to give the same result on every node, from the state and the action alone. Some entries carry
/// a checksum of the state. A node with a different checksum reports that in its ``status``, refuses to serve, and
/// starts over from the newest snapshot. The correct state is always the one that the snapshot and the entries after it
/// lead to.
///
/// Releasing a replica closes it.
///
/// Thread safety: all members may be used from any thread, but not inside `FluxState.handle(action:)`.
nonisolated public final class FluxReplica<State: FluxState>: Sendable {
    private let core: FluxReplicaCore<State>

    private init(_ core: FluxReplicaCore<State>) { self.core = core }

    // The last reference may be released inside a `handle(action:)`.
    deinit { FluxPureCode.after { [core] in core.end() } }

    // MARK: - Joining

    /// Loads the newest snapshot and applies the entries after it; returns once all entries that were in the log at the
    /// call are applied.
    ///
    /// - Parameters:
    ///   - log: The log; the same one on all nodes.
    ///   - initialState: The state before the first entry of the log; the same one on all nodes.
    ///   - coding: How actions and states become bytes.
    ///   - checkEvery: The number of entries, 1 or more, after which the state is encoded for a checksum, if the last
    ///     of them is an action. The dispatch of that action waits for the encoding. The same number on all nodes.
    ///   - snapshotEvery: The number of entries, 1 or more, after which one node saves a snapshot, and the log is
    ///     trimmed up to the snapshot before it. The dispatch of the last entry waits for the encoding. The same number
    ///     on all nodes.
    ///   - backoff: How long to wait before the log is called again after a failure.
    ///   - clock: The clock that measures all durations.
    ///   - duration: How long joining may take.
    /// - Returns: The replica.
    /// - Throws: ``FluxReplicaError/unavailable(_:)`` if joining took longer, or the log refused to tell its end;
    ///   ``FluxReplicaError/stopped(_:)`` if the log has something that this program does not know;
    ///   ``FluxReplicaError/cancelled``. No replica exists then.
    public static func joined(
        log: any FluxSharedLog<[UInt8]>,
        initialState: State,
        coding: FluxReplicaCoding<State>,
        checkEvery: Int = 1_000,
        snapshotEvery: Int = 10_000,
        backoff: FluxBackoff = .exponential(.milliseconds(50), max: .seconds(1), jitter: 0.5),
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        within duration: Swift.Duration = .seconds(30)
    ) async throws(FluxReplicaError) -> FluxReplica {
        if checkEvery < 1 || snapshotEvery < 1 {
            fatalError(
                "FluxCore: FluxReplica was given checkEvery: \(checkEvery), snapshotEvery: \(snapshotEvery). Give 1 or more."
            )
        }
        let machine = FluxReplicaMachine(
            writer: .random(in: 0...(.max)), version: coding.version, checkEvery: checkEvery,
            snapshotEvery: snapshotEvery)
        let replica = FluxReplica(FluxReplicaCore(log, initialState, coding, backoff, clock, machine))
        replica.core.start()
        _ = try await replica.core.upToDate(within: duration, joins: true)
        return replica
    }

    // MARK: - Reading

    /// The local store, which can be read, subscribed to and observed like any other store, without waiting.
    ///
    /// Its state may be behind the log and the other nodes. An action that is dispatched to the store itself, or that
    /// reaches it from a dispatcher, stops the program with a message.
    public var store: FluxStore<State> { core.store }

    /// The condition of the replica, as a store to read and to watch.
    public var status: FluxStore<FluxReplicaStatus> { core.status }

    /// The position of the last log entry that the state includes; it goes back only when a diverged node starts over.
    public var position: UInt64 { core.position }

    /// How many positions the state is behind the log, as far as this node knows; 0 if it knows of nothing newer.
    public var lag: UInt64 { core.lag }

    /// Waits until the state includes every action that was acknowledged on any node before the call.
    ///
    /// A read after it is linearizable.
    ///
    /// - Parameter duration: How long to wait; a negative duration has already elapsed.
    /// - Returns: The position of the state.
    /// - Throws: ``FluxReplicaError/unavailable(_:)`` if the log did not answer in time, refused, or could not be read;
    ///   ``FluxReplicaError/diverged(_:)``, ``FluxReplicaError/stopped(_:)``, ``FluxReplicaError/closed``,
    ///   ``FluxReplicaError/cancelled``.
    @discardableResult public func upToDate(
        within duration: Swift.Duration = .seconds(10)
    ) async throws(FluxReplicaError) -> UInt64 {
        try await core.upToDate(within: duration)
    }

    // MARK: - Dispatching

    /// Appends an action to the log and returns once this node has applied it; all nodes apply it at the same place.
    ///
    /// A temporary failure is retried with the same key until the time is up. The action is applied once, however often
    /// it got into the log. Actions that are dispatched one after the other are applied in that order. If a dispatch
    /// has thrown, its action is applied before those that were dispatched later, or never.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - duration: How long to retry and to wait; a negative duration has already elapsed.
    /// - Returns: The position of the action in the log, or of a snapshot that includes it.
    /// - Throws: ``FluxReplicaError/unconfirmed(_:)`` if the action may have been sent, and its fate is not known: the
    ///   time is up, the task is cancelled, the replica is closed or has stopped, a snapshot replaced the entries, or
    ///   the log refused a repeated attempt. Any other error if the action was not applied and never will be.
    @discardableResult public func dispatch(
        action: State.Action, within duration: Swift.Duration = .seconds(10)
    ) async throws(FluxReplicaError) -> UInt64 {
        try await core.dispatch(action, within: duration)
    }

    // MARK: - Closing

    /// Stops reading the log, refuses new calls and ends all waits; the store remains readable.
    ///
    /// Waits until the log has ended all calls of this replica. This includes saving a snapshot that was due when a
    /// `dispatch` of this replica returned. If the calling task is cancelled, it stops waiting; that snapshot may then
    /// be saved or not, as when a replica is released.
    public func close() async { await core.close() }
}
