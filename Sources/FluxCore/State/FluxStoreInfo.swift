/// A store, as others are told of it.
///
/// It keeps what it tells of in memory, though not attached: let go of it after use.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxStoreInfo: Sendable, Hashable, CustomStringConvertible {
    /// The type of its state.
    public let stateType: any FluxState.Type
    @usableFromInline let core: FluxAnyCore

    @inlinable
    init(core: FluxAnyCore, stateType: any FluxState.Type) {
        self.core = core
        self.stateType = stateType
    }

    /// The name it is attached under, if it has one.
    public var name: String? { core.residentIfAny?.name }

    /// Its name, or the type of its state.
    public var description: String { name ?? "FluxStore<\(stateType)>" }

    /// Whether this tells of a certain store.
    ///
    /// - Parameter store: Which store.
    /// - Returns: True if it does.
    public func isOf<State>(_ store: FluxStore<State>) -> Bool {
        core === store.core
    }

    /// Whether both tell of the same store.
    ///
    /// - Parameters:
    ///   - one: One.
    ///   - other: The other.
    /// - Returns: True if they do.
    public static func == (one: FluxStoreInfo, other: FluxStoreInfo) -> Bool {
        one.core === other.core
    }

    /// Hashes which store this tells of.
    ///
    /// - Parameter hasher: What to hash with.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(ObjectIdentifier(core))
    }
}
