/// Somebody to be told, once no lock is held, of what happened while one was: to wake a queue, to start a writer.
///
/// One that takes long holds up the thread that made the change, and others who do; subscriptions only where
/// ``FluxStoreAccess/observe(_:settlesFirst:)`` was told that it only schedules work.
///
/// Thread safety: called on any thread, on several at once.
nonisolated public protocol FluxSettling: AnyObject, Sendable {
    /// Does what has become due; no lock is held.
    func settle()
}

/// Whom a change has to wake once no lock is held; for none and for one it allocates nothing.
///
/// Those who may call code of the user's, and be held up by it, come last, whatever store they belong to: what waits in a mailbox
/// waits for nobody but its own queue (C8).
///
/// An enumeration, since of a struct with an empty list in it each dispatch would let go of that list.
@usableFromInline nonisolated enum FluxWakes {
    case none, first(any FluxSettling), last(any FluxSettling), many(ContiguousArray<FluxWakes>)

    @inlinable mutating func append(_ more: FluxWakes) {
        switch self {
        case .none: self = more
        case .first, .last: self = .many([self, more])
        case .many(var wakes):
            self = .none  // so that the list is not copied
            wakes.append(more)
            self = .many(wakes)
        }
    }

    @inlinable @inline(__always) consuming func settle() { if case .none = self {} else { settleAll() } }

    @usableFromInline @inline(never) consuming func settleAll() {
        switch self {
        case .none: break
        case .first(let sleeper), .last(let sleeper): sleeper.settle()
        case .many(let wakes):
            for case .first(let sleeper) in wakes { sleeper.settle() }
            for case .last(let sleeper) in wakes { sleeper.settle() }
        }
    }
}
