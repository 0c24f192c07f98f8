/// A weak reference that can be read from any thread; it is never written after its making.
nonisolated struct FluxWeak: @unchecked Sendable {
    private(set) weak var object: (any FluxCancellable)?

    init(_ object: any FluxCancellable) {
        self.object = object
    }
}
