import Explorer

/// Replaces the library's lock and has the same members; each use is two steps of the explorer.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxLock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    private let lock = ExploredLock<Value>()
    private let value: UnsafeMutablePointer<Value>

    /// Creates a lock around a value.
    public init(_ initialValue: consuming sending Value) {
        value = .allocate(capacity: 1)
        value.initialize(to: initialValue)
    }

    deinit {
        lock.end()
        value.deinitialize(count: 1)
        value.deallocate()
    }

    /// Runs a closure on the value while holding the lock.
    public borrowing func withLock<Result>(
        file: StaticString = #fileID, line: UInt = #line, _ body: (inout Value) -> Result
    ) -> Result {
        Explorer.shared.lock(lock, Place(file, line))
        defer { Explorer.shared.unlock(lock, Place(file, line)) }
        return body(&value.pointee)
    }

    /// Acts as a mutant that omits the lock of a noncopyable value: other threads may run before, within and after it.
    public borrowing func withoutLock<Result>(
        file: StaticString = #fileID, line: UInt = #line, _ body: (inout Value) -> Result
    ) -> Result {
        Explorer.shared.step(.point, lock, Place(file, line))
        defer { Explorer.shared.step(.point, lock, Place(file, line)) }
        return body(&value.pointee)
    }
}

nonisolated extension FluxLock {
    /// Acts as a mutant that omits the lock: reads the value, changes the copy, and writes it back.
    public borrowing func withoutLock<Result>(
        file: StaticString = #fileID, line: UInt = #line, _ body: (inout Value) -> Result
    ) -> Result {
        Explorer.shared.step(.point, lock, Place(file, line))
        var copy = value.pointee
        let result = body(&copy)
        Explorer.shared.step(.point, lock, Place(file, line))
        value.pointee = copy
        return result
    }
}

private final class ExploredLock<Value: ~Copyable>: Shared, @unchecked Sendable {
    override var title: String { "FluxLock<\(Value.self)>" }
}
