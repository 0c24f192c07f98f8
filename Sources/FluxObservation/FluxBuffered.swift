import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// How many changes may wait for a subscription whose memory must not grow.
///
/// | delivery             | delivers                             | keeps while the handler is slow           |
/// |----------------------|--------------------------------------|-------------------------------------------|
/// | `.buffered(newest:)` | the newest waiting changes, in order | up to the limit; counts those it drops    |
/// | `.buffered(oldest:)` | the oldest waiting changes, in order | up to the limit; counts those it drops    |
///
/// If no change may be missed, subscribe with `failingAfter:`: the subscription then ends with an error rather than
/// miss one.
///
/// Thread safety: a value.
nonisolated public struct FluxBuffered: Sendable, Hashable {
    enum Rule: Sendable, Hashable {
        case every, latest
        case newest(Int)
        case oldest(Int)
        case failing(Int)
    }

    let rule: Rule

    /// Returns the given delivery, without a bound.
    @usableFromInline
    static func of(_ delivery: FluxDelivery) -> FluxBuffered { .init(rule: delivery == .latest ? .latest : .every) }

    /// Delivers changes in order, of which at most `limit` wait; if one too many arrives, the oldest is dropped.
    ///
    /// - Parameter limit: How many changes may wait; at least 1.
    /// - Returns: The delivery.
    public static func buffered(newest limit: Int) -> FluxBuffered {
        FluxBuffered(rule: .newest(checked(limit)))
    }

    /// Delivers changes in order, of which at most `limit` wait; one too many is dropped.
    ///
    /// - Parameter limit: How many changes may wait; at least 1.
    /// - Returns: The delivery.
    public static func buffered(oldest limit: Int) -> FluxBuffered {
        FluxBuffered(rule: .oldest(checked(limit)))
    }

    /// Stops the program if the limit leaves no room for a change.
    @usableFromInline static func checked(_ limit: Int) -> Int {
        if limit > 0 { return limit }
        fatalError("FluxCore: a delivery with room for \(limit) changes delivers none. Give it room for at least 1.")
    }

    @usableFromInline func bound<Element>() -> FluxQueueDelivery<Element>.Bound {
        switch rule {
        case .newest(let limit): .newest(limit)
        case .oldest(let limit): .oldest(limit)
        case .every, .latest, .failing: .none
        }
    }
}

/// The error of a subscription that must miss nothing: more changes waited than its limit allows.
///
/// Thread safety: a value.
nonisolated public struct FluxOverflow: Swift.Error, Sendable, Hashable, CustomStringConvertible {
    /// How many changes were allowed to wait.
    public let limit: Int

    /// A description of the error, in one line.
    public var description: String { "more than \(limit) changes waited for the subscription, which has ended" }
}

nonisolated extension FluxSource {
    /// Calls a handler with the states announced from now on, with a limit on how many may wait.
    ///
    /// - Parameters:
    ///   - delivery: How many may wait, and which one is dropped if one too many arrives;
    ///     `FluxSubscription.dropped` counts the dropped ones.
    ///   - queue: The queue to call the handler on; by default a serial queue of the source.
    ///   - startingWithCurrent: True to deliver the current state first, atomically with the start (C5).
    ///   - handler: Receives the state after the change.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @inlinable @_disfavoredOverload
    public func subscribe(
        _ delivery: FluxBuffered,
        on queue: DispatchQueue? = nil,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription {
        FluxPureCode.forbid("subscribe(.buffered)")
        // Two states that are equal may become neighbours when those between them are skipped.
        let distinct = FluxDistinct(by: difference)
        let bounded = self.delivery(on: queue, bound: delivery.bound()) { state in
            if distinct.isChange(to: state) { handler(state) }
        }
        return connect(FluxReceiver(bounded) { $1 ? bounded.put($0) : nil }, startingWithCurrent: startingWithCurrent)
    }

    /// Calls a handler on the main actor with the states announced from now on, with a limit on how many may wait.
    ///
    /// - Parameters:
    ///   - delivery: How many may wait, and which one is dropped if one too many arrives.
    ///   - main: The main queue.
    ///   - startingWithCurrent: True to deliver the current state first, atomically with the start (C5).
    ///   - handler: Receives the state after the change.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    public func subscribe(
        _ delivery: FluxBuffered,
        on main: FluxMainQueue,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @MainActor @Sendable (State) -> Void
    ) -> FluxSubscription {
        subscribe(
            delivery, on: DispatchQueue.main, startingWithCurrent: startingWithCurrent, main.bind(handler))
    }

    /// Calls a handler with every state announced from now on, and ends with an error rather than miss one.
    ///
    /// The waiting states are delivered first, then the error, then nothing more.
    ///
    /// - Parameters:
    ///   - limit: How many changes may wait; at least 1.
    ///   - queue: The queue to call the handler on; by default a serial queue of the source.
    ///   - startingWithCurrent: True to deliver the current state first, atomically with the start (C5).
    ///   - handler: Receives each state, or the error that ends the subscription.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    @_disfavoredOverload
    public func subscribe(
        failingAfter limit: Int,
        on queue: DispatchQueue? = nil,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (Swift.Result<State, FluxOverflow>) -> Void
    ) -> FluxSubscription {
        FluxPureCode.forbid("subscribe(failingAfter:)")
        let failing = delivery(
            on: queue, bound: .failing(limit, last: .failure(FluxOverflow(limit: limit))), handler)
        return connect(
            FluxReceiver(failing) { $1 ? failing.put(.success($0)) : nil }, startingWithCurrent: startingWithCurrent)
    }

    /// Calls a handler on the main actor with every state announced from now on, and ends with an error rather than
    /// miss one.
    ///
    /// - Parameters:
    ///   - limit: How many changes may wait; at least 1.
    ///   - main: The main queue.
    ///   - startingWithCurrent: True to deliver the current state first, atomically with the start (C5).
    ///   - handler: Receives each state, or the error that ends the subscription.
    /// - Returns: The subscription's token. Keep it: the subscription ends when the token is released.
    public func subscribe(
        failingAfter limit: Int,
        on main: FluxMainQueue,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @MainActor @Sendable (Swift.Result<State, FluxOverflow>) -> Void
    ) -> FluxSubscription {
        subscribe(
            failingAfter: limit, on: DispatchQueue.main, startingWithCurrent: startingWithCurrent, main.bind(handler))
    }
}
