#if canImport(FluxCore)
    import FluxCore
#endif

/// A number of places that many creators share: so many of their events are converted at once, in all of them together.
///
/// ```swift
/// let house = FluxLimit(40, waiting: 10_000)
/// let bids = FluxActionCreator<BidConverter>(dependency: bank, store: room, rules: [.sequence(), .concurrency(house)])
/// ```
///
/// An event takes its place last, once all rules of its list let it start, and gives it back at its end, however it ends. Those
/// that wait get a place in the order in which they came, whatever their creator. Of several limits in one list an event takes one
/// after the other, in an order that is the same in all lists: so no two events wait for each other.
///
/// Of a creator nothing is kept but its events in flight.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxLimit: Sendable {
    let places: FluxRuleRunner

    /// Makes a limit, for ``FluxRule/concurrency(_:)``.
    ///
    /// - Parameters:
    ///   - limit: How many events may be in flight behind it, at least 1.
    ///   - waiting: How many may wait; one more is dropped at once. nil, the default, for any number.
    public init(_ limit: Int, waiting: Int? = nil) {
        let rule = FluxRuleForm(kind: .places(limit, waiting: waiting, of: "FluxLimit")) { _ in true }
        places = FluxRuleRunner([rule], FluxRuleClock(_Concurrency.ContinuousClock()))
    }
}
