/// What modules keep with a store or a dispatcher, by its type.
nonisolated struct FluxFeatures: ~Copyable, Sendable {
    private let made = FluxLock<[ObjectIdentifier: any AnyObject & Sendable]>([:])

    /// The feature of a type; made outside the lock, where the first of several wins.
    func feature<Feature: AnyObject & Sendable>(_ type: Feature.Type, _ make: () -> Feature) -> Feature {
        if let known = featureIfAny(type) { return known }
        let new = make()
        return made.withLock { made in
            let first = made[ObjectIdentifier(type)] as? Feature ?? new
            made[ObjectIdentifier(type)] = first
            return first
        }
    }

    func featureIfAny<Feature: AnyObject & Sendable>(_ type: Feature.Type) -> Feature? {
        made.withLock { $0[ObjectIdentifier(type)] } as? Feature
    }

    /// Lets go of all, outside the lock.
    func removeAll() { _ = made.withLock { Swift.exchange(&$0, with: [:]) } }
}
