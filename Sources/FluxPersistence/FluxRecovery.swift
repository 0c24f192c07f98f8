#if canImport(FluxCore)
    import FluxCore
#endif

/// The result of a load that a store resumes from: the stored state, or the initial one.
@usableFromInline
nonisolated struct FluxRecovery<State: FluxState>: Sendable {
    var restoration: FluxRestoration
    /// The stored state; nil: the initial state stays.
    var state: State?
    /// The revision that the log leads to; 0 if no action that led to the state was announced.
    var revision: UInt64 = 0
    /// The number of the last action in the log; nil: the stored data could not be read.
    var number: UInt64?
    /// The number of the log's snapshot, if it has one.
    var snapshot: UInt64?
    /// Whether nothing can be written either.
    var isPermanent = false

    /// Resumes from the initial state after a load that failed.
    init(after error: any Swift.Error) {
        restoration = error is FluxLoadTimeout ? .timedOut : .failed(error)
        isPermanent = fluxIsPermanent(error)
    }

    /// Resumes from a snapshot and the actions after it.
    ///
    /// - Parameters:
    ///   - contents: The contents of a log.
    ///   - initialState: The state that the first action was applied to if there is no snapshot.
    /// - Throws: ``FluxLogGap`` if an action is missing; ``FluxLogOverflow`` if no store can have counted that far.
    init(_ contents: FluxLogContents<State>, initialState: State) throws {
        var (state, last) = (contents.snapshot?.state ?? initialState, contents.snapshot?.number ?? 0)
        var revision = contents.snapshot?.revision ?? 0
        // Leaves room for the numbers that follow, in this recovery and afterwards.
        if Swift.max(last, revision) > UInt64.max / 2 - UInt64(contents.entries.count) {
            throw FluxLogOverflow(number: last, revision: revision)
        }
        // Run as pure code, as in a store: a `handle` that dispatches stops the program here too.
        let gap: FluxLogGap? = FluxPureCode.run("FluxState.handle(action:)") {
            // An append that was reported as failed may be stored twice, and a snapshot may have been taken after it.
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
        if !isEmpty { (self.state, self.revision) = (state, revision) }
        snapshot = contents.snapshot?.number
    }
}

/// Whether trying again cannot cure an error.
nonisolated func fluxIsPermanent(_ error: any Swift.Error) -> Bool {
    (error as? any FluxPermanentError)?.isPermanent ?? false
}

/// Tells the observers of a store that a state was loaded.
nonisolated struct FluxRestored: FluxAction {}

/// A log that no store can have written, because counting that far would have taken centuries.
nonisolated struct FluxLogOverflow: Swift.Error, CustomStringConvertible {
    let number: UInt64
    let revision: UInt64

    var description: String { "no store has written this log: it counts up to action \(number), revision \(revision)" }
}

/// A load exceeded its time limit.
nonisolated struct FluxLoadTimeout: Swift.Error, CustomStringConvertible {
    let limit: Swift.Duration

    var description: String { "the load took longer than \(limit)" }
}
