/// Those who look on at a store, and what is due to them once its lock is free; changed under that lock alone.
///
/// Safe: nobody is called while one of its properties is read or changed, so that no two accesses overlap.
@usableFromInline nonisolated final class FluxObserving<State: FluxState> {
    @exclusivity(unchecked) @usableFromInline var observers: ContiguousArray<FluxObserverEntry<State>> = []
    /// The observers by what they are: to look for one among thousands takes a hundredth of the time.
    @exclusivity(unchecked) @usableFromInline var ids: ContiguousArray<ObjectIdentifier> = []
    /// Who decides on changes, and may hold some back.
    @exclusivity(unchecked) @usableFromInline var gate: (@Sendable (FluxChange<State>) -> Bool)?
    /// How many revisions were left out: states are numbered without a gap where they wait.
    @exclusivity(unchecked) @usableFromInline var skipped: UInt64 = 0
    @usableFromInline var rest: (wakes: FluxWakes, gone: [Any]) = (.none, [])
}
