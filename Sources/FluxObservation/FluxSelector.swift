#if canImport(FluxCore)
    import FluxCore
#endif

/// Makes of an expensive computation one that computes again only when what it starts from has changed.
///
/// ```swift
/// let visible = fluxSelector(\Todos.items, \Todos.filter) { items, filter in items.filter(filter.accepts) }
/// let one = store.subscribe(to: visible) { items in print(items) }
/// let other = store.subscribe(to: visible) { items in print(items.count) }  // computed once for both
/// ```
///
/// The result may be used wherever a part of a state is selected, by any number of subscriptions and stores, from any
/// thread. Threads that need the same new value at the same moment may each compute it.
///
/// - Parameters:
///   - input: The parts of the state that the computation starts from.
///   - capacity: How many computed values to keep, those used last; more than 1 helps where it is used for several stores.
///   - compute: Computes the value; not called while a value for equal inputs is kept.
/// - Returns: A function from the state to the value.
/// - Complexity: O(*n*) comparisons per use for *n* values kept.
nonisolated public func fluxSelector<State, each Input: Equatable & Sendable, Value: Sendable>(
    _ input: repeat @escaping @Sendable (State) -> each Input,
    capacity: Int = 1,
    _ compute: @escaping @Sendable (repeat each Input) -> Value
) -> @Sendable (State) -> Value {
    if capacity < 1 {
        fatalError("FluxCore: a selector that keeps \(capacity) values computes each time. Let it keep at least 1.")
    }
    /// The values computed last, with what they were computed from.
    let memory = FluxLock<[(inputs: (repeat each Input), value: Value)]>([])
    return { state in
        let inputs = (repeat (each input)(state))
        // Comparing and computing are the user's, and so is what there is no room for any longer: all outside the locks.
        var entries = memory.withLock { $0 }
        let index = entries.firstIndex { entry in
            for (one, other) in repeat (each entry.inputs, each inputs) {
                if one != other { return false }
            }
            return true
        }
        if index == 0 { return entries[0].value }
        let entry = index.map { entries.remove(at: $0) } ?? (inputs: inputs, value: compute(repeat each inputs))
        entries.insert(entry, at: 0)
        let last = entries.count > capacity ? entries.removeLast() : nil
        let gone = memory.withLock { Swift.exchange(&$0, with: entries) }
        // What it starts from may be read under the lock of a store.
        FluxPureCode.after { withExtendedLifetime((gone, last)) {} }
        return entry.value
    }
}
