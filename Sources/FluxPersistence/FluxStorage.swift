#if canImport(FluxCore)
    import FluxCore
#endif

/// Where a store's state outlives the process.
@usableFromInline
nonisolated enum FluxStorage<State: FluxState>: Sendable {
    case persistence(any FluxPersistence<State>)
    case log(any FluxLog<State>)

    @inlinable var isLog: Bool { if case .log = self { true } else { false } }
}

/// How patient a store is with its storage, and whom it tells.
@usableFromInline
nonisolated struct FluxStorageOptions: Sendable {
    let loadTimeout: Swift.Duration?
    let backoff: FluxBackoff
    let clock: any _Concurrency.Clock<Swift.Duration>
    let onFailure: @Sendable (FluxPersistenceFailure) -> Void
    /// How many actions may be unwritten.
    let capacity: Int
    /// After how many actions a snapshot takes their place.
    let compactEvery: Int

    @usableFromInline
    init(
        loadTimeout: Swift.Duration? = nil,
        backoff: FluxBackoff,
        clock: any _Concurrency.Clock<Swift.Duration>,
        onFailure: (@Sendable (FluxPersistenceFailure) -> Void)?,
        capacity: Int = .max,
        compactEvery: Int = .max
    ) {
        Self.require(
            loadTimeout.map { $0 >= .zero } ?? true,
            "a loadTimeout cannot be negative (\(loadTimeout ?? .zero)). Give nil to wait for good.")
        Self.require(
            compactEvery > 0,
            "compactEvery: \(compactEvery) asks for a snapshot after less than one action. Give 1 or more.")
        Self.require(
            capacity > 0,
            "with a capacity of \(capacity) no action could be dispatched durably. Give it 1 or more.")
        (self.loadTimeout, self.backoff, self.clock) = (loadTimeout, backoff, clock)
        self.onFailure = onFailure ?? FluxPersistenceFailure.print
        (self.capacity, self.compactEvery) = (capacity, compactEvery)
    }

    private static func require(_ isSound: Bool, _ message: @autoclosure () -> String) {
        if !isSound { fatalError("FluxCore: \(message())") }
    }

    /// A moment to sleep until, counted from this call: a clock that is moved on by hand may be moved right after.
    ///
    /// - Parameter duration: How far away; a century at most, for the clocks of the system stop the program where they are
    ///   given more than they can count, such as `.seconds(.max)` for "never".
    /// - Returns: What sleeps until then.
    func deadline(in duration: Swift.Duration) -> @Sendable () async throws -> Void {
        Self.deadline(in: Swift.min(duration, .seconds(3_000_000_000)), on: clock)
    }

    private static func deadline<Clock: _Concurrency.Clock<Swift.Duration>>(
        in duration: Swift.Duration, on clock: Clock
    ) -> @Sendable () async throws -> Void {
        let end = clock.now.advanced(by: duration)
        return { try await clock.sleep(until: end, tolerance: nil) }
    }
}
