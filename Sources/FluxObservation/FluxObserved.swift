#if canImport(FluxCore)
    import FluxCore
#endif
#if canImport(Observation)
    import Observation

    /// A mirror of a source on the main actor, for SwiftUI and for anything else that tracks observation.
    ///
    /// ```swift
    /// struct CartView: View {
    ///     let cart: FluxObserved<Cart>  // store.observed()
    ///     var body: some View { Text(cart.state.title) }
    /// }
    /// ```
    ///
    /// It changes at most once per turn of the main queue, never to an older state, and always ends on the newest. It
    /// announces any change of the state; to mirror only a part, use `store.view(\.part).observed()`.
    ///
    /// Thread safety: belongs to the main actor.
    @MainActor
    public final class FluxObserved<State: Sendable>: Observation.Observable {
        private let registrar = ObservationRegistrar()
        private var current: State
        private var subscription: FluxSubscription?
        /// Keeps the source alive: it may be a view without another owner.
        private let source: any FluxSource<State>

        fileprivate init(_ source: some FluxSource<State>) {
            self.source = source
            current = source.state
            subscription = source.subscribe(.latest, on: FluxMainQueue.main) { [weak self] state in
                self?.mirror(state)
            }
            // Read again: a change between the first read and the subscription is not delivered.
            current = source.state
        }

        /// The state as last mirrored on the main actor.
        public var state: State {
            registrar.access(self, keyPath: \.state)
            return current
        }

        private func mirror(_ state: State) {
            // The old state is released after the mutation, because its deinit may read the mirror.
            var shown = state
            registrar.withMutation(of: self, keyPath: \.state) { swap(&current, &shown) }
        }
    }

    nonisolated extension FluxSource {
        /// Returns a mirror on the main actor that SwiftUI observes.
        ///
        /// - Returns: A mirror that keeps this source alive and shows the current state at once.
        @MainActor
        public func observed() -> FluxObserved<State> {
            FluxObserved(self)
        }
    }
#endif
