#if canImport(FluxCore)
    import FluxCore
#endif

/// A change to a key of a ``FluxFamily``.
///
/// Thread safety: a value.
nonisolated public enum FluxFamilyChange<Key: Hashable & Sendable>: Sendable, Hashable {
    /// The key's member is open: either new, or open again because it could not be closed.
    case opened(Key)
    /// The key's member is no longer open, and is being closed.
    case closed(Key)
}

nonisolated extension FluxFamily {
    /// The keys that are opened and closed; each iterator begins with the changes after its creation.
    public var changes: Changes { Changes(family: self) }

    /// The keys of a family that are opened and closed: every change, in order.
    ///
    /// ```swift
    /// for await change in rooms.changes { print(change) }
    /// ```
    ///
    /// Any number of iterators may be created, and each begins with the changes after its creation. A slow iterator
    /// delays nothing else, and its pending changes are kept. The sequence and its iterators keep the family in memory.
    /// An iterator ends when its task is cancelled, or once the family has been shut down and its last member evicted.
    ///
    /// Thread safety: may be used from any thread; an iterator belongs to one task.
    public struct Changes: _Concurrency.AsyncSequence, Sendable {
        let family: FluxFamily

        /// Creates an iterator that follows the changes from now on.
        public func makeAsyncIterator() -> Iterator {
            let (intake, handle) = (FluxFamilyIntake<Key, Member>(), family.open.handle)
            handle.withAccess { access in
                access.observe(intake, settlesFirst: true)
                if access.state.isEnded { intake.put(nil) }
            }
            let token = FluxSubscription { FluxPureCode.after { handle.withAccess { $0.remove(intake) } } }
            return Iterator(family: family, intake: intake, token: token)
        }

        /// Iterates over the changes one by one.
        ///
        /// Thread safety: belongs to one task.
        public struct Iterator: _Concurrency.AsyncIteratorProtocol {
            let family: FluxFamily
            let intake: FluxFamilyIntake<Key, Member>
            let token: FluxSubscription

            /// Waits for the next change.
            ///
            /// - Parameter actor: The actor to resume on.
            /// - Returns: The next change; nil if there are no more changes, or if the task is cancelled.
            /// - Throws: Nothing.
            public mutating func next(
                isolation actor: isolated (any _Concurrency.Actor)? = #isolation
            ) async throws(Swift.Never) -> FluxFamilyChange<Key>? {
                // An optimising compiler may release fields that nothing uses while the iterator still exists.
                defer { withExtendedLifetime((family, token)) {} }
                while !_Concurrency.Task.isCancelled {
                    if let change = intake.take() { return change }
                    if await !intake.wait() { break }
                }
                return nil
            }
        }
    }
}

@available(*, unavailable)
nonisolated extension FluxFamily.Changes.Iterator: Sendable {}

/// The pending changes of one iterator.
nonisolated final class FluxFamilyIntake<Key: Hashable & Sendable, Member: Sendable>: FluxStoreObserver, FluxSettling {
    private struct Waiting {
        var changes: [FluxFamilyChange<Key>] = []
        /// Changes that were taken out together, the oldest last.
        var oldest: [FluxFamilyChange<Key>] = []
        var isEnded = false
        var latch: FluxLatch?
    }

    private let waiting = FluxLock(Waiting())

    func applied(
        _ change: FluxChange<FluxFamilyMembers<Key, Member>>, _ state: FluxFamilyMembers<Key, Member>, revision: UInt64?
    ) -> (any FluxSettling)? {
        switch change {
        case .action(.opened(let key, _)): put(.opened(key))
        case .action(.closed(let key)): put(.closed(key))
        default: put(nil)
        }
        return self
    }

    /// Adds a change; nil marks the end.
    func put(_ change: FluxFamilyChange<Key>?) {
        waiting.withLock { waiting in
            if let change { waiting.changes.append(change) } else { waiting.isEnded = true }
        }
    }

    func take() -> FluxFamilyChange<Key>? {
        waiting.withLock { waiting in
            if waiting.oldest.isEmpty {
                waiting.oldest = waiting.changes.reversed()
                waiting.changes = []
            }
            return waiting.oldest.popLast()
        }
    }

    /// Waits until there is a change to take, or the task is cancelled; returns false if none is pending and none will
    /// come.
    func wait() async -> Bool {
        await FluxLatch.wait { latch in
            waiting.withLock { waiting -> FluxLatch? in
                if !waiting.changes.isEmpty || waiting.isEnded { return nil }
                if waiting.latch != nil { fatalError("FluxCore: two tasks wait with one iterator. Give each its own.") }
                waiting.latch = latch
                return latch
            }
        } withdrawing: { _ in
            settle()
        }
        return waiting.withLock { !$0.changes.isEmpty || !$0.isEnded }
    }

    func settle() { waiting.withLock { Swift.exchange(&$0.latch, with: nil) }?.open() }
}
