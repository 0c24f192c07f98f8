/// Does what follows from a change once no lock is held, such as waking a queue or starting a writer.
///
/// A slow one delays the thread that made the change, and other slow ones. It delays subscriptions only if
/// ``FluxStoreAccess/observe(_:settlesFirst:)`` was told that it only schedules work.
///
/// Thread safety: called on any thread, on several at once.
nonisolated public protocol FluxSettling: AnyObject, Sendable {
    /// Does the pending work; called with no lock held.
    func settle()
}

/// What a change has to settle once no lock is held; for none and for one it allocates nothing.
///
/// An enumeration in which one case has a payload: a single load shows that there is nothing to settle, and nothing is
/// released then.
@usableFromInline nonisolated enum FluxWakes {
    case none, some(any FluxSettling, settlesFirst: Bool)

    @usableFromInline mutating func append(_ more: FluxWakes) {
        guard case .some(let sleeper, _) = self else { return self = more }
        let list = sleeper as? FluxWakeList ?? FluxWakeList(self)
        list.add(more)
        self = .some(list, settlesFirst: false)
    }

    @inlinable @inline(__always) consuming func settle() { if case .some(let sleeper, _) = self { sleeper.settle() } }
}

/// Settles several objects in the place of one.
///
/// Objects that may call user code, and be held up by it, come last, whichever store they belong to: states in a
/// mailbox wait only for their own queue (C8).
///
/// Unchecked: it belongs to the thread that makes the change or, while it waits in a store, to the holder of the
/// store's lock.
nonisolated private final class FluxWakeList: FluxSettling, @unchecked Sendable {
    private var first: ContiguousArray<any FluxSettling> = []
    private var last: ContiguousArray<any FluxSettling> = []

    init(_ wakes: FluxWakes) { add(wakes) }

    func add(_ wakes: FluxWakes) {
        guard case .some(let sleeper, let settlesFirst) = wakes else { return }
        if settlesFirst { first.append(sleeper) } else { last.append(sleeper) }
    }

    func settle() { for sleeper in first + last { sleeper.settle() } }
}
