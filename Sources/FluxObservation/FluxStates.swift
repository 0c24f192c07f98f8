#if canImport(FluxCore)
    import FluxCore
#endif

/// The states of a source, or a part of them, one after the other.
///
/// ```swift
/// for await state in store.states { print(state) }
/// let totals = FluxView(cart, prices) { $0.total(at: $1) }.states
/// for await total in totals { print(total) }
/// ```
///
/// Any number of iterators may be made, each of which starts anew; a slow one delays nobody. It keeps its source. An
/// iterator ends at once when its task is cancelled.
///
/// Thread safety: may be used from any thread; an iterator belongs to one task.
nonisolated public struct FluxStates<Element: Sendable, Failure: Swift.Error>: AsyncSequence, Sendable {
    let start: @Sendable () -> Iterator

    /// Starts watching.
    public func makeAsyncIterator() -> Iterator {
        FluxPureCode.forbid("makeAsyncIterator() of states")
        return start()
    }

    /// Takes one state after the other.
    ///
    /// Thread safety: belongs to one task.
    public struct Iterator: AsyncIteratorProtocol {
        @usableFromInline let feed: FluxStatesFeed<Element>
        /// That of the newest state that it has read from the source.
        @usableFromInline var revision: UInt64?

        init(_ feed: FluxStatesFeed<Element>) { self.feed = feed }

        /// How many changes it was not handed because there was no room for them, until it ended.
        public var dropped: Int {
            feed.channel?.dropped ?? 0
        }

        /// Waits for the next state.
        ///
        /// - Parameter actor: The actor to come back to.
        /// - Returns: The next state; nil once the source has ended or the task is cancelled.
        /// - Throws: ``FluxOverflow``, from a sequence that was to miss nothing and that had no room for more.
        @inlinable
        public mutating func next(
            isolation actor: isolated (any _Concurrency.Actor)? = #isolation
        ) async throws(Failure) -> Element? {
            // An optimising compiler may let go of what is not used any more.
            defer { withExtendedLifetime(feed) {} }
            guard let signal = feed.signal else { return try await nextOfChannel(isolation: actor) }
            while await signal.due.isDue(isolation: actor) {
                // Nil: what it was told of was read already, together with the one before, or is as good as the last.
                if let state = signal.newest.after(&revision) { return state }
            }
            return nil
        }

        /// Takes the next of what waits.
        ///
        /// A function of its own: where nothing is known of the element, each type that one names is asked for at its start.
        @usableFromInline func nextOfChannel(
            isolation actor: isolated (any _Concurrency.Actor)?
        ) async throws(Failure) -> Element? {
            while let channel = feed.channel {
                switch await channel.next(isolation: actor) {
                case .element(let element): if feed.distinct?.isChange(to: element) != false { return element }
                case .end(let error): if let error = error as? Failure { throw error } else { return nil }
                }
            }
            return nil
        }
    }
}

/// What one iterator takes its states from: in an object, so that each wake counts one reference.
@usableFromInline
nonisolated final class FluxStatesFeed<Element: Sendable>: Sendable {
    // One of these two is there. An enum of both would be asked for its types at each wake.
    /// Where what it takes waits; nil: it reads the newest of the source.
    let channel: FluxChannel<Element>?
    /// Tells that there is something new, to be read from the source: a slow iterator keeps no state.
    @usableFromInline let signal: (due: FluxSignal, newest: FluxNewest<Element>.Reader)?
    private let subscription: FluxSubscription
    /// Leaves out what is as good as the last, with no lock held, as comparing is the user's; nil: gives all.
    let distinct: FluxDistinct<Element>?
    /// Kept while it is iterated.
    private let source: any Sendable

    init(
        channel: FluxChannel<Element>?, signal: (due: FluxSignal, newest: FluxNewest<Element>.Reader)?,
        subscription: FluxSubscription, distinct: FluxDistinct<Element>?, source: any Sendable
    ) {
        (self.channel, self.signal, self.subscription) = (channel, signal, subscription)
        (self.distinct, self.source) = (distinct, source)
    }
}

@available(*, unavailable)
nonisolated extension FluxStates.Iterator: Sendable {}

/// Makes what reads the newest state of a source, for each iterator one of its own.
@usableFromInline
nonisolated struct FluxNewest<State: Sendable>: Sendable {
    /// Reads the newest state, unless it is that of the revision; its own goes there.
    @usableFromInline
    struct Reader: Sendable {
        @usableFromInline let after: @Sendable (inout UInt64?) -> State?

        @usableFromInline init(after: @escaping @Sendable (inout UInt64?) -> State?) { self.after = after }
    }

    @usableFromInline let reader: @Sendable () -> Reader

    @usableFromInline init(reader: @escaping @Sendable () -> Reader) { self.reader = reader }
}

