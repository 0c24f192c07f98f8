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

nonisolated extension FluxFamily {
    /// The keys that are opened and closed, for each iterator from its start on.
    public var changes: Changes { Changes(family: self) }

    /// The keys of a family that are opened and closed, each of them and in order.
    ///
    /// ```swift
    /// for await change in rooms.changes { print(change) }
    /// ```
    ///
    /// Any number of iterators may be made, each of which starts anew; a slow one delays nobody, and what it has not taken yet is
    /// kept. It keeps its family. An iterator ends when its task is cancelled, and once the family has been shut down and the last
    /// member is put away.
    ///
    /// Thread safety: may be used from any thread; an iterator belongs to one task.
    public struct Changes: _Concurrency.AsyncSequence, Sendable {
        let family: FluxFamily

        /// Starts following.
        public func makeAsyncIterator() -> Iterator {
            let (intake, handle) = (FluxFamilyIntake<Key, Member>(), family.open.handle)
            handle.withAccess { access in
                access.observe(intake, settlesFirst: true)
                if access.state.isEnded { intake.put(nil) }
            }
            let token = FluxSubscription { FluxPureCode.after { handle.withAccess { $0.remove(intake) } } }
            return Iterator(family: family, intake: intake, token: token)
        }

        /// Takes one change after the other.
        ///
        /// Thread safety: belongs to one task.
        public struct Iterator: _Concurrency.AsyncIteratorProtocol {
            let family: FluxFamily
            let intake: FluxFamilyIntake<Key, Member>
            let token: FluxSubscription

            /// Waits for the next change.
            ///
            /// - Parameter actor: The actor to come back to.
            /// - Returns: The next change; nil once there is no other, or the task is cancelled.
            /// - Throws: Nothing.
            public mutating func next(
                isolation actor: isolated (any _Concurrency.Actor)? = #isolation
            ) async throws(Swift.Never) -> FluxFamilyChange<Key>? {
                // An optimising compiler may let go of fields that nothing uses, though the iterator is still there.
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

/// What waits for one iterator.
nonisolated final class FluxFamilyIntake<Key: Hashable & Sendable, Member: Sendable>: FluxStoreObserver, FluxSettling {
    private struct Waiting {
        var changes: [FluxFamilyChange<Key>] = []
        /// What was taken out at once, the oldest last.
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

    /// Adds a change; nil: the last has come.
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

    /// Waits until there is something to take, or the task is cancelled; false: nothing is, and nothing comes.
    func wait() async -> Bool {
        await FluxLatch.wait { latch in
            waiting.withLock { waiting -> FluxLatch? in
                if !waiting.changes.isEmpty || waiting.isEnded { return nil }
                if waiting.latch != nil { fatalError("FluxCore: two tasks wait with one iterator. Make one for each.") }
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
