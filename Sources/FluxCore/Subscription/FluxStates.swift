/// The states of a source, or a part of them, one after the other.
///
/// ```swift
/// for await state in store.states { print(state) }
/// ```
///
/// Any number of iterators may be made, each of which starts anew; a slow one delays nobody. An iterator ends at once
/// when its task is cancelled, and after what is due when the source is let go: the sequence does not keep it.
///
/// Thread safety: may be used from any thread; an iterator belongs to one task.
nonisolated public struct FluxStates<Element: Sendable, Failure: Error>: AsyncSequence, Sendable {
    /// Where an iterator takes from.
    enum Intake: Sendable {
        case queue(FluxChannel<Element>)
        /// Tells that there is something new, to be read from the source: that is of no type of the client's, so that
        /// the compiler specialises it.
        case newest(FluxChannel<Void>, any FluxFeeding<Element>)
    }

    /// What an iterator starts with.
    struct Start: Sendable {
        let intake: Intake
        let subscription: FluxSubscription
        /// What of the intake the iterator gives.
        var distinct = FluxDistinct<Element>(by: nil)
    }

    let start: @Sendable () -> Start

    init(start: @escaping @Sendable () -> Start) {
        self.start = start
    }

    /// Starts watching.
    public func makeAsyncIterator() -> Iterator {
        Iterator(start())
    }

    /// Takes one state after the other.
    ///
    /// Thread safety: belongs to one task.
    public struct Iterator: AsyncIteratorProtocol {
        private let intake: Intake
        private let subscription: FluxSubscription
        /// Compares with what was given last, outside the lock of the channel: comparing is the user's.
        private var distinct: FluxDistinct<Element>
        private var stamp: UInt64?

        init(_ start: Start) {
            (intake, subscription, distinct) = (start.intake, start.subscription, start.distinct)
        }

        /// How many changes it was not handed because there was no room for them.
        public var dropped: Int {
            guard case .queue(let channel) = intake else { return 0 }
            return channel.dropped + subscription.dropped
        }

        /// Waits for the next state.
        ///
        /// - Parameter actor: The actor to come back to.
        /// - Returns: The next state; nil once the source is gone or the task is cancelled.
        /// - Throws: ``FluxOverflow``, from a sequence that was to miss nothing and that had no room for more.
        public mutating func next(
            isolation actor: isolated (any Actor)? = #isolation
        ) async throws(Failure) -> Element? {
            let channel: FluxChannel<Element>
            switch intake {
            case .queue(let queue): channel = queue
            case .newest(let signal, let origin):
                while case .element = await signal.next(isolation: actor) {
                    var newest: UInt64 = 0
                    let state = origin.state(&newest)
                    // Told of a change that was read already, together with the one before.
                    if newest == stamp { continue }
                    stamp = newest
                    if distinct.passes(state) { return state }
                }
                return nil
            }
            while true {
                switch await channel.next(isolation: actor) {
                case .element(let element?): if distinct.passes(element) { return element }
                case .element(nil), .empty, .end(nil): return nil
                case .end(let error?):
                    if let error = error as? Failure { throw error }
                    return nil
                }
            }
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
        guard case .latest = delivery.kind else {
            return sequence(delivery, startingWithCurrent: startingWithCurrent) { $1.push($0) }
        }
        let origin = feed.origin
        return FluxStates {
            let signal = FluxChannel<Void>(.latest)
            let input = FluxChannel.Input(signal)
            let wish = FluxWish(.latest, on: origin.relay, startingWithCurrent: false)
            let subscriber = origin.enroll(wish) { _ in input.push(()) }
            if startingWithCurrent { signal.push(()) }
            return FluxStates.Start(
                intake: .newest(signal, origin), subscription: FluxSubscription(subscriber),
                distinct: FluxDistinct(by: origin.difference))
        }
    }

    /// Every state of the source; an iterator ends with an error rather than miss one.
    ///
    /// - Parameters:
    ///   - limit: How many changes may wait for an iterator, 1 at least.
    ///   - startingWithCurrent: True for each iterator to start with the current state.
    /// - Returns: A sequence that starts anew for each iterator, and throws ``FluxOverflow`` after what waits.
    public func states(
        failingAfter limit: Int, startingWithCurrent: Bool = true
    ) -> FluxStates<State, FluxOverflow> {
        let origin = feed.origin
        return FluxStates {
            let channel = FluxChannel<State>(.every, failingAfter: limit)
            let input = FluxChannel.Input(channel)
            let bound = FluxBound(.failing { input.fail($0) }, limit: limit)
            let wish = FluxWish(
                .every, on: origin.relay, startingWithCurrent: startingWithCurrent, bound: bound)
            let subscriber = origin.enroll(wish) { input.push($0) }
            return FluxStates.Start(
                intake: .queue(channel), subscription: FluxSubscription(subscriber, keeping: bound.drops))
        }
    }

    /// A part of the state, whenever that part has changed.
    ///
    /// An iterator gives no part that is as good as the one it gave last, whatever it has skipped between the two.
    ///
    /// - Parameters:
    ///   - select: The part, as a key path or a closure; called at most once per change and iterator, on a queue of the
    ///     source.
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
    ///   - select: The part, as a key path or a closure; called at most once per change and iterator, on a queue of the
    ///     source.
    ///   - isSame: Whether two parts are as good as equal.
    ///   - delivery: What an iterator gets where changes come faster than it takes them.
    ///   - startingWithCurrent: True for each iterator to start with the current part.
    /// - Returns: A sequence that starts anew for each iterator.
    public func values<Value: Sendable>(
        of select: @escaping @Sendable (State) -> Value,
        by isSame: @escaping @Sendable (Value, Value) -> Bool,
        _ delivery: FluxDelivery = .latest,
        startingWithCurrent: Bool = true
    ) -> FluxStates<Value, Never> {
        // What may wait in the store is not bounded by how many parts may wait for the iterator: most are dropped.
        let upstream: FluxDelivery = if case .latest = delivery.kind { .latest } else { .every }
        let feed = feed
        return FluxStates {
            let channel = FluxChannel<Value>(delivery.kind)
            let input = FluxChannel.Input(channel)
            let known = startingWithCurrent ? nil : feed.partBeforeStart(upstream, select)
            let last = FluxLast(known)
            let wish = FluxWish(upstream, on: feed.origin.relay, startingWithCurrent: known == nil)
            let subscriber = feed.origin.enroll(wish) { state in
                let new = select(state)
                if let old = last.value, isSame(old, new) { return }
                let isFirst = last.value == nil
                last.value = new
                if !isFirst || startingWithCurrent { input.push(new) }
            }
            return FluxStates.Start(
                intake: .queue(channel), subscription: FluxSubscription(subscriber),
                distinct: FluxDistinct(by: delivery.skips ? isSame : nil, after: known))
        }
    }

    private func sequence(
        _ delivery: FluxDelivery, startingWithCurrent: Bool,
        _ push: @escaping @Sendable (State, FluxChannel<State>.Input) -> Void
    ) -> FluxStates<State, Never> {
        let origin = feed.origin
        return FluxStates {
            let channel = FluxChannel<State>(delivery.kind)
            let input = FluxChannel.Input(channel)
            let wish = FluxWish(delivery, on: origin.relay, startingWithCurrent: startingWithCurrent)
            let subscriber = origin.enroll(wish) { push($0, input) }
            return FluxStates.Start(
                intake: .queue(channel), subscription: FluxSubscription(subscriber, keeping: wish.bound?.drops),
                distinct: FluxDistinct(by: delivery.skips ? origin.difference : nil))
        }
    }
}
