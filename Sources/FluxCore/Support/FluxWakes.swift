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
/// An enumeration of one case with something in it: a single load tells that there is nobody, and nothing is let go of then.
@usableFromInline nonisolated enum FluxWakes {
    case none, some(any FluxSettling, isFirst: Bool)

    @usableFromInline mutating func append(_ more: FluxWakes) {
        guard case .some(let sleeper, _) = self else { return self = more }
        let list = sleeper as? FluxWakeList ?? FluxWakeList(self)
        list.add(more)
        self = .some(list, isFirst: false)
    }

    @inlinable @inline(__always) consuming func settle() { if case .some(let sleeper, _) = self { sleeper.settle() } }
}

/// Several who are woken, in the place of one.
///
/// Those who may call code of the user's, and be held up by it, come last, whatever store they belong to: what waits in a mailbox
/// waits for nobody but its own queue (C8).
///
/// Unchecked: one belongs to the thread that makes the change, or to whoever has the lock of the store in which it waits.
nonisolated private final class FluxWakeList: FluxSettling, @unchecked Sendable {
    private var first: ContiguousArray<any FluxSettling> = []
    private var last: ContiguousArray<any FluxSettling> = []

    init(_ wakes: FluxWakes) { add(wakes) }

    func add(_ wakes: FluxWakes) {
        guard case .some(let sleeper, let isFirst) = wakes else { return }
        if isFirst { first.append(sleeper) } else { last.append(sleeper) }
    }

    func settle() { for sleeper in first + last { sleeper.settle() } }
}
