#if canImport(FluxCore)
    import FluxCore
#endif

/// The states of a source, or a part of them, one after the other.
///
/// ```swift
/// for await state in store.states { print(state) }
/// for await total in FluxView(cart, prices) { $0.total(at: $1) }.states { print(total) }
/// ```
///
/// Any number of iterators may be made, each of which starts anew; a slow one delays nobody. It keeps its source. An
/// iterator ends at once when its task is cancelled.
///
/// Thread safety: may be used from any thread; an iterator belongs to one task.
nonisolated public struct FluxStates<Element: Sendable, Failure: Error>: AsyncSequence, Sendable {
    /// Where an iterator takes from.
    enum Intake: Sendable {
        case queue(FluxChannel<Element>)
        /// Tells that there is something new, to be read from the source: a slow iterator keeps no state.
        case newest(FluxChannel<Void>, any FluxTappable<Element>)
    }

    /// What an iterator starts with.
    struct Start: Sendable {
        let intake: Intake
        let subscription: FluxSubscription
        /// What of the intake the iterator gives, compared outside the lock of the channel: comparing is the user's.
        let distinct: FluxDistinct<Element>
        /// Kept while it is iterated.
        let source: any Sendable
    }

    let start: @Sendable () -> Start

    /// Starts watching.
    public func makeAsyncIterator() -> Iterator {
        Iterator(start: start())
    }

    /// Takes one state after the other.
    ///
    /// Thread safety: belongs to one task.
    public struct Iterator: AsyncIteratorProtocol {
        let start: Start
        private var revision: UInt64?

        init(start: Start) {
            self.start = start
        }

        /// How many changes it was not handed because there was no room for them.
        public var dropped: Int {
            if case .queue(let channel) = start.intake { channel.dropped } else { 0 }
        }

        /// Waits for the next state.
        ///
        /// - Parameter actor: The actor to come back to.
        /// - Returns: The next state; nil once the source has ended or the task is cancelled.
        /// - Throws: ``FluxOverflow``, from a sequence that was to miss nothing and that had no room for more.
        public mutating func next(
            isolation actor: isolated (any _Concurrency.Actor)? = #isolation
        ) async throws(Failure) -> Element? {
            switch start.intake {
            case .newest(let signal, let source):
                while case .element = await signal.next(isolation: actor) {
                    let (state, newest) = source.numbered
                    // Told of a change that was read already, together with the one before.
                    if newest == revision { continue }
                    revision = newest
                    if start.distinct.change(to: state) != nil { return state }
                }
            case .queue(let channel):
                while true {
                    switch await channel.next(isolation: actor) {
                    case .element(let element): if start.distinct.change(to: element) != nil { return element }
                    case .end(let error):
                        if let error = error as? Failure { throw error }
                        return nil
                    case .empty: return nil
                    }
                }
            }
            return nil
        }
    }
}

@available(*, unavailable)
nonisolated extension FluxStates.Iterator: Sendable {}

