#if canImport(FluxCore)
    import FluxCore
#endif

/// Returns a memoised form of an expensive computation, which computes again only when its inputs have changed.
///
/// ```swift
/// let visible = fluxSelector(\Todos.items, \Todos.filter) { items, filter in items.filter(filter.accepts) }
/// let one = store.subscribe(to: visible) { items in print(items) }
/// let other = store.subscribe(to: visible) { items in print(items.count) }  // computed once for both
/// ```
///
/// The result may be used wherever a part of a state is selected, by any number of subscriptions and stores, from any
/// thread. Threads that need the same new value at the same time may each compute it.
///
/// - Parameters:
///   - input: The parts of the state that the computation takes as inputs.
///   - capacity: How many of the most recently used values to keep; more than 1 helps if
///     several stores share the selector.
///   - compute: Computes the value; not called while a value for equal inputs is kept.
/// - Returns: A function from the state to the value.
/// - Complexity: O(*n*) comparisons per use for *n* values kept. Each use reads the inputs, so a selector that is an
///   input of others is used once for each way that leads to it.
nonisolated public func fluxSelector<State, each Input: Equatable & Sendable, Value: Sendable>(
    _ input: repeat @escaping @Sendable (State) -> each Input,
    capacity: Int = 1,
    _ compute: @escaping @Sendable (repeat each Input) -> Value
) -> @Sendable (State) -> Value {
    if capacity < 1 {
        fatalError("FluxCore: a selector that keeps \(capacity) values computes each time. Let it keep at least 1.")
    }
    /// The most recently used values with their inputs, the newest first.
    let memory = FluxLock<[(inputs: (repeat each Input), value: Value)]>([])
    return { state in
        let inputs = (repeat (each input)(state))
        // Comparing, computing and releasing an evicted value run user code, so all three happen outside the lock.
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
        // The selector may run while a store's lock is held, where inputs and values must not be released.
        FluxPureCode.after { withExtendedLifetime((gone, last)) {} }
        return entry.value
    }
}
