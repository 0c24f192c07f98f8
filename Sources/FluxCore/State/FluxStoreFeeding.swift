import Dispatch

/// A store as a source.
nonisolated extension FluxStoreCore {
    @usableFromInline
    func enroll(_ wish: FluxWish, handler: @escaping @Sendable (State) -> Void) -> any FluxCancellable {
        admit(wish, handler)
    }

    @usableFromInline
    func stamped() -> (state: State, stamp: UInt64) { read { ($0.state, $0.revision) } }

    @usableFromInline var relay: DispatchQueue { extras.relay }

    @usableFromInline var dispatchers: [FluxDispatcher] { [] }

    @usableFromInline
    func capture(in cut: FluxCut) -> FluxCapture<State> {
        let (state, stamp) = cut.reading(of: self) { stamped() }
        return FluxCapture(stamp: stamp) { state }
    }
}
