import Synchronization

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
    fileprivate let subscriber: any FluxCancellable
    /// What it was not handed, if there is a bound.
    private let drops: FluxDrops?

    @usableFromInline
    init(_ subscriber: any FluxCancellable, keeping drops: FluxDrops? = nil) {
        self.subscriber = subscriber
        self.drops = drops
    }

    /// Makes one token of many: it ends them all.
    ///
    /// - Parameter subscriptions: What it ends, in this order, and keeps; a token kept elsewhere too ends there as well.
    /// - Complexity: O(1).
    public init(_ subscriptions: [FluxSubscription]) {
        subscriber = FluxTokens(all: subscriptions)
        drops = nil
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
    /// handler of another subscription. A token of many ends all of them first, and then gives them that time together.
    ///
    /// - Complexity: O(log *n*) of the subscriptions on the same queue, amortised.
    public func unsubscribe() {
        subscriber.cancel()
    }

    /// How many changes it was not handed because there was no room for them; 0 for what has no bound.
    ///
    /// It goes on telling once the subscription has ended. Of a token of many it is the sum.
    public var dropped: Int {
        if let tokens = subscriber as? FluxTokens { return tokens.all.reduce(0) { $0 + $1.dropped } }
        return drops?.count.load(ordering: .relaxed) ?? 0
    }

    /// Puts the token into a set of them, to be kept and let go of together.
    ///
    /// - Parameter subscriptions: Where to put it, at the end.
    public func store(in subscriptions: inout [FluxSubscription]) {
        subscriptions.append(self)
    }
}

/// What a token of many ends.
nonisolated private final class FluxTokens: FluxCancellable {
    let all: [FluxSubscription]

    init(all: [FluxSubscription]) {
        self.all = all
    }

    func end(_ unsettled: inout ContiguousArray<any FluxUnsettled>) {
        for token in all { token.subscriber.end(&unsettled) }
    }
}