nonisolated extension FluxSource {
    /// The newest state, again and again: each iterator starts with the current one and never goes back.
    ///
    /// An iterator that is slow skips states and keeps none; it always ends on the newest (C5). That of a view keeps the
    /// value that it gave last, and gives no value that is as good as that.
    public var states: FluxStates<State, Never> { states(.latest) }

    /// The states of the source by a delivery of your choice.
    ///
    /// - Parameters:
    ///   - delivery: What an iterator gets where changes come faster than it takes them.
    ///   - startingWithCurrent: True for each iterator to start with the current state.
    /// - Returns: A sequence that starts anew for each iterator.
    public func states(_ delivery: FluxDelivery, startingWithCurrent: Bool = true) -> FluxStates<State, Never> {
        guard delivery == .latest, let source = self as? any FluxTappable<State> else {
            return states(
                FluxBuffered(delivery == .latest ? .latest : .every), startingWithCurrent: startingWithCurrent)
        }
        return FluxStates {
            let signal = FluxChannel<Void>(.latest)
            let input = signal.input()
            let options = FluxSubscriptionOptions(.latest, on: source.relay)
            let token = source.subscribe(options, ended: nil) { _ in input.push(()) }
            if startingWithCurrent { signal.push(()) }
            return FluxStates.Start(
                intake: .newest(signal, source), subscription: token, distinct: FluxDistinct(by: source.difference),
                source: source)
        }
    }

    /// The states of the source, of which only so many may wait for an iterator.
    ///
    /// - Parameters:
    ///   - delivery: How many may wait, and what goes where one more comes; the iterator counts what went as `dropped`.
    ///   - startingWithCurrent: True for each iterator to start with the current state.
    /// - Returns: A sequence that starts anew for each iterator.
    public func states(_ delivery: FluxBuffered, startingWithCurrent: Bool = true) -> FluxStates<State, Never> {
        sequence(delivery.rule, startingWithCurrent: startingWithCurrent)
    }

    /// Every state of the source; an iterator ends with an error rather than miss one.
    ///
    /// - Parameters:
    ///   - limit: How many changes may wait for an iterator, 1 at least.
    ///   - startingWithCurrent: True for each iterator to start with the current state.
    /// - Returns: A sequence that starts anew for each iterator, and throws ``FluxOverflow``.
    public func states(
        failingAfter limit: Int, startingWithCurrent: Bool = true
    ) -> FluxStates<State, FluxOverflow> {
        sequence(.failing(FluxBuffered.checked(limit)), startingWithCurrent: startingWithCurrent)
    }

    /// A part of the state, whenever that part has changed.
    ///
    /// An iterator gives no part that is as good as the one it gave last, whatever it has skipped between the two.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - delivery: What an iterator gets where changes come faster than it takes them.
    ///   - startingWithCurrent: True for each iterator to start with the current part.
    /// - Returns: A sequence that starts anew for each iterator.
    public func values<Value: Equatable & Sendable>(
        of select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxDelivery = .latest,
        startingWithCurrent: Bool = true
    ) -> FluxStates<Value, Never> {
        values(of: select, by: { $0 == $1 }, delivery, startingWithCurrent: startingWithCurrent)
    }

    /// A part of the state that is not Equatable, whenever that part is another.
    ///
    /// An iterator gives no part that is as good as the one it gave last, whatever it has skipped between the two.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - isSame: Whether two parts are as good as equal; as pure.
    ///   - delivery: What an iterator gets where changes come faster than it takes them.
    ///   - startingWithCurrent: True for each iterator to start with the current part.
    /// - Returns: A sequence that starts anew for each iterator.
    public func values<Value: Sendable>(
        of select: @escaping @Sendable (State) -> Value,
        by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ delivery: FluxDelivery = .latest,
        startingWithCurrent: Bool = true
    ) -> FluxStates<Value, Never> {
        values(
            of: select, by: isSame, FluxBuffered(delivery == .latest ? .latest : .every),
            startingWithCurrent: startingWithCurrent)
    }

    /// A part of the state, whenever that part is another, of which only so many may wait for an iterator.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - isSame: Whether two parts are as good as equal; as pure.
    ///   - delivery: How many may wait, and what goes where one more comes; the iterator counts what went as `dropped`.
    ///   - startingWithCurrent: True for each iterator to start with the current part.
    /// - Returns: A sequence that starts anew for each iterator.
    public func values<Value: Sendable>(
        of select: @escaping @Sendable (State) -> Value,
        by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ delivery: FluxBuffered,
        startingWithCurrent: Bool = true
    ) -> FluxStates<Value, Never> {
        FluxStates {
            let channel = FluxChannel<Value>(delivery.rule)
            let input = channel.input()
            // Where some are skipped, they are compared again: the first with that at the start, if that is not given.
            let skips = delivery.rule != .every
            let known = skips && !startingWithCurrent ? select(state) : nil
            let token = watch(
                select, by: isSame, delivery.rule == .latest ? .latest : .every,
                on: (self as? any FluxTappable<State>)?.relay ?? fluxRelay(), startingWithCurrent: startingWithCurrent
            ) { input.push($0.new) }
            return FluxStates<Value, Never>.Start(
                intake: .queue(channel), subscription: token,
                distinct: FluxDistinct(by: skips ? isSame : nil, after: known), source: self)
        }
    }

    /// A part of the state, whenever that part has changed, of which only so many may wait for an iterator.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure: quick, and as pure as `handle(action:)`.
    ///   - delivery: How many may wait, and what goes where one more comes; the iterator counts what went as `dropped`.
    ///   - startingWithCurrent: True for each iterator to start with the current part.
    /// - Returns: A sequence that starts anew for each iterator.
    public func values<Value: Equatable & Sendable>(
        of select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxBuffered,
        startingWithCurrent: Bool = true
    ) -> FluxStates<Value, Never> {
        values(of: select, by: { $0 == $1 }, delivery, startingWithCurrent: startingWithCurrent)
    }

    private func sequence<Failure>(
        _ rule: FluxBuffered.Rule, startingWithCurrent: Bool
    ) -> FluxStates<State, Failure> {
        FluxStates {
            let (channel, source) = (FluxChannel<State>(rule), self as? any FluxTappable<State>)
            let input = channel.input()
            let options = FluxSubscriptionOptions(
                .every, on: source?.relay ?? fluxRelay(), startingWithCurrent: startingWithCurrent)
            let token = subscribe(options, ended: nil) { input.push($0) }
            return FluxStates<State, Failure>.Start(
                intake: .queue(channel), subscription: token,
                distinct: FluxDistinct(by: rule == .every ? nil : source?.difference), source: self)
        }
    }
}
