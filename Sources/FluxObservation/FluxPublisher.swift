#if canImport(FluxCore)
    import FluxCore
#endif
#if canImport(Combine)
    import Combine
#elseif FLUX_OPENCOMBINE
    // How the examples' tests compile and run this file where there is no Combine.
    import OpenCombine
#endif

#if canImport(Combine) || FLUX_OPENCOMBINE
    /// The states of a source for Combine: the current one first, then each that is announced.
    ///
    /// A subscriber gets each state that it has asked for; of those beyond, the newest is kept until it asks again. It finishes when
    /// the source is let go.
    ///
    /// Thread safety: may be used from any thread, and a subscriber is called by one at a time. Values come on a serial queue of the
    /// source; one that was kept until it was asked for comes on the thread that asks, and so do those that are announced meanwhile.
    nonisolated public struct FluxPublisher<Output: Sendable>: Publisher, Sendable {
        /// It cannot fail.
        public typealias Failure = Never

        fileprivate let source: any FluxSource<Output>

        /// Attaches a subscriber.
        ///
        /// - Parameter subscriber: Gets the states.
        public func receive<Downstream: Subscriber>(subscriber: Downstream)
        where Downstream.Input == Output, Downstream.Failure == Never {
            let demand = FluxDemand<Output>(fluxSent(AnySubscriber(subscriber)))
            subscriber.receive(subscription: demand)
            demand.hold(
                source.subscribe(
                    .every, on: nil, startingWithCurrent: true, ended: { demand.finish() }, { demand.offer($0) }))
        }
    }

    nonisolated extension FluxSource {
        /// The states of this source for Combine.
        public var publisher: FluxPublisher<State> {
            FluxPublisher(source: self)
        }
    }

    /// A Combine subscription: hands on as much as is asked for.
    nonisolated private final class FluxDemand<Input: Sendable>: Subscription, Sendable {
        typealias Downstream = AnySubscriber<Input, Never>

        private struct Account {
            var downstream: Downstream?
            var demand = Subscribers.Demand.none
            /// What is still to be handed on: as many as there is demand for, and the newest one beyond.
            var waiting: ArraySlice<Input?> = []
            var isHandingOn = false
            var isFinished = false
            var token: FluxSubscription?
        }

        private let account: FluxLock<Account>

        init(_ downstream: sending Downstream) { account = FluxLock(Account(downstream: downstream)) }

        func hold(_ token: FluxSubscription) {
            account.withLock { if $0.downstream != nil { $0.token = token } }
        }

        func offer(_ value: Input) {
            let replaced = account.withLock { account -> Input? in
                if account.downstream == nil { return value }
                let last = account.waiting.count > account.demand ? account.waiting.removeLast() : nil
                account.waiting.append(value)
                return last
            }
            withExtendedLifetime(replaced) {}
            handOn()
        }

        func request(_ demand: Subscribers.Demand) {
            account.withLock { $0.demand += demand }
            handOn()
        }

        func finish() {
            account.withLock { $0.isFinished = true }
            handOn()
        }

        func cancel() {
            // Let go of outside the lock: both are others' to release.
            let gone = account.withLock { account in
                defer { (account.downstream, account.token, account.waiting) = (nil, nil, []) }
                return (account.downstream, account.token, account.waiting)
            }
            withExtendedLifetime(gone) {}
        }

        /// Hands on what there is demand for; one thread at a time, whoever comes meanwhile leaves it to that one.
        private func handOn() {
            while true {
                let next = account.withLock { account -> (Downstream, Input?)? in
                    guard let downstream = account.downstream, !account.isHandingOn else { return nil }
                    if account.demand > .none, let first = account.waiting.indices.first {
                        // A slice keeps what was removed from it, to let go of that under the lock.
                        let value = Swift.exchange(&account.waiting[first], with: nil)
                        account.waiting.removeFirst()
                        account.isHandingOn = true
                        account.demand -= 1
                        return (downstream, value)
                    }
                    if !account.isFinished || !account.waiting.isEmpty { return nil }
                    account.downstream = nil
                    return (downstream, nil)
                }
                guard let (downstream, value) = next else { return }
                guard let value else { return downstream.receive(completion: .finished) }
                let more = downstream.receive(value)
                account.withLock { account in
                    account.demand += more
                    account.isHandingOn = false
                }
            }
        }
    }
#endif
