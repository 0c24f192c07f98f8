/// What the token of a subscription ends.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public protocol FluxCancellable: AnyObject, Sendable {
    /// Ends it without waiting: from here on no call of its handler is decided on (C7).
    func cancel()

    /// Ends it, and waits until its last call is over.
    func finish() async

    /// How many elements it was not handed because there was no room for them; 0 unless it has a bound.
    var dropped: Int { get }
}

nonisolated extension FluxCancellable {
    /// What has no bound drops nothing.
    public var dropped: Int { 0 }
}

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
    private let member: any FluxCancellable

    /// Makes the token of something that can be ended.
    ///
    /// - Parameter member: What it ends.
    public init(_ member: any FluxCancellable) { self.member = member }

    /// Makes one token of many: it ends them all.
    ///
    /// - Parameter subscriptions: What it ends, in this order, and keeps; a token kept elsewhere too ends there as well.
    /// - Complexity: O(1).
    public init(_ subscriptions: [FluxSubscription]) { member = FluxTokens(all: subscriptions) }

    deinit { unsubscribe() }

    /// Ends the subscription: once this has returned, the store decides on no further call of the handler (C7).
    ///
    /// On the subscription's own queue, if that is serial, and inside the handler, for the rest of a batch too, no call comes
    /// after this. A call that another thread had decided on may still start or run: who must know that the last is over
    /// awaits ``finish()``. It never waits. A second call does nothing. The handler and what it captured are released at the
    /// end of the batch under way.
    ///
    /// - Complexity: O(log *n*) of the subscriptions on the same queue, amortised.
    public func unsubscribe() { member.cancel() }

    /// Ends the subscription, and returns once the last call of the handler is over, or the task is cancelled.
    public func finish() async { await member.finish() }

    /// How many changes it was not handed because there was no room for them; 0 for what has no bound.
    ///
    /// It goes on telling once the subscription has ended. Of a token of many it is the sum.
    public var dropped: Int { member.dropped }

    /// Puts the token into a set of them, to be kept and let go of together.
    ///
    /// - Parameter subscriptions: Where to put it, at the end.
    public func store(in subscriptions: inout [FluxSubscription]) { subscriptions.append(self) }
}

/// What a token of many ends.
nonisolated private final class FluxTokens: FluxCancellable {
    let all: [FluxSubscription]

    init(all: [FluxSubscription]) { self.all = all }

    func cancel() {
        for token in all { token.unsubscribe() }
    }

    func finish() async {
        cancel()
        for token in all { await token.finish() }
    }

    var dropped: Int { all.reduce(0) { $0 + $1.dropped } }
}
