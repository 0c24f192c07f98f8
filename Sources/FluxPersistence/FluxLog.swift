#if canImport(FluxCore)
    import FluxCore
#endif

/// A log of actions on disk, for states that may lose nothing: a snapshot, and the actions applied after it.
///
/// A store with a log appends every action it applies, in order; see `dispatch(durably:)`. After a crash it
/// takes the snapshot and applies the actions again.
///
/// What `append` and `compact` do, they do as a whole or not at all, and have put where a crash does not reach it when
/// they return. One that failed may have been done all the same, and is tried again: so an action whose number is there
/// already is not added a second time. The file or database belongs to one store of one process at a time: lock it.
///
/// Thread safety: it is used by one task at a time, on any thread.
nonisolated public protocol FluxLog<State>: Sendable {
    /// What the actions change.
    associatedtype State: FluxState

    /// Reads the newest snapshot and the actions after it, in the order of their numbers.
    ///
    /// It returns once they are where a crash does not reach them: a process that was stopped may have left them half way.
    ///
    /// - Returns: What is stored; neither a snapshot nor an action if the log is new.
    /// - Throws: Whatever kept it from being read; the store does not write to the log then.
    func load() async throws -> FluxLogContents<State>

    /// Adds actions at the end; those whose numbers the log has already are not added again.
    ///
    /// - Parameter entries: The actions, each with a number one higher than the last.
    /// - Throws: Whatever kept it from doing so; the store reports it, and tries again, unless it is a ``FluxPermanentError``.
    func append(_ entries: [FluxLogEntry<State.Action>]) async throws

    /// Stores a snapshot and drops the older one, with all actions up to its number, in one step.
    ///
    /// An action that stays all the same is passed over by the next load, and makes that the longer.
    ///
    /// - Parameter snapshot: A state that all actions up to its number have been applied to, also such as were not
    ///   appended yet: those never will be.
    /// - Throws: Whatever kept it from doing so; the store reports it, and goes on appending.
    func compact(_ snapshot: FluxSnapshot<State>) async throws
}

/// An action as it stands in a log.
///
/// Thread safety: a value.
nonisolated public struct FluxLogEntry<Action: FluxAction>: Sendable {
    /// Its place in the order in which the store applied its actions, the first being 1, without a gap.
    ///
    /// It is not the revision: that does not count the actions that announced nothing, which are in the log too.
    public let number: UInt64
    /// The action.
    public let action: Action

    /// Makes an entry.
    ///
    /// - Parameters:
    ///   - number: Its place in the order, from 1.
    ///   - action: The action.
    @inlinable public init(number: UInt64, action: Action) {
        self.number = number
        self.action = action
    }
}

/// A state, and which actions have made it.
///
/// Thread safety: a value.
nonisolated public struct FluxSnapshot<State: FluxState>: Sendable {
    /// The state after the action of that number.
    public let state: State
    /// The number of the last action that is in it; 0 for none.
    public let number: UInt64
    /// The revision of the store then.
    public let revision: UInt64

    /// Makes a snapshot.
    ///
    /// - Parameters:
    ///   - state: The state.
    ///   - number: The number of the last action that is in it; 0 for none.
    ///   - revision: The revision of the store then.
    public init(state: State, number: UInt64, revision: UInt64) {
        self.state = state
        self.number = number
        self.revision = revision
    }
}

/// What is in a log.
///
/// Thread safety: a value.
nonisolated public struct FluxLogContents<State: FluxState>: Sendable {
    /// The newest snapshot, if any was taken.
    public let snapshot: FluxSnapshot<State>?
    /// The actions after it, in order.
    public let entries: [FluxLogEntry<State.Action>]

    /// Makes the contents of a log.
    ///
    /// - Parameters:
    ///   - snapshot: The newest snapshot, if any was taken.
    ///   - entries: The actions after it, in order.
    public init(snapshot: FluxSnapshot<State>? = nil, entries: [FluxLogEntry<State.Action>] = []) {
        self.snapshot = snapshot
        self.entries = entries
    }
}

/// A log that cannot be what a store has written: an action is missing.
///
/// Thread safety: a value.
nonisolated public struct FluxLogGap: Swift.Error, CustomStringConvertible {
    /// The number of the action that should have come next.
    public let expected: UInt64
    /// The number that came instead.
    public let found: UInt64

    /// One line that says so.
    public var description: String {
        "the log has a gap: action \(expected) should come next, and \(found) does"
    }
}

/// Why an action that was dispatched durably is not known to be on disk.
///
/// Thread safety: a value.
nonisolated public enum FluxDurabilityError: Swift.Error, CustomStringConvertible {
    /// The task was cancelled before the action was applied, so it has not been and will not be.
    case cancelled
    /// The task was cancelled after the action was applied with this revision; it will be on disk soon, unless the log fails for good.
    case unconfirmed(revision: UInt64?)
    /// The log could not be read, or takes nothing any more, so nothing is written to it; the action has not been applied.
    ///
    /// By the handle of a store that was let go it may have been, and is written all the same by nobody.
    case logNotRead(FluxRestoration)
    /// The action was applied with this revision and will never be on disk, because of a ``FluxPermanentError``.
    case notWritten(any Swift.Error, revision: UInt64?)

    /// One line that says so.
    public var description: String {
        switch self {
        case .cancelled: "the task was cancelled before the action was applied: it will not be"
        case .unconfirmed(let revision):
            "the task was cancelled after the action was applied\(Self.suffix(revision)): it will be on disk soon"
        case .logNotRead(.failed(let error)): "the action was not applied, as nothing is written to the log: \(error)"
        case .logNotRead(.restored), .logNotRead(.empty): "nothing is written any more, as the store was let go"
        case .logNotRead(let restoration): "the action was not applied, as the log was not read (\(restoration))"
        case .notWritten(let error, let revision):
            "the action was applied\(Self.suffix(revision)) and will never be on disk: \(error)"
        }
    }

    private static func suffix(_ revision: UInt64?) -> String { revision.map { " as revision \($0)" } ?? "" }
}
