/// The sources of a view, as closures made where their types are known: that keeps reading them cheap.
@usableFromInline
nonisolated struct FluxViewParts<Value: Sendable>: Sendable {
    @usableFromInline typealias Watch =
        @Sendable (FluxWish, @escaping @Sendable () -> Void) -> [any FluxCancellable]

    @usableFromInline let homes: ContiguousArray<FluxHomes.Finder>
    /// The sum of the revisions of all stores.
    @usableFromInline let stamp: @Sendable () -> UInt64
    /// Takes what the value follows from, with the locks of all dispatchers held.
    @usableFromInline let capture: @Sendable (FluxCut?) -> FluxCapture<Value>
    @usableFromInline let watch: Watch
    @usableFromInline let stores: ContiguousArray<ObjectIdentifier>
    /// Whether a store is read more than once in a cut.
    @usableFromInline let isShared: Bool

    @usableFromInline
    init(
        stores: ContiguousArray<ObjectIdentifier>,
        homes: ContiguousArray<FluxHomes.Finder>,
        stamp: @escaping @Sendable () -> UInt64,
        capture: @escaping @Sendable (FluxCut?) -> FluxCapture<Value>,
        watch: @escaping Watch
    ) {
        self.stores = stores
        isShared = Set(stores).count < stores.count
        self.homes = homes
        self.stamp = stamp
        self.capture = capture
        self.watch = watch
    }

    /// Takes what the value follows from, at a moment between two actions.
    @inlinable
    func cut() -> FluxCapture<Value> {
        if FluxThreads.shared.current.pointee.handling != nil { fluxStopImpureHandle("a view") }
        var capture: FluxCapture<Value>?
        FluxHomes.stop(homes) { capture = self.capture(isShared ? FluxCut() : nil) }
        guard let capture else { fatalError("FluxCore: a cut that was not taken") }
        return capture
    }
}
