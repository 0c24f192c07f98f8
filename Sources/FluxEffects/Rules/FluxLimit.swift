/// A number of places that many creators share: it limits how many of their events are converted at once in total.
///
/// ```swift
/// let house = FluxLimit(40, waiting: 10_000)
/// let bids = FluxActionCreator<BidConverter>(dependency: bank, store: room, rules: [.sequence(), .concurrency(house)])
/// ```
///
/// An event takes its place last, once all rules of its list let it start. It returns the place when it ends, however
/// it ends. Waiting events get a place in order of arrival, whatever their creator. If a list has several limits, an
/// event takes them one after the other, in an order that is the same for all lists. So no two events wait for each
/// other.
///
/// A limit keeps nothing of a creator except its events in flight.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxLimit: Sendable {
    let places: FluxRuleRunner

    /// Creates a limit, for ``FluxRule/concurrency(_:)``.
    ///
    /// - Parameters:
    ///   - limit: How many events may be in flight behind it, at least 1.
    ///   - waiting: How many events may wait; further ones are dropped at once. Nil, the default, means any number.
    public init(_ limit: Int, waiting: Int? = nil) {
        let rule = FluxRuleForm(kind: .places(limit, waiting: waiting, of: "FluxLimit")) { _ in true }
        places = FluxRuleRunner([rule], FluxRuleClock(_Concurrency.ContinuousClock()))
    }
}
