/// A place that a state is loaded from once and saved to whenever it has changed.
///
/// ```swift
/// let file = FluxFile<Todo>(path: "/var/lib/todo/state", encode: { try $0.bytes() }, decode: { try Todo(bytes: $0) })
/// let store = FluxStore(initialState: Todo(), persistence: file)
/// ```
///
/// A store calls `load` once and then `save` again and again: never two saves at once, and always with the newest state.
/// What fails is for the implementation to throw: the store reports it and tries again. `save` replaces the stored state
/// as a whole or leaves the old one as it was, and has put it where a crash does not reach it when it returns.
///
/// Thread safety: it is used by one task at a time, on any thread. A load that was given up on may still be under way
/// when the first save begins; its task is cancelled then.
nonisolated public protocol FluxPersistence<State>: Sendable {
    /// What is kept.
    associatedtype State: Sendable

    /// Reads the state that was saved last.
    ///
    /// - Returns: That state; nil if none has been saved yet.
    /// - Throws: Whatever kept it from being read.
    func load() async throws -> State?

    /// Puts a state in the place of the one that was saved last.
    ///
    /// - Parameter state: The state to keep.
    /// - Throws: Whatever kept it from being saved; the store reports it, and tries again.
    func save(_ state: State) async throws
}
