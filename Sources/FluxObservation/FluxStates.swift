#if canImport(FluxCore)
    import FluxCore
#endif

/// An asynchronous sequence of the states of a source, or of a part of these.
///
/// ```swift
/// for await state in store.states { print(state) }
/// let totals = FluxView(cart, prices) { $0.total(at: $1) }.states
/// for await total in totals { print(total) }
/// ```
///
/// You can create any number of iterators. Each starts afresh, and a slow one delays nothing else. The sequence keeps
/// its source alive. An iterator ends immediately when its task is cancelled.
///
/// Thread safety: may be used from any thread; an iterator belongs to one task.
nonisolated public struct FluxStates<Element: Sendable, Failure: Swift.Error>: AsyncSequence, Sendable {
    let start: @Sendable () -> Iterator

    /// Starts watching.
    public func makeAsyncIterator() -> Iterator {
        FluxPureCode.forbid("makeAsyncIterator() of states")
        return start()
    }

    /// Returns one state after another.
    ///
    /// Thread safety: belongs to one task.
    public struct Iterator: AsyncIteratorProtocol {
        @usableFromInline let feed: FluxStatesFeed<Element>
        /// The revision of the newest state that the iterator has read from the source.
        @usableFromInline var revision: UInt64?

        init(_ feed: FluxStatesFeed<Element>) { self.feed = feed }

        /// The number of changes dropped for lack of room until the iterator ended.
        public var dropped: Int {
            feed.channel?.dropped ?? 0
        }

        /// Waits for the next state.
        ///
        /// - Parameter actor: The actor to resume on.
        /// - Returns: The next state; nil once the source has ended or the task is cancelled.
        /// - Throws: ``FluxOverflow`` if the sequence must not miss a state and there was no room for more.
        @inlinable
        public mutating func next(
            isolation actor: isolated (any _Concurrency.Actor)? = #isolation
        ) async throws(Failure) -> Element? {
            // Otherwise an optimising compiler may release `feed` after its last use, and end the subscription.
            defer { withExtendedLifetime(feed) {} }
            guard let signal = feed.signal else { return try await nextOfChannel(isolation: actor) }
            while await signal.due.isDue() {
                // Nil if the signalled state was already read together with the one before, or
                // counts as equal to the last one.
                if let state = signal.newest.after(&revision) { return state }
            }
            return nil
        }

        /// Takes the next waiting element.
        ///
        /// A separate function: in unspecialised code, a function looks up the metadata of every
        /// type it names when it starts.
        @usableFromInline func nextOfChannel(
            isolation actor: isolated (any _Concurrency.Actor)?
        ) async throws(Failure) -> Element? {
            while let channel = feed.channel {
                switch await channel.next() {
                case .element(let element): if feed.distinct?.isChange(to: element) != false { return element }
                case .end(let error): if let error = error as? Failure { throw error } else { return nil }
                }
            }
            return nil
        }
    }
}

/// Where one iterator takes its states from; an object, so that each wake retains a single reference.
@usableFromInline
nonisolated final class FluxStatesFeed<Element: Sendable>: Sendable {
    // Exactly one of these two is not nil. An enum of both would look up its type metadata at each wake.
    /// Holds the waiting elements; nil if the iterator reads the newest state from the source.
    let channel: FluxChannel<Element>?
    /// Signals that the source has a newer state to read; a slow iterator therefore keeps no state.
    @usableFromInline let signal: (due: FluxSignal, newest: FluxNewest<Element>.Reader)?
    private let subscription: FluxSubscription
    /// Leaves out an element that counts as equal to the last one, with no lock held, because comparing
    /// is user code; nil yields all.
    let distinct: FluxDistinct<Element>?
    /// Kept alive during iteration.
    private let source: any Sendable

    init(
        channel: FluxChannel<Element>? = nil, signal: (due: FluxSignal, newest: FluxNewest<Element>.Reader)? = nil,
        subscription: FluxSubscription, distinct: FluxDistinct<Element>? = nil, source: any Sendable
    ) {
        (self.channel, self.signal, self.subscription) = (channel, signal, subscription)
        (self.distinct, self.source) = (distinct, source)
    }
}

@available(*, unavailable)
nonisolated extension FluxStates.Iterator: Sendable {}

/// Creates the readers of the newest state of a source, one for each iterator.
@usableFromInline
nonisolated struct FluxNewest<State: Sendable>: Sendable {
    /// Reads the newest state unless it has the given revision; updates that revision.
    @usableFromInline
    struct Reader: Sendable {
        @usableFromInline let after: @Sendable (inout UInt64?) -> State?

        @usableFromInline init(after: @escaping @Sendable (inout UInt64?) -> State?) { self.after = after }
    }

    @usableFromInline let reader: @Sendable () -> Reader

    @usableFromInline init(reader: @escaping @Sendable () -> Reader) { self.reader = reader }
}

