/// What the hot path of a store or a dispatcher has to look out for, as bits of one byte that it loads once.
@usableFromInline
nonisolated enum FluxDetours {
    /// There is middleware.
    @usableFromInline static var middleware: UInt8 { 1 << 0 }
    /// Somebody looks through a window.
    @usableFromInline static var hooks: UInt8 { 1 << 1 }
    /// A store of this dispatcher has middleware of its own.
    @usableFromInline static var guards: UInt8 { 1 << 2 }
    /// A history records what this store applies.
    @usableFromInline static var history: UInt8 { 1 << 3 }
    /// This store has a keeper: an action may have to be held back, and what was applied is to be written.
    @usableFromInline static var kept: UInt8 { 1 << 4 }
    /// Somebody subscribes to the actions of this store.
    @usableFromInline static var taps: UInt8 { 1 << 5 }
}
