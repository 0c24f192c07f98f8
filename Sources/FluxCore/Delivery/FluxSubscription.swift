/// The token of a subscription: it lasts until ``unsubscribe()`` is called or the last reference to it goes.
///
/// ```swift
/// let subscription = store.subscribe { state in print(state) }
/// …
/// subscription.unsubscribe()
/// ```
///
/// Keep it in a property, or end it by hand. A token that is only assigned to a local constant ends at its last use, which an
/// optimising compiler may find long before the end of the scope; so does an array of tokens, even with `_ = tokens` at the
/// end. `withExtendedLifetime(tokens) { … }` keeps them for as long as its closure runs.
///
/// A subscription also ends, after what is due has been delivered, when its store is let go (C10). The token keeps
/// neither the store nor the handler alive.
///
/// Thread safety: all of it may be used from any thread, also inside the handler.
nonisolated public final class FluxSubscription: Sendable {
    private let member: FluxCancellable

    @usableFromInline init(_ member: FluxCancellable) { self.member = member }

    /// Makes the token of anything that can be ended.
    ///
    /// - Parameters:
    ///   - cancel: Ends it without waiting: from there on no call of its handler is decided on (C7). It may be called more than
    ///     once, on any thread, and with a lock held: what uses a store goes into ``FluxPureCode/after(_:)``.
    ///   - finish: Waits until its last call is over; called after `cancel`.
    ///   - dropped: How many elements it was not handed because there was no room for them.
    public init(
        _ cancel: @escaping @Sendable () -> Void, finish: @escaping @Sendable () async -> Void = {},
        dropped: @escaping @Sendable () -> Int = { 0 }
    ) { member = FluxCancelling(cancelling: cancel, finishing: finish, counting: dropped) }

    /// Makes one token of many: it ends them all.
    ///
    /// - Parameter subscriptions: What it ends, in this order, and keeps; a token kept elsewhere too ends there as well.
    /// - Complexity: O(1).
    public convenience init(_ subscriptions: [FluxSubscription]) {
        self.init(
            { for token in subscriptions { token.unsubscribe() } },
            finish: { for token in subscriptions { await token.finish() } },
            dropped: { subscriptions.reduce(0) { $0 + $1.dropped } })
    }

    deinit { unsubscribe() }

    /// Ends the subscription: once this has returned, the store decides on no further call of the handler (C7).
    ///
    /// On the subscription's own queue, if that is serial, and inside the handler, for the rest of a batch too, no call comes
    /// after this. A call that another thread had decided on may still start or run: who must know that the last is over
    /// awaits ``finish()``. It never waits. A second call does nothing. The handler and what it captured are released at the
    /// end of the batch under way.
    ///
    /// - Complexity: O(log *n*) of the subscriptions on the same queue, amortised; O(*n*) of those that look on at changes as they
    ///   are applied, such as to parts.
    public func unsubscribe() { member.cancel() }

    /// Ends the subscription, and returns once the last call of the handler is over, or the task is cancelled.
    public func finish() async {
        member.cancel()
        await member.finish()
    }

    /// How many changes it was not handed because there was no room for them; 0 for what has no bound.
    ///
    /// It goes on telling once the subscription has ended. Of a token of many it is the sum.
    public var dropped: Int { member.dropped }

    /// Puts the token into a set of them, to be kept and let go of together.
    ///
    /// - Parameter subscriptions: Where to put it, at the end.
    public func store(in subscriptions: inout [FluxSubscription]) { subscriptions.append(self) }
}