nonisolated extension FluxSource {
    /// The newest state, again and again: each iterator starts with the current one and never goes back.
    ///
    /// An iterator that is slow skips states and keeps none; it always ends on the newest (C5). That of a view keeps the
    /// value that it gave last, and gives none while what was announced last is as good as that.
    @inlinable public var states: FluxStates<State, Never> { states(.latest) }

    /// The states of the source by a delivery of your choice.
    ///
    /// - Parameters:
    ///   - delivery: What an iterator gets where changes come faster than it takes them.
    ///   - startingWithCurrent: True for each iterator to start with the current state.
    /// - Returns: A sequence that starts anew for each iterator.
    @inlinable
    public func states(_ delivery: FluxDelivery = .latest, startingWithCurrent: Bool = true) -> FluxStates<State, Never>
    {
        // By a type of its own, as where a receiver joins a source: to read the newest takes a third of the time so.
        func newest<Own: FluxObservableSource>(_ source: Own) -> FluxNewest<State>? {
            source.newest as? FluxNewest<State>
        }
        if delivery == .latest, let source = self as? any FluxObservableSource, let newest = newest(source) {
            return states(of: source, reading: newest, startingWithCurrent)
        }
        return states(FluxBuffered.of(delivery), startingWithCurrent: startingWithCurrent)
    }

    @usableFromInline
    func states(
        of source: any FluxObservableSource, reading newest: FluxNewest<State>, _ startingWithCurrent: Bool
    ) -> FluxStates<State, Never> {
        FluxStates {
            let signal = FluxSignal()
            // Without an end: the iterator keeps its source.
            let token = source.signal(startingWithCurrent: startingWithCurrent) { signal.tell() }
            return FluxStates<State, Never>.Iterator(
                FluxStatesFeed(
                    channel: nil, signal: (signal, newest.reader()), subscription: token, distinct: nil,
                    source: self))
        }
    }

    /// The states of the source, of which only so many may wait for an iterator.
    ///
    /// - Parameters:
    ///   - delivery: How many may wait, and what goes where one more comes; the iterator counts what went as `dropped`.
    ///   - startingWithCurrent: True for each iterator to start with the current state.
    /// - Returns: A sequence that starts anew for each iterator.
    public func states(_ delivery: FluxBuffered, startingWithCurrent: Bool = true) -> FluxStates<State, Never> {
        sequence(of: { $0 }, by: nil, again: difference, delivery.rule, startingWithCurrent)
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
        sequence(of: { $0 }, by: nil, again: nil, .failing(FluxBuffered.checked(limit)), startingWithCurrent)
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
        values(of: select, by: isSame, FluxBuffered.of(delivery), startingWithCurrent: startingWithCurrent)
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
        sequence(of: select, by: isSame, again: isSame, delivery.rule, startingWithCurrent)
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

    /// What is selected of the states, by a function that tells whether two are as good as equal only what differs.
    ///
    /// Where some are skipped, those that are left are compared again.
    private func sequence<Element, Failure>(
        of select: @escaping @Sendable (State) -> Element,
        by isSame: (@Sendable (Element, Element) -> Bool)?, again difference: (@Sendable (Element, Element) -> Bool)?,
        _ rule: FluxBuffered.Rule, _ startingWithCurrent: Bool
    ) -> FluxStates<Element, Failure> {
        FluxStates {
            let channel = FluxChannel<Element>(rule)
            let announced = FluxDistinct(by: isSame, isAlone: self is any FluxObservableSource)
            let given = FluxDistinct(by: rule == .every ? nil : difference)
            let receiver = FluxReceiver<State>(channel) { state, isWanted in
                guard let (old, new) = announced.change(to: select(state)) else { return nil }
                if isWanted { return channel.put(new, forgetting: old) }
                // What the first that is given is compared with.
                _ = given.change(to: new)
                return nil
            }
            let token: FluxSubscription
            if rule == .latest {
                // The first that is handed over may be one after the first change: so what that is compared with is read here.
                if !startingWithCurrent { _ = receiver.put(state, false) }
                token = subscribe(
                    .latest, on: relay, startingWithCurrent: startingWithCurrent || isSame != nil,
                    ended: { channel.end() }, { receiver.put($0, true)?.settle() })
            } else if isSame != nil || rule != .every {
                token = self.connect(receiver, startingWithCurrent: startingWithCurrent)
            } else {
                token = follow(receiver, startingWithCurrent: startingWithCurrent)
            }
            return FluxStates<Element, Failure>.Iterator(
                FluxStatesFeed(channel: channel, signal: nil, subscription: token, distinct: given, source: self))
        }
    }
}
