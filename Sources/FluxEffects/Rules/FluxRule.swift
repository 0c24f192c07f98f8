#if canImport(FluxCore)
    import FluxCore
#endif

/// A policy for the events of a creator: which run at once, which wait, which replace others, which are tried again.
///
/// ```swift
/// let creator = FluxActionCreator<SearchConverter>(
///     dependency: index,
///     rules: [
///         .debounce(for: FluxRule.caseName, .milliseconds(300)),
///         .unique(cancelling: .earlier, for: FluxRule.caseName),
///         .retry(limit: 3, backoff: .exponential(.seconds(1))),
///     ])
/// ```
///
/// Rules apply in their order: an event that one of them holds back has not reached those behind it. A `key` says which
/// events belong together: those for which it returns the same value; nil leaves an event out of the rule. Without a key
/// all events do. Keys, conditions and rules of one's own are pure: they may not fire or dispatch.
///
/// `Event` is `any FluxEvent` for rules over several types of event, which creators share by one ``FluxRules``.
///
/// Thread safety: a value; its closures are called on any thread, under a lock.
nonisolated public struct FluxRule<Event: Sendable>: Sendable {
    /// Says which events a rule treats as one kind; nil: the rule does not cover the event.
    ///
    /// They are compared as `AnyHashable` compares them: equal numbers of different types, such as `Int8(1)` and `UInt64(1)`, are
    /// one kind. A value that does not equal itself, such as a NaN, is a kind of its own each time.
    public typealias Key = @Sendable (_ event: Event) -> (any Hashable & Sendable)?
    /// Says whether a rule applies to a pair: the event that was fired, and one in flight with the same key.
    ///
    /// It may be asked of a pair more than once, also later, and has to answer the same each time.
    public typealias Condition = @Sendable (_ dispatching: Event, _ executing: Event) -> Bool

    /// Which of two events with one key gives way.
    ///
    /// Thread safety: a value.
    public enum Side: Sendable {
        /// The one in flight is cancelled, and the other starts once no dispatch of it is under way: the latest wins.
        case earlier
        /// The one that was fired is dropped: the first wins.
        case later
    }

    let form: FluxRuleForm

    private init(_ kind: FluxRuleForm.Kind, for key: @escaping Key) {
        form = FluxRuleForm(kind: kind) { event in (event as? Event).flatMap(key) }
    }

    private static func ofAny(_ condition: Condition?) -> FluxRuleForm.Condition? {
        guard let condition else { return nil }
        return { one, other in
            guard let one = one as? Event, let other = other as? Event else { return false }
            return condition(one, other)
        }
    }

    // MARK: - Rules

    /// At most one event per key at a time.
    ///
    /// - Parameters:
    ///   - side: Whether the event in flight is cancelled, or the one that was fired dropped.
    ///   - key: Which events belong together; by default all of the creator.
    ///   - condition: Which pairs of one key exclude each other; by default all.
    /// - Returns: The rule.
    public static func unique(
        cancelling side: Side,
        for key: @escaping Key = { _ in true },
        when condition: Condition? = nil
    ) -> FluxRule {
        FluxRule(.unique(cancelsEarlier: side == .earlier, ofAny(condition)), for: key)
    }

    /// Events of one key run strictly one after the other, in the order fired, however each ends.
    ///
    /// - Parameters:
    ///   - key: Which events belong together, of one kind or of several; by default all of the creator.
    ///   - condition: For which pairs of one key the later waits for the earlier; by default all.
    /// - Returns: The rule.
    public static func sequence(
        for key: @escaping Key = { _ in true }, when condition: Condition? = nil
    ) -> FluxRule {
        FluxRule(ofAny(condition).map { .sequence($0) } ?? .concurrency(1, waiting: nil), for: key)
    }

    /// An event goes on once no other of its key was fired for a while; those before it are dropped.
    ///
    /// - Parameters:
    ///   - key: Which events belong together; by default all of the creator.
    ///   - duration: How long it has to be quiet.
    /// - Returns: The rule.
    public static func debounce(
        for key: @escaping Key = { _ in true }, _ duration: Swift.Duration
    ) -> FluxRule {
        if duration < .zero {
            fatalError("FluxCore: FluxRule.debounce: a duration cannot be negative (\(duration)). Give .zero or more.")
        }
        return FluxRule(.debounce(duration), for: key)
    }

    /// One event per key and interval: the first goes on at once, those that follow too soon are dropped.
    ///
    /// - Parameters:
    ///   - key: Which events belong together; by default all of the creator.
    ///   - interval: How long after one event the next may go on.
    ///   - latest: True to keep the last of those that came too soon, and let it go on at the end of the interval.
    /// - Returns: The rule.
    public static func throttle(
        for key: @escaping Key = { _ in true }, _ interval: Swift.Duration, latest: Bool
    ) -> FluxRule {
        if interval < .zero {
            fatalError("FluxCore: FluxRule.throttle: an interval cannot be negative (\(interval)). Give .zero or more.")
        }
        return FluxRule(.throttle(interval, latest: latest), for: key)
    }

    /// Only so many events of one key are in flight behind this rule; the others wait in order.
    ///
    /// - Parameters:
    ///   - key: Which events belong together; by default all of the creator.
    ///   - limit: How many, at least 1.
    ///   - waiting: How many may wait; one more is dropped at once. nil, the default, for any number.
    /// - Returns: The rule.
    public static func concurrency(
        for key: @escaping Key = { _ in true }, _ limit: Int, waiting: Int? = nil
    ) -> FluxRule {
        FluxRule(.places(limit, waiting: waiting, of: "FluxRule.concurrency"), for: key)
    }

    /// Only so many events are in flight in all creators that were given the same limit; the others wait in order.
    ///
    /// Wherever it stands, it applies behind all other rules of the list.
    ///
    /// - Parameter limit: The places that they share.
    /// - Returns: The rule.
    public static func concurrency(_ limit: FluxLimit) -> FluxRule { FluxRule(.shared(limit)) { _ in nil } }

    /// A conversion that throws is tried again; for asynchronous converters.
    ///
    /// Of several that cover an event the first applies.
    ///
    /// - Parameters:
    ///   - key: Which events it covers: those for which it is not nil; by default all.
    ///   - limit: How often to try again after the first attempt, 0 for never.
    ///   - backoff: How long to wait before each further attempt.
    /// - Returns: The rule.
    public static func retry(
        for key: @escaping Key = { _ in true }, limit: Int, backoff: FluxBackoff = .none
    ) -> FluxRule {
        if limit < 0 { fatalError("FluxCore: FluxRule.retry: a limit cannot be negative (\(limit)). Give 0 or more.") }
        return FluxRule(.retry(limit: limit, backoff), for: key)
    }

    /// A rule of one's own.
    ///
    /// - Parameters:
    ///   - ruling: Decides on each event that the rule covers.
    ///   - key: Which events belong together: the rule sees those in flight of one key. By default all.
    /// - Returns: The rule.
    /// - Complexity: That of the ruling, and O(*m*) for the *m* events that it names.
    public static func custom(
        _ ruling: some FluxRuling<Event>,
        for key: @escaping Key = { _ in true }
    ) -> FluxRule {
        let decide: FluxRuleForm.Ruling = { event, group, entries in
            guard let event = event as? Event else { return .start }
            return ruling.decide(on: event, inFlight: FluxInFlightEvents(group: group, entries: entries))
        }
        return FluxRule(.custom(decide), for: key)
    }

    // MARK: - Keys

    /// A key: the name of the case of an enum event, without its payload; for others the type.
    ///
    /// A case without a payload is told by how the event describes itself, and by its hash where the event is `Hashable`, as an
    /// enum without any payload is by itself. Of an enum that is not, and that describes two such cases alike, both would have one
    /// key: give the rule a key of your own, `{ event in switch event { … } }`.
    ///
    /// - Parameter event: The event that was fired.
    /// - Returns: The key.
    /// - Complexity: A reflection, about a microsecond.
    @Sendable
    public static func caseName(_ event: Event) -> (any Hashable & Sendable)? {
        let mirror = Swift.Mirror(reflecting: event)
        let type = String(reflecting: mirror.subjectType)
        guard mirror.displayStyle == .enum else { return type }
        let name =
            mirror.children.first?.label
            ?? String(describing: event) + ((event as? any Hashable).map { " \($0.hashValue)" } ?? "")
        return mirror.subjectType == Event.self ? name : "\(type).\(name)"
    }
}

