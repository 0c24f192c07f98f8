#if canImport(FluxCore)
    import FluxCore
#endif

nonisolated extension FluxStore {
    /// Applies an action to this store alone, and returns when it is in the log on disk.
    ///
    /// It waits for the load, and for room where too many actions are unwritten; then the action is applied as by
    /// `dispatch(action:)`, and it waits for the append or the snapshot that covers the action. Many callers share one
    /// append. A write that fails is tried again, and this goes on waiting: end that by cancelling the task.
    /// It passes no middleware: that may postpone an action, or send several, and one alone is acknowledged here.
    ///
    /// - Parameter action: The change to make.
    /// - Returns: The revision of the change; nil if `handle(action:)` had nothing to announce.
    /// - Throws: Where the task was cancelled, whether the action was applied; and that the log could not be read.
    @inlinable @discardableResult
    public func dispatch(durably action: State.Action) async throws(FluxDurabilityError) -> UInt64? {
        guard let coordinator = handle.featureIfAny(FluxStorageCoordinator<State>.self), coordinator.storage.isLog
        else {
            fatalError(
                """
                FluxCore: dispatch(durably:) was used on a store without a log. Make the store with \
                FluxStore(initialState:log:), or use dispatch(action:) and then flush().
                """)
        }
        return try await coordinator.dispatch(durably: action)
    }
}

nonisolated extension FluxStorageCoordinator {
    /// What came of one attempt to dispatch durably.
    @usableFromInline
    enum Attempt {
        case failed(FluxDurabilityError)
        /// The load has not ended, or too many actions are unwritten.
        case waitsForRoom(id: UInt64)
        /// With nothing to wait for, the writer has been quicker.
        case applied(revision: UInt64?, id: UInt64?)
    }

    @inlinable
    func dispatch(durably action: State.Action) async throws(FluxDurabilityError) -> UInt64? {
        if _Concurrency.Task.isCancelled { throw .cancelled }
        var ticket: UInt64?
        while true {
            let latch = FluxLatch()
            switch attempt(action, latch, ticket: ticket) {
            case .failed(let error): throw error
            case .waitsForRoom(let id):
                await latch.wait()
                ticket = id
            case .applied(let revision, nil): return revision
            case .applied(let revision, let id?):
                await latch.wait()
                // Told, and cancelled as well: it is on disk.
                if _Concurrency.Task.isCancelled, lock.withLock({ $0.withdraw(id) }) {
                    throw .unconfirmed(revision: revision)
                }
                return revision
            }
        }
    }

    /// Applies an action if it is its turn, and otherwise says what to wait for.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - latch: What is left once the wait is over.
    ///   - ticket: What an earlier attempt was given to wait for room.
    /// - Returns: What came of it.
    @inlinable
    func attempt(_ action: State.Action, _ latch: FluxLatch, ticket: UInt64?) -> Attempt {
        latch.enter()
        return handle.withAccess { access in
            let obstacle = lock.withLock { machine -> Attempt? in
                if machine.isClosed { return .failed(.logNotRead(machine.restoration)) }
                if let ticket { return machine.redeem(ticket) ? nil : .failed(.cancelled) }
                return machine.wait(for: .room, latch).map { .waitsForRoom(id: $0) }
            }
            if let obstacle { return obstacle }
            let revision = access.apply(.action(action), pastGate: true)
            return .applied(revision: revision, id: lock.withLock { $0.wait(for: .writes, latch) })
        }
    }
}
