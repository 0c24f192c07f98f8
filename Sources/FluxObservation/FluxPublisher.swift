#if canImport(FluxCore)
    import FluxCore
#endif
#if canImport(Combine)
    import Combine
#elseif FLUX_OPENCOMBINE
    // Lets the examples' tests compile and run this file where there is no Combine.
    import OpenCombine
#endif

#if canImport(Combine) || FLUX_OPENCOMBINE
    /// A Combine publisher of the states of a source: first the current state, then each announced one.
    ///
    /// A subscriber receives as many states as it requests. Of the states beyond that, only the newest is kept until
    /// the next request. The publisher finishes when the source is released, once a state that was kept is requested.
    ///
    /// Thread safety: may be used from any thread, and a subscriber is called by one thread at a time. Values arrive on
    /// a serial queue of the source. A value that was kept until it was requested arrives on the thread that requests
    /// it, and so may values announced meanwhile; while another thread delivers, they arrive on that one.
    nonisolated public struct FluxPublisher<Output: Sendable>: Publisher, Sendable {
        /// The publisher cannot fail.
        public typealias Failure = Never

        fileprivate let source: any FluxSource<Output>

        /// Attaches a subscriber.
        ///
        /// - Parameter subscriber: Receives the states.
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
        /// A Combine publisher of the states of this source.
        public var publisher: FluxPublisher<State> {
            FluxPublisher(source: self)
        }
    }

    /// A Combine subscription that delivers as many values as were requested.
    nonisolated private final class FluxDemand<Input: Sendable>: Subscription, Sendable {
        typealias Downstream = AnySubscriber<Input, Never>

        private struct Account {
            var downstream: Downstream?
            var demand = Subscribers.Demand.none
            /// The values still to be delivered: as many as were requested, and the newest one beyond that.
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
            // Without a downstream, nothing else matters. Released outside the lock, because this may run code of
            // others.
            _ = account.withLock { Swift.exchange(&$0, with: Account()) }
        }

        /// Delivers as many values as were requested; only one thread at a time does so, and
        /// others leave the work to it.
        private func handOn() {
            while true {
                let next = account.withLock { account -> (Downstream, Input?)? in
                    guard let downstream = account.downstream, !account.isHandingOn else { return nil }
                    if account.demand > .none, let first = account.waiting.indices.first {
                        // Exchanged for nil: a slice keeps an element that was removed, and would
                        // release it while the lock is held.
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
