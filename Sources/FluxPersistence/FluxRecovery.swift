#if canImport(FluxCore)
    import FluxCore
#endif

/// What a store goes on from: the state that was stored, or the initial one.
@usableFromInline
nonisolated struct FluxRecovery<State: FluxState>: Sendable {
    var restoration: FluxRestoration
    /// The state that was stored; nil: the initial one stays.
    var state: State?
    /// The revision of that state.
    var revision: UInt64 = 0
    /// The number of the last action in the log; nil: what is stored could not be read.
    var number: UInt64?
    /// The number of the log's snapshot, if it has one.
    var snapshot: UInt64?
    /// Whether the state was announced under a revision that the log does not lead to, so that only a snapshot will do.
    var isUncounted = false
    /// Whether nothing can be written either.
    var isPermanent = false

    /// Goes on from the initial state, after a load that has come to nothing.
    init(after error: any Swift.Error) {
        restoration = error is FluxLoadTimeout ? .timedOut : .failed(error)
        isPermanent = fluxIsPermanent(error)
    }

    /// Goes on from a snapshot and the actions after it.
    ///
    /// - Parameters:
    ///   - contents: What a log has loaded.
    ///   - initialState: What its first action was applied to if there is no snapshot.
    /// - Throws: ``FluxLogGap`` where an action is missing, ``FluxLogOverflow``.
    init(_ contents: FluxLogContents<State>, initialState: State) throws {
        var (state, last) = (contents.snapshot?.state ?? initialState, contents.snapshot?.number ?? 0)
        var revision = contents.snapshot?.revision ?? 0
        // So that there is room for what comes after it, here and later.
        if Swift.max(last, revision) > UInt64.max / 2 - UInt64(contents.entries.count) {
            throw FluxLogOverflow(number: last, revision: revision)
        }
        // As in a store: a `handle` that dispatches stops here too, or it would do so for the first time in a recovery.
        let gap: FluxLogGap? = FluxPureCode.run("FluxState.handle(action:)") {
            // An append that was reported as failed may be there twice, and a snapshot may have been taken after it.
            for entry in contents.entries where entry.number > last {
                if entry.number != last + 1 { return FluxLogGap(expected: last + 1, found: entry.number) }
                last = entry.number
                guard let next = state.handle(action: entry.action) else { continue }
                state = next
                revision &+= 1
            }
            return nil
        }
        if let gap { throw gap }
        number = last
        let isEmpty = contents.snapshot == nil && contents.entries.isEmpty
        restoration = isEmpty ? .empty : .restored
        // It is announced, so it has a number, even if no action that led to it was.
        if !isEmpty { (self.state, self.revision) = (state, Swift.max(revision, 1)) }
        isUncounted = !isEmpty && revision == 0
        snapshot = contents.snapshot?.number
    }
}

/// Whether trying again cannot cure an error.
nonisolated func fluxIsPermanent(_ error: any Swift.Error) -> Bool {
    (error as? any FluxPermanentError)?.isPermanent ?? false
}

/// Says that a state was loaded, to those who look on at the store.
nonisolated struct FluxRestored: FluxAction {}

/// A log that cannot be what a store has written, which would have had to count for centuries.
nonisolated struct FluxLogOverflow: Swift.Error, CustomStringConvertible {
    let number: UInt64
    let revision: UInt64

    var description: String { "no store has written this log: it counts up to action \(number), revision \(revision)" }
}

/// A load took longer than it was given.
nonisolated struct FluxLoadTimeout: Swift.Error, CustomStringConvertible {
    let limit: Swift.Duration

    var description: String { "it took longer than \(limit)" }
}
