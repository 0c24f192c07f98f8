/// The observers of a store, and the work that is pending until its lock is free; changed only under that lock.
///
/// Unchecked exclusivity is safe: no other code is called during an access, so no two accesses overlap.
@usableFromInline nonisolated final class FluxObserving<State: FluxState> {
    @exclusivity(unchecked) @usableFromInline var observers: ContiguousArray<FluxObserverEntry<State>> = []
    /// Decides on each change, and may hold it back; nil if nothing holds changes back.
    @exclusivity(unchecked) @usableFromInline var gate: (@Sendable (FluxChange<State>) -> Bool)?
    /// How many revisions were skipped: the mailboxes number their states without a gap.
    @exclusivity(unchecked) @usableFromInline var skipped: UInt64 = 0
    @usableFromInline var rest: (wakes: FluxWakes, gone: [Any]) = (.none, [])
}
