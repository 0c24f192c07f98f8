/// Removes an object that was added to a dispatcher or a store, such as middleware or a reaction.
///
/// Unlike a ``FluxSubscription`` it may be released: the object stays until ``remove()`` is called, or for as long as
/// the dispatcher or store exists. The registration keeps neither alive.
///
/// Thread safety: all of it may be used from any thread, also by the added object itself if that is
/// called with no lock held.
nonisolated public struct FluxRegistration: Sendable {
    private let body: @Sendable () -> Void

    /// Creates a registration from a closure that removes the added object.
    ///
    /// - Parameter body: Removes the object; it may be called more than once.
    public init(_ body: @escaping @Sendable () -> Void) { self.body = body }

    /// Removes the object; an action that is dispatched after this has returned does not reach it.
    ///
    /// A call of the object that is already running on another thread continues. A second `remove()` does nothing.
    public func remove() { body() }
}
