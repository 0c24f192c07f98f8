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
    /// The load failed, so the store went on from its initial state.
    case failed(any Error)
}
