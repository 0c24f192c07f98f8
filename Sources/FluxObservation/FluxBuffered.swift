import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// How many changes may wait for a subscription that must not let memory grow.
///
/// | delivery             | gets                                              | holds, while it is slow               |
/// |----------------------|---------------------------------------------------|---------------------------------------|
/// | `.buffered(newest:)` | in order, the newest so many of what waits        | at most so many, and counts the rest  |
/// | `.buffered(oldest:)` | in order, the oldest so many of what waits        | at most so many, and counts the rest  |
///
/// Whoever must not miss any either subscribes with `failingAfter:`.
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

    /// What a delivery says, with no bound.
    @usableFromInline
    static func of(_ delivery: FluxDelivery) -> FluxBuffered { .init(rule: delivery == .latest ? .latest : .every) }

    /// In order; at most so many changes wait, and where one more comes, the oldest goes.
    ///
    /// - Parameter limit: How many changes may wait, 1 at least.
    /// - Returns: The delivery.
    public static func buffered(newest limit: Int) -> FluxBuffered {
        FluxBuffered(rule: .newest(checked(limit)))
    }

    /// In order; at most so many changes wait, and where one more comes, it is left out.
    ///
    /// - Parameter limit: How many changes may wait, 1 at least.
    /// - Returns: The delivery.
    public static func buffered(oldest limit: Int) -> FluxBuffered {
        FluxBuffered(rule: .oldest(checked(limit)))
    }

    /// Stops the program where there is room for nothing.
    static func checked(_ limit: Int) -> Int {
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

/// The end of a subscription that was to miss nothing: more changes waited than it was willing to keep.
///
/// Thread safety: a value.
nonisolated public struct FluxOverflow: Swift.Error, Sendable, Hashable, CustomStringConvertible {
    /// How many changes were allowed to wait.
    public let limit: Int

    /// One line that says so.
    public var description: String { "more than \(limit) changes waited for the subscription, which has ended" }
}

nonisolated extension FluxSource {
    /// Calls a handler with the states that are announced from now on, of which only so many may wait.
    ///
    /// - Parameters:
    ///   - delivery: How many may wait, and what goes where one more comes; `FluxSubscription.dropped` counts what went.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
    ///   - startingWithCurrent: True to be called with the current state first, in one step with the start (C5).
    ///   - handler: Gets the state as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    @inlinable @_disfavoredOverload
    public func subscribe(
        _ delivery: FluxBuffered,
        on queue: DispatchQueue? = nil,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription {
        FluxPureCode.forbid("subscribe(.buffered)")
        // What was skipped may lie between two that are equal.
        let distinct = FluxDistinct(by: difference)
        let bounded = self.delivery(on: queue, bound: delivery.bound()) { state in
            if distinct.isChange(to: state) { handler(state) }
        }
        return connect(FluxReceiver(bounded) { $1 ? bounded.put($0) : nil }, startingWithCurrent: startingWithCurrent)
    }

    /// Calls a handler on the main actor with the states that are announced from now on, of which only so many may wait.
    ///
    /// - Parameters:
    ///   - delivery: How many may wait, and what goes where one more comes.
    ///   - main: The main queue.
    ///   - startingWithCurrent: True to be called with the current state first, in one step with the start (C5).
    ///   - handler: Gets the state as the change left it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    public func subscribe(
        _ delivery: FluxBuffered,
        on main: FluxMainQueue,
        startingWithCurrent: Bool = false,
        _ handler: @escaping @MainActor @Sendable (State) -> Void
    ) -> FluxSubscription {
        subscribe(
            delivery, on: DispatchQueue.main, startingWithCurrent: startingWithCurrent, main.bind(handler))
    }

    /// Calls a handler with every state that is announced from now on, and ends with an error rather than miss one.
    ///
    /// What waits is handed over first, then the error, then nothing more.
    ///
    /// - Parameters:
    ///   - limit: How many changes may wait, 1 at least.
    ///   - queue: Where to call the handler; by default on a serial queue of the source.
    ///   - startingWithCurrent: True to be called with the current state first, in one step with the start (C5).
    ///   - handler: Gets each state, or the error that ends it.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
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
}
