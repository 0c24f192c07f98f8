#if canImport(FluxCore)
    import FluxCore
#endif

/// A store that is the same on many nodes: its actions are those of a shared log, applied in the order of the log.
///
/// ```swift
/// let replica = try await FluxReplica.joined(log: boards.log(for: "b1"), initialState: Board(), coding: coding)
/// try await replica.dispatch(action: .add("milk"))  // this node has applied it, and every other one will
/// print(replica.store.state.titles)
/// ```
///
/// `handle(action:)` has to give the same result on every node, from the state and the action alone. A checksum of the state travels
/// with some entries: a node that has another one says so by its ``status``, refuses to serve, and starts over from the newest
/// snapshot. So what is right is always the snapshot and the entries after it.
///
/// A replica that is let go of is closed.
///
/// Thread safety: all of it may be used from any thread; not inside `FluxState.handle(action:)`.
nonisolated public final class FluxReplica<State: FluxState>: Sendable {
    private let core: FluxReplicaCore<State>

    private init(_ core: FluxReplicaCore<State>) { self.core = core }

    // It may be let go of in a `handle(action:)`.
    deinit { FluxPureCode.after { [core] in core.end() } }

    // MARK: - Joining

    /// Loads the newest snapshot, applies the entries after it, and returns once all is applied that was in the log at the call.
    ///
    /// - Parameters:
    ///   - log: The log; all nodes give the same one.
    ///   - initialState: What the first entry of the log is applied to; all nodes give the same one.
    ///   - coding: How actions and states become bytes.
    ///   - checkEvery: After how many entries, 1 or more, the state is encoded for a checksum, if the last is an action, for which who has
    ///     dispatched that waits; all nodes give the same number.
    ///   - snapshotEvery: After how many entries, 1 or more, a node saves a snapshot, for the encoding of which who has dispatched the
    ///     last of them waits, and the log is trimmed up to the one before; all nodes give the same number.
    ///   - backoff: How long to wait before the log is asked again.
    ///   - clock: What measures all durations.
    ///   - duration: How long this may take.
    /// - Returns: The replica.
    /// - Throws: ``FluxReplicaError/unavailable(_:)`` where it took longer; ``FluxReplicaError/stopped(_:)`` where something in the
    ///   log is not known to this program; ``FluxReplicaError/cancelled``. There is no replica then.
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

    /// The store: to read, to watch and to look on at as any other, on this node alone and without waiting.
    ///
    /// Its state may be behind the log, and the other nodes. To dispatch an action to the store itself stops the program with a
    /// message, as does one that comes from a dispatcher.
    public var store: FluxStore<State> { core.store }

    /// How the replica is doing, to read and to watch.
    public var status: FluxStore<FluxReplicaStatus> { core.status }

    /// The position of the last entry of the log that is in the state; it goes back only where a diverged node starts over.
    public var position: UInt64 { core.position }

    /// By how many positions the state is behind the log, as far as this node has heard; 0 where it has heard of nothing newer.
    public var lag: UInt64 { core.lag }

    /// Waits until the state has all that was acknowledged on any node before the call: a read after it is linearizable.
    ///
    /// - Parameter duration: How long to wait; a time below zero is over already.
    /// - Returns: The position that is reached.
    /// - Throws: ``FluxReplicaError/unavailable(_:)`` where the log did not answer in time, or could not be read;
    ///   ``FluxReplicaError/diverged(_:)``, ``FluxReplicaError/stopped(_:)``, ``FluxReplicaError/closed``, ``FluxReplicaError/cancelled``.
    @discardableResult public func upToDate(
        within duration: Swift.Duration = .seconds(10)
    ) async throws(FluxReplicaError) -> UInt64 {
        try await core.upToDate(within: duration)
    }

    // MARK: - Dispatching

    /// Appends an action to the log, and returns when this node has applied it; every other node applies it at the same place.
    ///
    /// What fails for now is tried again under the same key until the time is up; the action is applied once, however often
    /// it got into the log. Actions that are dispatched one after the other are applied in that order, also where one of them has
    /// thrown: that one comes before those that were dispatched later, or never.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - duration: How long to try and to wait; a time below zero is over already.
    /// - Returns: The position of the action in the log, or of a snapshot that has it.
    /// - Throws: ``FluxReplicaError/unconfirmed(_:)`` where the time is up, the task is cancelled, or the replica was closed or has
    ///   stopped, after the action was on its way; any other error where it was not applied and will not be.
    @discardableResult public func dispatch(
        action: State.Action, within duration: Swift.Duration = .seconds(10)
    ) async throws(FluxReplicaError) -> UInt64 {
        try await core.dispatch(action, within: duration)
    }

    // MARK: - Closing

    /// Reads no more, refuses what comes, and lets out who waits; the store stays to be read.
    ///
    /// It waits until the log has ended what it does for this replica, and has saved a snapshot that was due when a `dispatch` here
    /// returned; or until the task of one who closes it is cancelled: then that may be saved or not, as where a replica is let go of.
    public func close() async { await core.close() }
}
