/// The limits that drains and the buffers they empty have in common.
@usableFromInline
nonisolated enum FluxLimits {
    /// After this many batches a drain gives its thread back, so that no store and no creator keeps it from the others.
    @usableFromInline static var batchesInARow: Int { 16 }
    /// A buffer with room for more elements than this is given back rather than kept for the next burst.
    @usableFromInline static var keptCapacity: Int { 1 << 16 }
}