/// A rule of one's own, for ``FluxRule/custom(_:for:)``.
///
/// Thread safety: called on any thread, under a lock: one call at a time for all creators that share the rules.
nonisolated public protocol FluxRuling<Event>: Sendable {
    /// The events it decides on.
    associatedtype Event: Sendable

    /// Decides what becomes of an event; pure: it may not fire or dispatch.
    ///
    /// - Parameters:
    ///   - event: The event that has reached this rule.
    ///   - inFlight: The events that have passed this rule before and have not ended, in that order.
    /// - Returns: What to do.
    func decide(on event: Event, inFlight: FluxInFlightEvents<Event>) -> FluxDecision
}

/// The events in flight that a ``FluxRuling`` may look at, in the order in which they passed it.
///
/// Thread safety: it is for the call that it was given to.
nonisolated public struct FluxInFlightEvents<Event: Sendable>: Swift.Sequence {
    let group: FluxRuleGroup
    let entries: [UInt64: FluxRuleMachine.Entry]

    /// How many there are.
    ///
    /// - Complexity: O(1).
    public var count: Int { group.members.count }

    /// Whether there is none.
    public var isEmpty: Bool { group.members.isEmpty }

    /// Begins with the one that passed the rule first.
    ///
    /// - Complexity: O(*k*) for *k* events.
    public func makeIterator() -> Array<FluxInFlight<Event>>.Iterator {
        group.ids.compactMap { id in
            guard let entry = entries[id], let event = entry.event as? Event else { return nil }
            return FluxInFlight(id: id, event: event, isExecuting: entry.isExecuting)
        }.makeIterator()
    }
}

