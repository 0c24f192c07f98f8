import Explorer

/// A reference that is set once, each use of which is a step of the explorer.
public struct AtomicLazyReference<Instance: AnyObject>: ~Copyable, @unchecked Sendable {
    private let reference = Atomic<Instance?>(nil)

    /// Makes one that is not set.
    public init() {}

    deinit { reference.letGo() }

    /// Reads it.
    public borrowing func load(file: StaticString = #fileID, line: UInt = #line) -> Instance? {
        reference.load(ordering: .acquiring, file: file, line: line)
    }

    /// Sets it, unless it is; returns what it is from there on.
    public borrowing func storeIfNil(
        _ instance: consuming Instance, file: StaticString = #fileID, line: UInt = #line
    ) -> Instance {
        reference.setIfNil(instance, file: file, line: line)
    }
}
