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
    /// It changes once for each turn of the main queue at most, never to an older state, and always ends on the newest.
    /// It announces any change of the state; a mirror of a part is `store.view(\.part).observed()`.
    ///
    /// Thread safety: belongs to the main actor.
    @MainActor
    public final class FluxObserved<State: Sendable>: Observation.Observable {
        private let registrar = ObservationRegistrar()
        private var current: State
        private var subscription: FluxSubscription?
        /// Keeps a view that nobody else may keep.
        private let source: any FluxSource<State>

        fileprivate init(_ source: some FluxSource<State>) {
            self.source = source
            current = source.state
            subscription = source.subscribe(.latest, on: FluxMainQueue.main) { [weak self] state in
                self?.mirror(state)
            }
            // Again: of a change between the two nobody is told.
            current = source.state
        }

        /// The state as the main actor knows it.
        public var state: State {
            registrar.access(self, keyPath: \.state)
            return current
        }

        private func mirror(_ state: State) {
            // What was shown goes once the change is over: its deinit may look at the mirror.
            var shown = state
            registrar.withMutation(of: self, keyPath: \.state) { swap(&current, &shown) }
        }
    }

    nonisolated extension FluxSource {
        /// A mirror on the main actor that SwiftUI observes.
        ///
        /// - Returns: A mirror that keeps this source and shows the current state at once.
        @MainActor
        public func observed() -> FluxObserved<State> {
            FluxObserved(self)
        }
    }
#endif
