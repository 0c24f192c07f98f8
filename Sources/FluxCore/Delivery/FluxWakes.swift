/// Somebody to be told, once no lock is held, of what happened while one was: to wake a queue, to start a writer.
///
/// Thread safety: called on any thread, on several at once.
nonisolated public protocol FluxSettling: AnyObject, Sendable {
    /// Does what has become due; no lock is held.
    func settle()
}

/// Whom a change has to wake once no lock is held; for none and for one it allocates nothing.
///
/// An enumeration, since of a struct with an empty list in it each dispatch would let go of that list.
@usableFromInline nonisolated enum FluxWakes {
    case none, one(any FluxSettling), many(ContiguousArray<any FluxSettling>)

    @inlinable mutating func append(_ sleeper: any FluxSettling) {
        switch self {
        case .none: self = .one(sleeper)
        case .one(let first): self = .many([first, sleeper])
        case .many(var sleepers):
            self = .none  // so that the list is not copied
            sleepers.append(sleeper)
            self = .many(sleepers)
        }
    }

    @inlinable @inline(__always) func settle() {
        switch self {
        case .none: break
        case .one(let sleeper): sleeper.settle()
        case .many(let sleepers): for sleeper in sleepers { sleeper.settle() }
        }
    }
}