/// An event in flight as a ``FluxRuling`` sees it.
///
/// Thread safety: a value.
nonisolated public struct FluxInFlight<Event: Sendable>: Sendable {
    /// Names it in a ``FluxDecision``.
    public let id: UInt64
    /// The event that was fired.
    public let event: Event
    /// Whether its conversion has started, or waits for a ``FluxLimit``; false while a rule further on holds it back.
    public let isExecuting: Bool
}

/// What a ``FluxRuling`` answers.
///
/// Thread safety: a value.
nonisolated public enum FluxDecision: Sendable {
    /// The event goes on.
    case start
    /// The event is dropped.
    case drop
    /// The events of these ids are cancelled, and the event goes on once they have ended.
    case cancel([UInt64])
    /// The event goes on once those of these ids have ended; ids that are not in flight, its own too, do not count.
    case wait([UInt64])
}

/// A rule with the type of its events closed over, so that what applies rules is compiled once, for all types.
///
/// ``FluxRules`` lets no event of another type come to it: so the casts in its closures succeed.
nonisolated struct FluxRuleForm: Sendable {
    typealias Condition = @Sendable (_ dispatching: any FluxEvent, _ executing: any FluxEvent) -> Bool
    typealias Ruling = @Sendable (any FluxEvent, FluxRuleGroup, [UInt64: FluxRuleMachine.Entry]) -> FluxDecision

    enum Kind: Sendable {
        case unique(cancelsEarlier: Bool, Condition?)
        case sequence(Condition)
        case debounce(Swift.Duration)
        case throttle(Swift.Duration, latest: Bool)
        case concurrency(Int, waiting: Int?)
        case shared(FluxLimit)
        case retry(limit: Int, FluxBackoff)
        case custom(Ruling)

        /// At most so many at a time; of a limit that cannot be it stops with the name of what was given it.
        static func places(_ limit: Int, waiting: Int?, of name: String) -> Kind {
            if limit < 1 {
                fatalError("FluxCore: \(name): with a limit of \(limit) no event could ever run. Give it 1 or more.")
            }
            if let waiting, waiting < 0 {
                fatalError("FluxCore: \(name): \(waiting) events cannot wait. Give it 0 or more.")
            }
            return .concurrency(limit, waiting: waiting)
        }
    }

    let kind: Kind
    let key: @Sendable (any FluxEvent) -> (any Hashable & Sendable)?

    var isRetry: Bool { if case .retry = kind { true } else { false } }
    var isTimed: Bool { if case .debounce = kind { true } else if case .throttle = kind { true } else { false } }
    var limit: FluxLimit? { if case .shared(let limit) = kind { limit } else { nil } }
}
