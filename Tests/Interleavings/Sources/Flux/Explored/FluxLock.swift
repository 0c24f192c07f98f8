import Explorer

/// Stands in the place of the library's lock, with its members: each use of it is two steps of the explorer.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxLock<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
    private let lock = ExploredLock<Value>()
    private let value: UnsafeMutablePointer<Value>

    /// Makes a lock around a value.
    public init(_ initialValue: consuming sending Value) {
        value = .allocate(capacity: 1)
        value.initialize(to: initialValue)
    }

    deinit {
        lock.end()
        value.deinitialize(count: 1)
        value.deallocate()
    }

    /// Runs a closure on the value, with the lock held.
    public borrowing func withLock<Result>(
        file: StaticString = #fileID, line: UInt = #line, _ body: (inout Value) -> Result
    ) -> Result {
        Explorer.shared.lock(lock, Place(file, line))
        defer { Explorer.shared.unlock(lock, Place(file, line)) }
        return body(&value.pointee)
    }

    /// What a mutant that forgets the lock of what cannot be copied does: others may come before it, within, and after it.
    public borrowing func withoutLock<Result>(
        file: StaticString = #fileID, line: UInt = #line, _ body: (inout Value) -> Result
    ) -> Result {
        Explorer.shared.step(.point, lock, Place(file, line))
        defer { Explorer.shared.step(.point, lock, Place(file, line)) }
        return body(&value.pointee)
    }
}

nonisolated extension FluxLock {
    /// What a mutant that forgets the lock does: it reads the value, changes that, and writes it back.
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
