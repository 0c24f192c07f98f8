/// Those who look on at a store, and what is due to them once its lock is free; changed under that lock alone.
///
/// Safe: nobody is called while one of its properties is read or changed, so that no two accesses overlap.
@usableFromInline nonisolated final class FluxObserving<State: FluxState> {
    @exclusivity(unchecked) @usableFromInline var observers: ContiguousArray<FluxObserverEntry<State>> = []
    @exclusivity(unchecked) @usableFromInline var gate: FluxStoreGate<State>?
    var wakes: ContiguousArray<any FluxSettling> = []
    var gone: [Any] = []
}
