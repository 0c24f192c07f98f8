/// The objects that modules keep with a store or a dispatcher, one for each type.
@usableFromInline nonisolated struct FluxFeatures: ~Copyable, Sendable {
    /// Nil once closed.
    private let made = FluxLock<[ObjectIdentifier: any AnyObject & Sendable]?>([:])

    /// Returns the feature of a type, created outside the lock; if several threads create one, the first is kept.
    ///
    /// Once closed, it keeps none, so what it creates is the caller's alone.
    func feature<Feature: AnyObject & Sendable>(_ type: Feature.Type, _ make: () -> Feature) -> Feature {
        if let known = featureIfAny(type) { return known }
        let new = make()
        return made.withLock { made in
            let first = made?[ObjectIdentifier(type)] as? Feature ?? new
            made?[ObjectIdentifier(type)] = first
            return first
        }
    }

    func featureIfAny<Feature: AnyObject & Sendable>(_ type: Feature.Type) -> Feature? {
        made.withLock { $0?[ObjectIdentifier(type)] } as? Feature
    }

    /// Releases all features, outside the lock, and keeps no other.
    @usableFromInline func close() { _ = made.withLock { Swift.exchange(&$0, with: nil) } }
}
