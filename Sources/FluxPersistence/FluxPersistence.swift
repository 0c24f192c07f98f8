#if canImport(FluxCore)
    import FluxCore
#endif

/// A place that a state is loaded from once and saved to whenever it has changed.
///
/// ```swift
/// let file = FluxFile<Todo>(path: "/var/lib/todo/state", encode: { try $0.bytes() }, decode: { try Todo(bytes: $0) })
/// let store = FluxStore(initialState: Todo(), persistence: file)
/// ```
///
/// A store calls `load` once and then `save` again and again: never two saves at once, and always with the newest state.
/// What fails is for the implementation to throw: the store reports it and tries again, unless the error is a
/// ``FluxPermanentError``. `save` replaces the stored state as a whole or leaves the old one as it was, and has put it where
/// a crash does not reach it when it returns.
///
/// Thread safety: it is used by one task at a time, on any thread. A load that was given up on may still be under way
/// when the first save begins; its task is cancelled then.
nonisolated public protocol FluxPersistence<State>: Sendable {
    /// What is kept.
    associatedtype State: Sendable

    /// Reads the state that was saved last, and returns once it is where a crash does not reach it.
    ///
    /// A process that was stopped may have left it half way: what a store goes on from counts as saved.
    ///
    /// - Returns: That state; nil if none has been saved yet.
    /// - Throws: Whatever kept it from being read.
    func load() async throws -> State?

    /// Puts a state in the place of the one that was saved last.
    ///
    /// - Parameter state: The state to keep.
    /// - Throws: Whatever kept it from being saved; the store reports it, and tries again.
    func save(_ state: State) async throws

    /// What tells the place it saves to from all others of this process; by default nil.
    ///
    /// Who loads from a place waits until the older stores of that place have saved what is due. A persistence
    /// around another hands on that of the other. It is read once, when a store is made. After a load that has timed out two
    /// stores may write there: unless a save can tell, as that of a ``FluxFile`` can, the later one counts.
    var place: String? { get }
}

nonisolated extension FluxPersistence {
    /// By default a load waits for no other store.
    public var place: String? { nil }
}

/// An error that trying again cannot cure, for a persistence or a log of your own to throw.
///
/// ```swift
/// struct DatabaseWasMoved: FluxPermanentError { let path: String }
/// ```
///
/// The store reports it once and writes nothing any more: see ``FluxRestoration/failed(_:)``. What was not written is lost
/// with the process.
///
/// Thread safety: it is asked on any thread, with no lock held.
nonisolated public protocol FluxPermanentError: Swift.Error {
    /// Whether this one is such an error; by default it is.
    var isPermanent: Bool { get }
}

nonisolated extension FluxPermanentError {
    /// By default it is one.
    public var isPermanent: Bool { true }
}

/// How the load of a store's stored state has ended.
///
/// Thread safety: a value.
nonisolated public enum FluxRestoration: Sendable {
    /// It has not: whoever waited for it was cancelled before.
    case loading
    /// There was a stored state, and the store went on from it.
    case restored
    /// Nothing was stored, so the store went on from its initial state.
    case empty
    /// The load took longer than it was given, so the store went on from its initial state.
    case timedOut
    /// The load failed, so the store went on from its initial state; or what was loaded can no longer be saved, because of a
    /// ``FluxPermanentError``.
    case failed(any Swift.Error)
}

/// Something that a store could not load, save, append or compact, and when it tries again.
///
/// Thread safety: a value.
nonisolated public struct FluxPersistenceFailure: Swift.Error, CustomStringConvertible {
    /// What was tried.
    ///
    /// Thread safety: a value.
    public enum Operation: String, Sendable {
        /// The stored state, or the log, was to be read.
        case load
        /// The state was to be saved.
        case save
        /// Actions were to be appended to the log.
        case append
        /// A snapshot was to take the place of the actions in the log.
        case compact
    }

    /// What was tried.
    public let operation: Operation
    /// Why it did not work, as the persistence or the log has thrown it.
    public let error: any Swift.Error
    /// Which attempt in a row it was, counted from 1.
    public let attempt: Int
    /// When it is tried again, as a delay from now; nil: it is not.
    public let retryAfter: Swift.Duration?

    /// One line that says all of it.
    public var description: String {
        let end = operation == .load ? "; it is not tried again" : "; nothing is saved any more"
        let then = retryAfter.map { "; next attempt in \($0)" } ?? end
        return "\(operation.rawValue) failed (attempt \(attempt)): \(error)\(then)"
    }
}
