/// A place that a state is loaded from once and saved to whenever it has changed.
///
/// ```swift
/// let file = FluxFile<Todo>(path: "/var/lib/todo/state", encode: { try $0.bytes() }, decode: { try Todo(bytes: $0) })
/// let store = FluxStore(initialState: Todo(), persistence: file)
/// ```
///
/// A store calls `load` once and then `save` repeatedly: never two saves at once, and always with the newest state. A
/// function that fails must throw. The store reports the error; a failed save is tried again, unless the error is a
/// ``FluxPermanentError``. `save` replaces the stored state as a whole or leaves the old one unchanged. When it
/// returns, the new state survives a crash.
///
/// Thread safety: one task at a time uses it, on any thread. A load that was given up on may still be running when the
/// first save begins; the task of that load has been cancelled by then.
nonisolated public protocol FluxPersistence<State>: Sendable {
    /// The state that is kept.
    associatedtype State: Sendable

    /// Reads the state that was saved last, and returns once that state survives a crash.
    ///
    /// A process that was stopped may have saved the state without making it durable, and the store treats a loaded
    /// state as saved.
    ///
    /// - Returns: The state; nil if none has been saved yet.
    /// - Throws: The error that prevented reading. The store's next change is then saved, and replaces what could not be
    ///   read, unless the error is a ``FluxPermanentError``.
    func load() async throws -> State?

    /// Replaces the state that was saved last.
    ///
    /// - Parameter state: The state to keep.
    /// - Throws: The error that prevented saving; the store reports it and tries again, unless it is a
    ///   ``FluxPermanentError``.
    func save(_ state: State) async throws

    /// Identifies the place that is saved to among all places of this process; nil by default.
    ///
    /// A load from a place waits until the older stores of that place have completed their pending saves. A persistence
    /// that wraps another returns the place of the wrapped one. The property is read once, when a store is created.
    /// After a load has timed out, two stores may write to the same place: the later save wins, unless `save` detects
    /// the other writer, as that of a ``FluxFile`` does.
    var place: String? { get }
}

nonisolated extension FluxPersistence {
    /// Nil: by default, a load waits for no other store.
    public var place: String? { nil }
}

/// An error that trying again cannot cure, thrown by your own persistence or log.
///
/// ```swift
/// struct DatabaseWasMoved: FluxPermanentError { let path: String }
/// ```
///
/// The store reports it once and then writes nothing more: see ``FluxRestoration/failed(_:)``. Changes that were not
/// written are lost when the process ends.
///
/// Thread safety: `isPermanent` is read on any thread, with no lock held.
nonisolated public protocol FluxPermanentError: Swift.Error {
    /// Whether this error is permanent; true by default.
    var isPermanent: Bool { get }
}

nonisolated extension FluxPermanentError {
    /// By default, the error is permanent.
    public var isPermanent: Bool { true }
}

/// How the load of a store's stored state ended.
///
/// Thread safety: a value.
nonisolated public enum FluxRestoration: Sendable {
    /// The load has not ended: the task that waited for it was cancelled first.
    case loading
    /// A state was stored, and the store continued from it.
    case restored
    /// Nothing was stored, so the store continued from its initial state.
    case empty
    /// The load exceeded its time limit, so the store continued from its initial state.
    case timedOut
    /// The load failed, so the store continued from its initial state; or a ``FluxPermanentError`` later ended all
    /// saving.
    case failed(any Swift.Error)
}

/// A load, save, append or compaction that failed, and when it is tried again.
///
/// Thread safety: a value.
nonisolated public struct FluxPersistenceFailure: Swift.Error, CustomStringConvertible {
    /// An operation that can fail.
    ///
    /// Thread safety: a value.
    public enum Operation: String, Sendable {
        /// Reading the stored state or the log.
        case load
        /// Saving the state.
        case save
        /// Appending actions to the log.
        case append
        /// Replacing the actions in the log with a snapshot.
        case compact
    }

    /// The operation that failed.
    public let operation: Operation
    /// Why it failed: what the persistence or the log threw, or an error of the store, such as ``FluxLogGap`` or a
    /// timeout.
    public let error: any Swift.Error
    /// The number of this attempt, counted from 1 since the last success.
    public let attempt: Int
    /// The delay until the next attempt; nil: there is none.
    public let retryAfter: Swift.Duration?

    /// A one-line description of the failure.
    public var description: String {
        let end = operation == .load ? "; it is not tried again" : "; nothing is saved any more"
        let then = retryAfter.map { "; next attempt in \($0)" } ?? end
        return "\(operation.rawValue) failed (attempt \(attempt)): \(error)\(then)"
    }
}
