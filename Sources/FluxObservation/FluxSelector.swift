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
    let memory = FluxMemory<(repeat each Input), Value>(capacity: capacity)
    return { state in
        let inputs = (repeat (each input)(state))
        let known = memory.value { kept in
            for (one, other) in repeat (each kept, each inputs) {
                if one != other { return false }
            }
            return true
        }
        if let known { return known }
        let value = compute(repeat each inputs)
        memory.keep(value, for: inputs)
        return value
    }
}

/// The values computed last, with what they were computed from.
nonisolated final class FluxMemory<Inputs: Sendable, Value: Sendable>: Sendable {
    private let lock = FluxLock<ContiguousArray<(inputs: Inputs, value: Value)>>([])
    private let capacity: Int

    init(capacity: Int) {
        if capacity < 1 {
            fatalError("FluxCore: a selector that keeps \(capacity) values computes each time. Let it keep 1 at least.")
        }
        self.capacity = capacity
    }

    /// The value kept for inputs that are wanted.
    ///
    /// The comparison is the user's, so it runs outside the lock.
    func value(where isWanted: (Inputs) -> Bool) -> Value? {
        let entries = lock.withLock { $0 }
        guard let index = entries.firstIndex(where: { isWanted($0.inputs) }) else { return nil }
        let entry = entries[index]
        if index > 0 { keep(entry.value, for: entry.inputs, where: isWanted) }
        return entry.value
    }

    /// Keeps a value as the one used last; what there is no room for any longer goes outside the lock.
    func keep(_ value: Value, for inputs: Inputs, where isSame: (Inputs) -> Bool = { _ in false }) {
        var entries = lock.withLock { $0 }
        entries.removeAll { isSame($0.inputs) }
        entries.insert((inputs, value), at: 0)
        if entries.count > capacity { entries.removeLast(entries.count - capacity) }
        lock.withLock { swap(&$0, &entries) }
    }
}
