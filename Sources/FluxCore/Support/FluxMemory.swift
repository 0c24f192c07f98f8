/// The values computed last, with what they were computed from.
nonisolated final class FluxMemory<Inputs: Sendable, Value: Sendable>: Sendable {
    private let lock = FluxLock<ContiguousArray<(inputs: Inputs, value: Value)>>([])
    private let capacity: Int

    init(capacity: Int) {
        fluxRequire(
            capacity > 0, "a selector that keeps \(capacity) values computes each time. Let it keep 1 at least.")
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
