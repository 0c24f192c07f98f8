#if canImport(FluxCore)
    import FluxCore
#endif

/// Where a store's state outlives the process, with the store's limits and delays and its handler for failures.
@usableFromInline
nonisolated struct FluxStorage<State: FluxState>: Sendable {
    @usableFromInline let log: FluxStorageLog<State>
    /// Whether actions are kept, or only the newest state.
    @usableFromInline let isLog: Bool
    /// How many actions may be unwritten.
    @usableFromInline let capacity: Int
    /// After how many actions a snapshot replaces them.
    @usableFromInline let compactEvery: UInt64
    /// Identifies the place; nil: no load waits for this store.
    let place: String?
    /// The position of the store in the order of ``FluxUnwritten``, and not the path of a file.
    ///
    /// Its last number is higher than that of any store created before.
    let rank: FluxUnwritten.Rank
    let loadTimeout: Swift.Duration?
    let backoff: FluxBackoff
    let clock: any _Concurrency.Clock<Swift.Duration>
    let onFailure: @Sendable (FluxPersistenceFailure) -> Void

    @usableFromInline
    init(
        _ log: any FluxLog<State>,
        capacity: Int = .max,
        compactEvery: Int = .max,
        loadTimeout: Swift.Duration? = nil,
        backoff: FluxBackoff,
        clock: any _Concurrency.Clock<Swift.Duration>,
        onFailure: (@Sendable (FluxPersistenceFailure) -> Void)?
    ) {
        if let loadTimeout, loadTimeout < .zero {
            fatalError("FluxCore: a loadTimeout cannot be negative (\(loadTimeout)). Give nil for no limit.")
        }
        if compactEvery < 1 {
            fatalError(
                "FluxCore: compactEvery is \(compactEvery), but has to be 1 or more.")
        }
        if capacity < 1 {
            fatalError(
                "FluxCore: with a capacity of \(capacity) no action could be dispatched durably. Give 1 or more.")
        }
        let persistence = (log as? FluxStateOnlyLog<State>)?.persistence
        (self.log, isLog) = (FluxStorageLog(log), persistence == nil)
        place = persistence?.place
        rank = FluxUnwritten.rank + [FluxUnwritten.shared.withLock { $0.nextNumber() }]
        (self.capacity, self.compactEvery) = (capacity, UInt64(compactEvery))
        (self.loadTimeout, self.backoff, self.clock) = (loadTimeout, backoff, clock)
        self.onFailure = onFailure ?? FluxPersistenceFailure.print
    }

    /// Fixes a deadline, counted from this call: a clock that is advanced by hand may be advanced right after it.
    ///
    /// - Parameter duration: How far away the deadline is. It is capped at about a century, because the clocks of the
    ///   system stop the program if they are given more than they can count, such as `.seconds(.max)` for "never".
    /// - Returns: A function that sleeps until the deadline.
    func deadline(in duration: Swift.Duration) -> @Sendable () async throws -> Void {
        func deadline<Clock: _Concurrency.Clock<Swift.Duration>>(on clock: Clock) -> @Sendable () async throws -> Void {
            let end = clock.now.advanced(by: Swift.min(duration, .seconds(Int64(3_000_000_000))))
            return { try await clock.sleep(until: end, tolerance: nil) }
        }
        return deadline(on: clock)
    }
}

/// The log of a store until it is closed: code that still runs after the store's release does not keep it open.
@usableFromInline
nonisolated final class FluxStorageLog<State: FluxState>: Sendable {
    private let log: FluxLock<(any FluxLog<State>)?>

    init(_ log: any FluxLog<State>) { self.log = FluxLock(log) }

    /// The log; nil once it is closed, because nothing more is written to it.
    @usableFromInline var current: (any FluxLog<State>)? { log.withLock { $0 } }

    func close() { _ = log.withLock { Swift.exchange(&$0, with: nil) } }
}

/// Presents a persistence as a log that has only snapshots, so that a store deals with logs alone.
@usableFromInline
nonisolated struct FluxStateOnlyLog<State: FluxState>: FluxLog {
    let persistence: any FluxPersistence<State>

    @usableFromInline
    init(_ persistence: any FluxPersistence<State>) { self.persistence = persistence }

    @usableFromInline
    func load() async throws -> FluxLogContents<State> {
        // The loaded state is the first change that the store announces.
        FluxLogContents(snapshot: try await persistence.load().map { FluxSnapshot(state: $0, number: 0, revision: 1) })
    }

    @usableFromInline
    func append(_ entries: [FluxLogEntry<State.Action>]) async throws {}

    @usableFromInline
    func compact(_ snapshot: FluxSnapshot<State>) async throws { try await persistence.save(snapshot.state) }
}
