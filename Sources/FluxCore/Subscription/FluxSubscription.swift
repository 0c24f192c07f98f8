/// The token of a subscription: it lasts until ``unsubscribe()`` is called or the last reference to it goes.
///
/// ```swift
/// let subscription = store.subscribe { state in print(state) }
/// …
/// subscription.unsubscribe()
/// ```
///
/// A subscription also ends, after what is due has been delivered, when its store is let go (C10). The token keeps
/// neither the store nor the handler alive.
///
/// Thread safety: all of it may be used from any thread, also inside the handler.
nonisolated public final class FluxSubscription: Sendable {
    private let subscriber: FluxWeak

    @usableFromInline
    init(_ subscriber: any FluxCancellable) {
        self.subscriber = FluxWeak(subscriber)
    }

    deinit {
        unsubscribe()
    }

    /// Ends the subscription: once this has returned, no call of the handler begins (C7).
    ///
    /// Inside the handler it takes effect at once, for the rest of a batch too. A second call does nothing. The handler
    /// and what it captured are released promptly.
    ///
    /// If another thread is inside the handler at that moment, this gives it up to a tenth of a second to return, and
    /// goes on then: a slow handler, or one that waits for the calling thread, does not hang it. It never waits for the
    /// handler of another subscription.
    ///
    /// - Complexity: O(log *n*) of the subscriptions on the same queue, amortised.
    public func unsubscribe() {
        subscriber.object?.cancel()
    }
}
