/// Somebody to be told, once no lock is held, of what happened while one was: to wake a queue, to start a writer.
///
/// Thread safety: called on any thread, on several at once.
nonisolated public protocol FluxSettling: AnyObject, Sendable {
    /// Does what has become due; no lock is held.
    func settle()
}

/// Whom a change has to wake once no lock is held; for none and for one it allocates nothing.
@usableFromInline nonisolated struct FluxWakes {
    @usableFromInline var first: (any FluxSettling)?
    @usableFromInline var rest: ContiguousArray<any FluxSettling>?

    @inlinable init() {}

    @inlinable mutating func append(_ sleeper: any FluxSettling) {
        if first == nil { first = sleeper } else if rest?.append(sleeper) == nil { rest = [sleeper] }
    }

    @inlinable @inline(__always) func settle() {
        guard let first else { return }
        first.settle()
        for sleeper in rest ?? [] { sleeper.settle() }
    }
}
