#if canImport(FluxCore)
    import FluxCore
#endif

/// An on-disk log for states that must lose nothing: a snapshot, and the actions applied after it.
///
/// A store with a log appends every action it applies, in order; see `dispatch(durably:)`. After a crash, the store
/// takes the snapshot and applies the actions again.
///
/// `append` and `compact` each take effect as a whole or not at all, and their result survives a crash once they
/// return. A call that failed may have taken effect after all, and is tried again, so an action whose number is already
/// there must not be added a second time. The file or database belongs to one store of one process at a time: lock it.
///
/// Thread safety: one task at a time uses it, on any thread.
nonisolated public protocol FluxLog<State>: Sendable {
    /// The state that the actions change.
    associatedtype State: FluxState

    /// Reads the newest snapshot and the actions after it, in the order of their numbers.
    ///
    /// Returns once what was read survives a crash: a process that was stopped may have written it without making it
    /// durable.
    ///
    /// - Returns: The contents of the log; neither a snapshot nor an action if it is new.
    /// - Throws: The error that prevented reading; the store then does not write to the log.
    func load() async throws -> FluxLogContents<State>

    /// Adds actions at the end, except those whose numbers the log already has.
    ///
    /// - Parameter entries: The actions, each with a number one higher than the one before.
    /// - Throws: The error that prevented appending; the store reports it and tries again, unless it is a
    ///   ``FluxPermanentError``.
    func append(_ entries: [FluxLogEntry<State.Action>]) async throws

    /// Atomically stores a snapshot and drops the older one, together with all actions up to the new snapshot's number.
    ///
    /// If such an action remains nevertheless, the store skips it after the next load, which takes longer.
    ///
    /// - Parameter snapshot: A state to which all actions up to its number have been applied. Some of these may not
    ///   have been appended, and never will be.
    /// - Throws: The error that prevented compacting; the store reports it and continues appending, unless it is a
    ///   ``FluxPermanentError``.
    func compact(_ snapshot: FluxSnapshot<State>) async throws
}

/// An action as it is stored in a log.
///
/// Thread safety: a value.
nonisolated public struct FluxLogEntry<Action: FluxAction>: Sendable {
    /// The action's position in the order in which the store applied its actions: from 1, without gaps.
    ///
    /// It is not the revision. The revision does not count actions that announced nothing, but these are in the log
    /// too.
    public let number: UInt64
    /// The action.
    public let action: Action

    /// Creates an entry.
    ///
    /// - Parameters:
    ///   - number: The action's position in the order, from 1.
    ///   - action: The action.
    @inlinable public init(number: UInt64, action: Action) {
        self.number = number
        self.action = action
    }
}

/// A state, and the number of the last action that it includes.
///
/// Thread safety: a value.
nonisolated public struct FluxSnapshot<State: FluxState>: Sendable {
    /// The state after the action with that number.
    public let state: State
    /// The number of the last action that the state includes; 0 for none.
    public let number: UInt64
    /// The store's revision at that point.
    public let revision: UInt64

    /// Creates a snapshot.
    ///
    /// - Parameters:
    ///   - state: The state.
    ///   - number: The number of the last action that the state includes; 0 for none.
    ///   - revision: The store's revision at that point.
    public init(state: State, number: UInt64, revision: UInt64) {
        self.state = state
        self.number = number
        self.revision = revision
    }
}

/// The contents of a log.
///
/// Thread safety: a value.
nonisolated public struct FluxLogContents<State: FluxState>: Sendable {
    /// The newest snapshot, if there is one.
    public let snapshot: FluxSnapshot<State>?
    /// The actions after the snapshot, in order.
    public let entries: [FluxLogEntry<State.Action>]

    /// Creates the contents of a log.
    ///
    /// - Parameters:
    ///   - snapshot: The newest snapshot, if there is one.
    ///   - entries: The actions after the snapshot, in order.
    public init(snapshot: FluxSnapshot<State>? = nil, entries: [FluxLogEntry<State.Action>] = []) {
        self.snapshot = snapshot
        self.entries = entries
    }
}

/// A log that no store can have written, because an action is missing.
///
/// Thread safety: a value.
nonisolated public struct FluxLogGap: Swift.Error, CustomStringConvertible {
    /// The number of the action that should come next.
    public let expected: UInt64
    /// The number that was found instead.
    public let found: UInt64

    /// A one-line description of the gap.
    public var description: String {
        "the log has a gap: action \(expected) was expected, but \(found) was found"
    }
}

/// Why an action that was dispatched durably is not known to be on disk.
///
/// Thread safety: a value.
nonisolated public enum FluxDurabilityError: Swift.Error, CustomStringConvertible {
    /// The task was cancelled before the action was applied, so it has not been applied and will not be.
    case cancelled
    /// The task was cancelled after the action was applied with this revision; the action will still be written, unless
    /// the log fails permanently.
    case unconfirmed(revision: UInt64?)
    /// The log could not be read or accepts no more writes, so the action has not been applied.
    ///
    /// The `failure()` of a store's handle returns this error too. It does so also for a change that is applied through
    /// the handle after the store was released, but before the store has ended. Such a change is never written.
    case logNotRead(FluxRestoration)
    /// The action was applied with this revision and will never be on disk, because of a ``FluxPermanentError``.
    case notWritten(any Swift.Error, revision: UInt64?)

    /// A one-line description of the error.
    public var description: String {
        switch self {
        case .cancelled: "the task was cancelled before the action was applied, and it will not be applied"
        case .unconfirmed(let revision):
            "the task was cancelled after the action was applied\(Self.suffix(revision)); "
                + "it will still be written, unless the log fails permanently"
        case .logNotRead(.failed(let error)): "the action was not applied, as nothing is written to the log: \(error)"
        case .logNotRead(.restored), .logNotRead(.empty): "nothing is written any more, because the store was released"
        case .logNotRead(let restoration): "nothing is written, because the log was not read (\(restoration))"
        case .notWritten(let error, let revision):
            "the action was applied\(Self.suffix(revision)) and will never be on disk: \(error)"
        }
    }

    private static func suffix(_ revision: UInt64?) -> String { revision.map { " as revision \($0)" } ?? "" }
}
