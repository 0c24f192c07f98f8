#if canImport(FluxCore)
    import FluxCore
#endif

/// What has become of a key of a ``FluxFamily``.
///
/// Thread safety: a value.
nonisolated public enum FluxFamilyChange<Key: Hashable & Sendable>: Sendable, Hashable {
    /// Its member is open; also where it could not be put away, and so is open again.
    case opened(Key)
    /// Its member is open no longer, and is being put away.
    case closed(Key)
}

/// The open members of a family, as the state of a store.
nonisolated struct FluxFamilyMembers<Key: Hashable & Sendable, Member: Sendable>: FluxState {
    enum Action: FluxAction {
        case opened(Key, Member)
        case closed(Key)
        /// No key is opened any more.
        case ended
    }

    private(set) var members: [Key: Member] = [:]
    private(set) var isEnded = false

    /// In place: nothing is copied unless somebody keeps the state before.
    mutating func handle(action: Action) -> Self? {
        switch action {
        case .opened(let key, let member): members[key] = member
        case .closed(let key):
            members[key] = nil
            // The room that many keys took is given back.
            if members.isEmpty && members.capacity > 1_024 { members = [:] }
        case .ended:
            isEnded = true
            return nil
        }
        return self
    }
}

/// The keys of a ``FluxFamily`` that are opened and closed, each of them and in order.
///
/// ```swift
/// for await change in rooms.changes { print(change) }
/// ```
///
/// Any number of iterators may be made, each of which starts anew; a slow one delays nobody, and what it has not taken yet is
/// kept. It keeps its family. An iterator ends when its task is cancelled, and once the family has been shut down and the last member is
/// put away.
///
/// Thread safety: may be used from any thread; an iterator belongs to one task.
nonisolated public struct FluxFamilyChanges<Key: Hashable & Sendable>: _Concurrency.AsyncSequence, Sendable {
    let start: @Sendable () -> Iterator

    /// Starts following.
    public func makeAsyncIterator() -> Iterator { start() }

    /// Takes one change after the other.
    ///
    /// Thread safety: belongs to one task.
    public struct Iterator: _Concurrency.AsyncIteratorProtocol {
        let intake: FluxFamilyIntake<Key>
        let token: FluxSubscription
        /// What was taken from the intake, the oldest last.
        var taken: [FluxFamilyChange<Key>] = []

        /// Waits for the next change.
        ///
        /// - Parameter actor: The actor to come back to.
        /// - Returns: The next change; nil once there is no other, or the task is cancelled.
        public mutating func next(
            isolation actor: isolated (any _Concurrency.Actor)? = #isolation
        ) async throws(Swift.Never) -> FluxFamilyChange<Key>? {
            while !_Concurrency.Task.isCancelled {
                if let change = taken.popLast() { return change }
                guard let changes = intake.take() else { break }
                taken = changes.reversed()
                if taken.isEmpty { await intake.wait() }
            }
            return nil
        }
    }
}

@available(*, unavailable)
nonisolated extension FluxFamilyChanges.Iterator: Sendable {}

nonisolated extension FluxFamily {
    /// The keys that are opened and closed, for each iterator from its start on.
    public var changes: FluxFamilyChanges<Key> {
        FluxFamilyChanges {
            let (intake, handle) = (FluxFamilyIntake<Key>(), self.core.open.handle)
            let tap = FluxFamilyTap<Key, Member>(intake)
            handle.withAccess { access in
                if access.state.isEnded { intake.put(nil) }
                access.observe(tap)
            }
            // The family is kept by the token, and so while it is iterated.
            let token = FluxSubscription { [self] in
                FluxPureCode.after { withExtendedLifetime(self) { handle.withAccess { $0.remove(tap) } } }
            }
            return FluxFamilyChanges.Iterator(intake: intake, token: token)
        }
    }
}

/// Puts the changes of a family into what waits for an iterator.
nonisolated private final class FluxFamilyTap<Key: Hashable & Sendable, Member: Sendable>: FluxStoreObserver {
    let intake: FluxFamilyIntake<Key>

    init(_ intake: FluxFamilyIntake<Key>) { self.intake = intake }

    func applied(
        _ change: FluxChange<FluxFamilyMembers<Key, Member>>, _ state: FluxFamilyMembers<Key, Member>, revision: UInt64?
    ) -> (any FluxSettling)? {
        switch change {
        case .action(.opened(let key, _)): intake.put(.opened(key))
        case .action(.closed(let key)): intake.put(.closed(key))
        default: intake.put(nil)
        }
        return intake
    }
}

/// What waits for one iterator.
nonisolated final class FluxFamilyIntake<Key: Hashable & Sendable>: FluxSettling {
    private struct Waiting {
        var changes: [FluxFamilyChange<Key>] = []
        var isEnded = false
        var latch: FluxLatch?
    }

    private let waiting = FluxLock(Waiting())

    /// Adds a change; nil: it was the last.
    func put(_ change: FluxFamilyChange<Key>?) {
        waiting.withLock { waiting in
            if let change { waiting.changes.append(change) } else { waiting.isEnded = true }
        }
    }

    /// Takes what there is; nil: nothing is, and nothing comes.
    func take() -> [FluxFamilyChange<Key>]? {
        waiting.withLock { waiting in
            defer { waiting.changes = [] }
            return waiting.changes.isEmpty && waiting.isEnded ? nil : waiting.changes
        }
    }

    /// Waits until there is something to take, or the task is cancelled.
    func wait() async {
        await FluxLatch.wait { latch in
            waiting.withLock { waiting -> FluxLatch? in
                if !waiting.changes.isEmpty || waiting.isEnded { return nil }
                waiting.latch = latch
                return latch
            }
        } withdrawing: { _ in
            settle()
        }
    }

    func settle() {
        let latch = waiting.withLock { fluxMove(&$0.latch) }
        latch?.open()
    }
}
