#if canImport(FluxCore)
    import FluxCore
#endif

/// A policy for the events of a creator: which run at once, which wait, which replace others, which are retried.
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
/// Rules apply in their order: an event that one rule holds back has not reached the rules behind it. Events for which
/// a `key` returns the same value belong together; nil leaves an event out of the rule. Without a key, all events
/// belong together. Keys, conditions and custom rules must be pure: they may not fire or dispatch.
///
/// For rules over several types of event, `Event` is `any FluxEvent`. Creators share such rules through one
/// ``FluxRules``.
///
/// Thread safety: a value; its closures are called on any thread, while a lock is held.
nonisolated public struct FluxRule<Event: Sendable>: Sendable {
    /// Returns the key of an event: events with equal keys are one kind; nil means that the rule does not cover the
    /// event.
    ///
    /// Keys are compared as `AnyHashable` compares them: equal numbers of different types, such as `Int8(1)` and
    /// `UInt64(1)`, are one kind. A value that does not equal itself, such as a NaN, is a separate kind each time.
    public typealias Key = @Sendable (_ event: Event) -> (any Hashable & Sendable)?
    /// Returns whether a rule applies to a pair: the event that was fired, and one in flight with the same key.
    ///
    /// It may be called several times for the same pair, also later, and must return the same result each time.
    public typealias Condition = @Sendable (_ dispatching: Event, _ executing: Event) -> Bool

    /// Which of two events with the same key gives way.
    ///
    /// Thread safety: a value.
    public enum Side: Sendable {
        /// The event in flight is cancelled; the new one starts once no dispatch of the old one runs: the latest wins.
        case earlier
        /// The event that was fired is dropped: the first wins.
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

    /// Allows at most one event per key at a time.
    ///
    /// - Parameters:
    ///   - side: Whether to cancel the event in flight, or to drop the one that was fired.
    ///   - key: Which events belong together; by default all events of the creator.
    ///   - condition: Which pairs with the same key exclude each other; by default all.
    /// - Returns: The rule.
    public static func unique(
        cancelling side: Side,
        for key: @escaping Key = { _ in true },
        when condition: Condition? = nil
    ) -> FluxRule {
        FluxRule(.unique(cancelsEarlier: side == .earlier, ofAny(condition)), for: key)
    }

    /// Runs events of one key strictly one after the other, in the order fired, however each ends.
    ///
    /// - Parameters:
    ///   - key: Which events belong together, of one kind or of several; by default all events of the creator.
    ///   - condition: For which pairs with the same key the later event waits for the earlier one; by default all.
    /// - Returns: The rule.
    public static func sequence(
        for key: @escaping Key = { _ in true }, when condition: Condition? = nil
    ) -> FluxRule {
        FluxRule(ofAny(condition).map { .sequence($0) } ?? .concurrency(1, waiting: nil), for: key)
    }

    /// Lets an event proceed once no other event of its key was fired for a while; drops it if one is fired before.
    ///
    /// - Parameters:
    ///   - key: Which events belong together; by default all events of the creator.
    ///   - duration: How long no other event of the key may be fired.
    /// - Returns: The rule.
    public static func debounce(
        for key: @escaping Key = { _ in true }, _ duration: Swift.Duration
    ) -> FluxRule {
        fluxEffectsRequire(
            duration >= .zero, "FluxRule.debounce: a duration cannot be negative (\(duration)). Give .zero or more.")
        return FluxRule(.debounce(duration), for: key)
    }

    /// Lets one event per key and interval proceed: the first one at once; those that follow too soon are dropped.
    ///
    /// - Parameters:
    ///   - key: Which events belong together; by default all events of the creator.
    ///   - interval: How long after one event the next one may proceed.
    ///   - latest: True to keep the last event that came too soon, and let it proceed at the end of the interval.
    /// - Returns: The rule.
    public static func throttle(
        for key: @escaping Key = { _ in true }, _ interval: Swift.Duration, latest: Bool
    ) -> FluxRule {
        fluxEffectsRequire(
            interval >= .zero, "FluxRule.throttle: an interval cannot be negative (\(interval)). Give .zero or more.")
        return FluxRule(.throttle(interval, latest: latest), for: key)
    }

    /// Limits how many events of one key are in flight behind this rule; the others wait in order.
    ///
    /// - Parameters:
    ///   - key: Which events belong together; by default all events of the creator.
    ///   - limit: How many events may be in flight, at least 1.
    ///   - waiting: How many events may wait; further ones are dropped at once. Nil, the default, means any number.
    /// - Returns: The rule.
    public static func concurrency(
        for key: @escaping Key = { _ in true }, _ limit: Int, waiting: Int? = nil
    ) -> FluxRule {
        FluxRule(.places(limit, waiting: waiting, of: "FluxRule.concurrency"), for: key)
    }

    /// Limits how many events are in flight in all creators that were given the same limit; the others wait in order.
    ///
    /// It applies after all other rules of the list, wherever it stands.
    ///
    /// - Parameter limit: The limit that the creators share.
    /// - Returns: The rule.
    public static func concurrency(_ limit: FluxLimit) -> FluxRule { FluxRule(.shared(limit)) { _ in nil } }

    /// Retries a conversion that throws; for asynchronous converters.
    ///
    /// If several retry rules cover an event, the first one applies.
    ///
    /// - Parameters:
    ///   - key: Which events the rule covers: those whose key is not nil; by default all.
    ///   - limit: How often to retry after the first attempt; 0 for never.
    ///   - backoff: How long to wait before each further attempt.
    /// - Returns: The rule.
    public static func retry(
        for key: @escaping Key = { _ in true }, limit: Int, backoff: FluxBackoff = .none
    ) -> FluxRule {
        fluxEffectsRequire(limit >= 0, "FluxRule.retry: a limit cannot be negative (\(limit)). Give 0 or more.")
        return FluxRule(.retry(limit: limit, backoff), for: key)
    }

    /// Applies a custom rule.
    ///
    /// - Parameters:
    ///   - ruling: Decides on each event that the rule covers.
    ///   - key: Which events belong together; by default all. The ruling sees the events in flight with the same key.
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

    /// Returns the name of an enum event's case, without its payload, as a key; for other events the type.
    ///
    /// A case without a payload is identified by the description of the event and, if the event is `Hashable`, by its
    /// hash. An enum without any payload is `Hashable` by itself. If an enum is not `Hashable` and describes two such
    /// cases alike, both cases get the same key: give the rule your own key then, `{ event in switch event { … } }`.
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

/// A custom rule, for ``FluxRule/custom(_:for:)``.
///
/// Thread safety: called on any thread while a lock is held; one call at a time for all creators that share the rules.
nonisolated public protocol FluxRuling<Event>: Sendable {
    /// The type of the events that it decides on.
    associatedtype Event: Sendable

    /// Decides what happens to an event.
    ///
    /// Must be pure: it may not fire or dispatch.
    ///
    /// - Parameters:
    ///   - event: The event that has reached this rule.
    ///   - inFlight: The events that have passed this rule and have not ended, in the order in which they passed it.
    /// - Returns: The decision.
    func decide(on event: Event, inFlight: FluxInFlightEvents<Event>) -> FluxDecision
}

/// The events in flight that a ``FluxRuling`` may look at, in the order in which they passed it.
///
/// Thread safety: belongs to the call that it was given to.
nonisolated public struct FluxInFlightEvents<Event: Sendable>: Swift.Sequence {
    let group: FluxRuleGroup
    let entries: [UInt64: FluxRuleMachine.Entry]

    /// The number of events.
    ///
    /// - Complexity: O(1).
    public var count: Int { group.members.count }

    /// Whether there are no events.
    public var isEmpty: Bool { group.members.isEmpty }

    /// Returns an iterator that begins with the event that passed the rule first.
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
    /// Identifies the event in a ``FluxDecision``.
    public let id: UInt64
    /// The event that was fired.
    public let event: Event
    /// Whether it has passed all rules: its conversion runs, or waits for a ``FluxLimit`` or for another attempt.
    public let isExecuting: Bool
}

/// The decision of a ``FluxRuling`` on an event.
///
/// Thread safety: a value.
nonisolated public enum FluxDecision: Sendable {
    /// The event proceeds.
    case start
    /// The event is dropped.
    case drop
    /// The events with these ids are cancelled, and the event proceeds once they have ended; ids that are not in
    /// flight, and its own, are ignored.
    case cancel([UInt64])
    /// The event proceeds once those with these ids have ended; ids that are not in flight, and its own, are ignored.
    case wait([UInt64])
}

/// A rule with the type of its events erased, so that the code that applies rules is compiled once, for all types.
///
/// ``FluxRules`` passes it no event of another type, so the casts in its closures succeed.
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

        /// Returns a limited concurrency; stops the program with a message if a number is out of range.
        static func places(_ limit: Int, waiting: Int?, of name: String) -> Kind {
            fluxEffectsRequire(limit > 0, "\(name): with a limit of \(limit) no event could ever run. Give 1 or more.")
            fluxEffectsRequire(waiting ?? 0 >= 0, "\(name): \(waiting ?? 0) events cannot wait. Give 0 or more.")
            return .concurrency(limit, waiting: waiting)
        }
    }

    let kind: Kind
    let key: @Sendable (any FluxEvent) -> (any Hashable & Sendable)?

    var isRetry: Bool { if case .retry = kind { true } else { false } }
    var isTimed: Bool { if case .debounce = kind { true } else if case .throttle = kind { true } else { false } }
    var limit: FluxLimit? { if case .shared(let limit) = kind { limit } else { nil } }
}
