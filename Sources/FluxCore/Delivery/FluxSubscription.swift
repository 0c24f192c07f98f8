/// The token of a subscription, which ends with ``unsubscribe()`` or when the last reference to it is released.
///
/// ```swift
/// let subscription = store.subscribe { state in print(state) }
/// …
/// subscription.unsubscribe()
/// ```
///
/// Keep the token in a property, or end it by hand. A token that is only assigned to a local constant is
/// released after its last use, which may be long before the end of the scope in an optimised build. The same
/// holds for a local array of tokens, even with `_ = tokens` at the end. `withExtendedLifetime(tokens) { … }`
/// keeps them while its closure runs.
///
/// A subscription also ends when its store is released, after the pending deliveries (C10). The token keeps neither the
/// store nor the handler alive.
///
/// Thread safety: all of it may be used from any thread, also inside the handler.
nonisolated public final class FluxSubscription: Sendable {
    private let member: FluxCancellable

    @usableFromInline init(_ member: FluxCancellable) { self.member = member }

    /// Creates a token for anything that can be ended.
    ///
    /// - Parameters:
    ///   - cancel: Ends it without waiting; from then on no further call of its handler is decided on (C7). It may be
    ///     called more than once, on any thread, and while a lock is held. Code that uses a store belongs in
    ///     ``FluxPureCode/after(_:)``.
    ///   - finish: Waits until the last call of its handler is over; called after `cancel`.
    ///   - dropped: Returns the number of elements that were not delivered because there was no room for them.
    public init(
        _ cancel: @escaping @Sendable () -> Void, finish: @escaping @Sendable () async -> Void = {},
        dropped: @escaping @Sendable () -> Int = { 0 }
    ) { member = FluxCancelling(cancelling: cancel, finishing: finish, counting: dropped) }

    /// Creates one token that ends many subscriptions.
    ///
    /// - Parameter subscriptions: The tokens, which it keeps and ends in this order. It also ends a token that is kept
    ///   elsewhere too.
    /// - Complexity: O(1).
    public convenience init(_ subscriptions: [FluxSubscription]) {
        self.init(
            { for token in subscriptions { token.unsubscribe() } },
            finish: { for token in subscriptions { await token.finish() } },
            dropped: { subscriptions.reduce(0) { $0 + $1.dropped } })
    }

    deinit { unsubscribe() }

    /// Ends the subscription; once this has returned, the store decides on no further call of the handler (C7).
    ///
    /// Inside the handler, or on the subscription's own queue if that is serial, the handler is not called again after
    /// this, not even for the rest of a batch. A call that another thread had decided on may still start or run: await
    /// ``finish()`` to know that the last call is over. `unsubscribe()` waits for no handler, and a second call does
    /// nothing. The handler and its captures are released at the end of the current batch.
    ///
    /// - Complexity: O(log *n*) for *n* subscriptions on the same queue, amortised. A subscription that observes
    ///   changes as they are applied, such as one to a part: O(*n*) for *n* such observers. The last subscription of a
    ///   view: O(*n*) for *n* stores below.
    public func unsubscribe() { member.cancel() }

    /// Ends the subscription, and waits until the last call of the handler is over or the task is cancelled.
    public func finish() async {
        member.cancel()
        await member.finish()
    }

    /// The number of changes that were not delivered because there was no room for them; 0 for a
    /// subscription without a bound.
    ///
    /// The number stays available after the subscription has ended. A token of many subscriptions has their sum.
    public var dropped: Int { member.dropped }

    /// Appends the token to an array, which keeps and releases its tokens together.
    ///
    /// - Parameter subscriptions: The array.
    public func store(in subscriptions: inout [FluxSubscription]) { subscriptions.append(self) }
}