nonisolated extension FluxSource {
    /// The newest state, repeatedly: each iterator starts with the current state and never goes back.
    ///
    /// A slow iterator skips states and keeps none; it always ends on the newest (C5). An iterator of a view keeps the
    /// value it returned last, and waits as long as the value announced last counts as equal to that one.
    @inlinable public var states: FluxStates<State, Never> { states(.latest) }

    /// Returns the states of the source with the delivery of your choice.
    ///
    /// - Parameters:
    ///   - delivery: Which changes an iterator returns when they arrive faster than it takes them.
    ///   - startingWithCurrent: True if each iterator starts with the current state.
    /// - Returns: A sequence that starts afresh for each iterator.
    @inlinable
    public func states(_ delivery: FluxDelivery = .latest, startingWithCurrent: Bool = true) -> FluxStates<State, Never>
    {
        // A generic function over the source's own type, as in `connect`: reading the newest
        // state takes a third of the time.
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
            // No end is signalled, because the iterator keeps its source alive.
            let token = source.signal(startingWithCurrent: startingWithCurrent) { signal.tell() }
            return FluxStates<State, Never>.Iterator(
                FluxStatesFeed(signal: (signal, newest.reader()), subscription: token, source: self))
        }
    }

    /// Returns the states of the source, with a limit on how many may wait for an iterator.
    ///
    /// - Parameters:
    ///   - delivery: How many may wait, and which one is dropped if one too many arrives; the
    ///     iterator counts the dropped ones as `dropped`.
    ///   - startingWithCurrent: True if each iterator starts with the current state.
    /// - Returns: A sequence that starts afresh for each iterator.
    public func states(_ delivery: FluxBuffered, startingWithCurrent: Bool = true) -> FluxStates<State, Never> {
        sequence(of: { $0 }, by: nil, again: difference, delivery.rule, startingWithCurrent)
    }

    /// Returns a sequence of all states of the source; an iterator ends with an error rather than miss one.
    ///
    /// - Parameters:
    ///   - limit: How many changes may wait for an iterator; at least 1.
    ///   - startingWithCurrent: True if each iterator starts with the current state.
    /// - Returns: A sequence that starts afresh for each iterator, and throws ``FluxOverflow``.
    public func states(
        failingAfter limit: Int, startingWithCurrent: Bool = true
    ) -> FluxStates<State, FluxOverflow> {
        sequence(of: { $0 }, by: nil, again: nil, .failing(FluxBuffered.checked(limit)), startingWithCurrent)
    }

    /// Returns a sequence of the values of a part of the state: one each time that part has changed.
    ///
    /// An iterator never returns a part that counts as equal to the one it returned last,
    /// whatever it skipped in between.
    ///
    /// - Parameters:
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - delivery: Which changes an iterator returns when they arrive faster than it takes them.
    ///   - startingWithCurrent: True if each iterator starts with the current part.
    /// - Returns: A sequence that starts afresh for each iterator.
    public func values<Value: Equatable & Sendable>(
        of select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxDelivery = .latest,
        startingWithCurrent: Bool = true
    ) -> FluxStates<Value, Never> {
        values(of: select, by: { $0 == $1 }, delivery, startingWithCurrent: startingWithCurrent)
    }

    /// Returns a sequence of the values of a part that is not Equatable: one each time your function says it has
    /// changed.
    ///
    /// An iterator never returns a part that counts as equal to the one it returned last,
    /// whatever it skipped in between.
    ///
    /// - Parameters:
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - isSame: Returns whether two parts count as equal; must be as pure as `select`.
    ///   - delivery: Which changes an iterator returns when they arrive faster than it takes them.
    ///   - startingWithCurrent: True if each iterator starts with the current part.
    /// - Returns: A sequence that starts afresh for each iterator.
    public func values<Value: Sendable>(
        of select: @escaping @Sendable (State) -> Value,
        by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ delivery: FluxDelivery = .latest,
        startingWithCurrent: Bool = true
    ) -> FluxStates<Value, Never> {
        values(of: select, by: isSame, FluxBuffered.of(delivery), startingWithCurrent: startingWithCurrent)
    }

    /// Returns a sequence of the values of a part, one each time your function says it has changed, with a limit on how
    /// many may wait.
    ///
    /// - Parameters:
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - isSame: Returns whether two parts count as equal; must be as pure as `select`.
    ///   - delivery: How many may wait, and which one is dropped if one too many arrives; the
    ///     iterator counts the dropped ones as `dropped`.
    ///   - startingWithCurrent: True if each iterator starts with the current part.
    /// - Returns: A sequence that starts afresh for each iterator.
    public func values<Value: Sendable>(
        of select: @escaping @Sendable (State) -> Value,
        by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ delivery: FluxBuffered,
        startingWithCurrent: Bool = true
    ) -> FluxStates<Value, Never> {
        sequence(of: select, by: isSame, again: isSame, delivery.rule, startingWithCurrent)
    }

    /// Returns a sequence of the values of a part, one each time it has changed, with a limit on how many may wait.
    ///
    /// - Parameters:
    ///   - select: A key path or closure that selects the part. It must be fast, and as pure as `handle(action:)`.
    ///   - delivery: How many may wait, and which one is dropped if one too many arrives; the
    ///     iterator counts the dropped ones as `dropped`.
    ///   - startingWithCurrent: True if each iterator starts with the current part.
    /// - Returns: A sequence that starts afresh for each iterator.
    public func values<Value: Equatable & Sendable>(
        of select: @escaping @Sendable (State) -> Value,
        _ delivery: FluxBuffered,
        startingWithCurrent: Bool = true
    ) -> FluxStates<Value, Never> {
        values(of: select, by: { $0 == $1 }, delivery, startingWithCurrent: startingWithCurrent)
    }

    /// Returns what is selected from the states; with an `isSame`, only the values that differ from the one before.
    ///
    /// If some values are skipped, the remaining ones are compared again, by `difference`.
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
                // The first element that the iterator returns is compared with this one.
                _ = given.change(to: new)
                return nil
            }
            let token: FluxSubscription
            if rule == .latest {
                // The first state delivered may already follow the first change, so the state to
                // compare it with is read here.
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
                FluxStatesFeed(channel: channel, subscription: token, distinct: given, source: self))
        }
    }
}
