/// What was added to a dispatcher or a store, to be taken out again.
///
/// Unlike a ``FluxSubscription`` it may be let go of: what was added stays until ``remove()``, or for as long as what it was
/// added to. It keeps neither alive.
///
/// Thread safety: all of it may be used from any thread, also by what is to be removed where that is called with no lock held.
nonisolated public struct FluxRegistration: Sendable {
    private let body: @Sendable () -> Void

    /// Makes what takes something out again.
    ///
    /// - Parameter body: Takes it out; it may be called more than once.
    public init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    /// Takes it out: once this has returned, no call of it begins for an action that is dispatched later.
    ///
    /// A call that another thread is in the middle of goes on. A second call of this does nothing.
    public func remove() { body() }
}
