import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// A member for each key, created on first request and evicted when unused: a store per room, session or document.
///
/// ```swift
/// let rooms = FluxFamily(idle: .seconds(60), limit: 10_000) { (id: String) in
///     try await FluxStore.restored(from: file(of: id), initialState: Room(), dispatcher: nil)
/// }
/// try await rooms.with("r1") { store in store.dispatch(action: .bid(7)) }  // open for as long as the closure runs
/// let report = await rooms.shutdown(within: .seconds(10))
/// ```
///
/// A key's member is created once, however many callers request it at the same time. It stays open while any lease on
/// it exists, and after that for the `idle` time, unless the `limit`, ``close(_:)`` or ``shutdown(within:)`` ends it
/// earlier. Then its key is no longer open; the member is closed (a store is flushed) and released. Callers that
/// request the key in the meantime wait until that is done and get a new member, so two members of one key are never
/// open at once.
///
/// A member that cannot be closed stays, and the failure is reported. Closing is tried again after the `idle` time, or
/// after one second if that is zero; only callers that request its key have to wait for an attempt. A store that can
/// never be saved again (its `flush()` returns, and it still is not saved) is released at the next attempt, which fails
/// too. The next caller that requests its key gets a new store, created from what is stored.
///
/// As a source, its state is the open members by key. Its observers are notified before a member is closed, and keep no
/// member open. They may still receive old members for a short time, and a value of `state` keeps its members in
/// memory. So does a view while it reads. The next member of a key may be created in the meantime.
///
/// Creating and closing run in their own tasks, and may request other keys of the family. A task that requests its own
/// key waits for itself until it is cancelled. Keys are hashed and compared while a lock of the family is held, so this
/// code may use neither the family nor any store. One task sleeps for all members, as long as any member is open and
/// unused.
///
/// A lease keeps the family in memory, and so does a member that is being created or closed. When the last reference is
/// released, every open member is closed once. A program that ends right after that does not wait for this; call
/// ``shutdown(within:)`` to wait.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxFamily<Key: Hashable & Sendable, Member: Sendable>: FluxSource {
    typealias Machine = FluxFamilyMachine<Key, Member, FluxFamilyPromise<Int>, FluxFamilyPromise<Bool>>

    /// What the user passed in.
    private struct Ways: Sendable {
        let make: @Sendable (Key) async throws -> Member
        let close: @Sendable (Member) async throws -> Void
        let onFailure: (@Sendable (Key, any Swift.Error) -> Void)?
    }

    /// The open members: a store, so that they can be read and watched in every way that a store can.
    let open = FluxStore(initialState: FluxFamilyMembers<Key, Member>(), dispatcher: nil)
    private let ways: Ways
    private let clock: any _Concurrency.Clock<Swift.Duration>
    private let timer: FluxFamilyTimer
    private let machine: FluxLock<Machine>
    /// The one task that sleeps until the next member is due.
    private let sleeper = FluxLock<_Concurrency.Task<Void, Never>?>(nil)

    private init(
        _ idle: Swift.Duration, _ limit: Int, _ clock: any _Concurrency.Clock<Swift.Duration>, _ ways: Ways
    ) {
        if idle < .zero { fatalError("FluxCore: FluxFamily: idle cannot be negative (\(idle)). Give .zero or more.") }
        if limit < 0 { fatalError("FluxCore: FluxFamily: limit cannot be negative (\(limit)). Give 0 or more.") }
        (self.ways, self.clock, timer) = (ways, clock, FluxFamilyTimer(clock))
        machine = FluxLock(Machine(idle: idle, limit: limit))
    }

    /// No lease is left, and no member is being created or closed: each of these would keep the family.
    deinit {
        let (sleeping, members) = (sleeper.withLock { $0 }, machine.withLock { $0.members })
        // The family may be released inside `handle(action:)`, and the cancellation calls the user's clock.
        FluxPureCode.after { [open, ways] in
            sleeping?.cancel()
            for (key, member) in members {
                open.dispatch(action: .closed(key))
                _Concurrency.Task.detached {
                    do { try await ways.close(member) } catch {
                        ways.onFailure?(key, (error as? FluxFamilyLoss)?.error ?? error)
                    }
                }
            }
        }
    }

    // MARK: - Creating

    /// Creates a family of members of any type.
    ///
    /// ```swift
    /// let desks = FluxFamily { (id: String) in try await Desk(id) } close: { desk in try await desk.save() }
    /// ```
    ///
    /// - Parameters:
    ///   - idle: How long an unused member stays open.
    ///   - limit: The maximum number of open members. If there are more, unused members are closed at once, the least
    ///     recently used first. A member in use is never closed, so there may be more for a while.
    ///   - clock: The clock that measures durations.
    ///   - onFailure: Called for each member that could not be closed, on any thread, after the callers that wait for
    ///     the closing have been notified.
    ///   - make: Creates the member of a key, a new one at each call. An error is thrown to all callers that wait for
    ///     the member, and the next request tries again.
    ///   - close: Prepares a member for its release, for example by saving it; throws if the member has to stay.
    public convenience init(
        idle: Swift.Duration = .seconds(60),
        limit: Int = .max,
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ key: Key, _ error: any Swift.Error) -> Void)? = nil,
        make: @escaping @Sendable (_ key: Key) async throws -> Member,
        close: @escaping @Sendable (_ member: Member) async throws -> Void
    ) {
        self.init(idle, limit, clock, Ways(make: make, close: close, onFailure: onFailure))
    }

    /// Creates a family of stores, each of which is flushed before it is released.
    ///
    /// After the flush, the store is detached from its dispatcher, and changes that arrived in the meantime are saved
    /// too. A store that cannot be saved stays attached. Only if the failure occurs after the store was detached is it
    /// attached again, with priority 0, and under its former name unless another store has taken that. It is not
    /// attached again if other code has attached it in the meantime.
    ///
    /// - Parameters:
    ///   - idle: How long an unused store stays open.
    ///   - limit: The maximum number of open stores. If there are more, unused stores are closed at once, the least
    ///     recently used first. A store in use is never closed, so there may be more for a while.
    ///   - clock: The clock that measures durations.
    ///   - onFailure: Called for each store that could not be saved, on any thread, after the callers that wait for the
    ///     closing have been notified. The store's persistence reports the failure as well.
    ///   - make: Creates the store of a key, a new one at each call. An error is thrown to all callers that wait for
    ///     the store, and the next request tries again.
    public convenience init<State>(
        idle: Swift.Duration = .seconds(60),
        limit: Int = .max,
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ key: Key, _ error: any Swift.Error) -> Void)? = nil,
        make: @escaping @Sendable (_ key: Key) async throws -> Member
    ) where Member == FluxStore<State> {
        self.init(
            idle, limit, clock,
            Ways(
                make: make,
                close: { store in
                    let info = FluxStoreInfo(store.handle)
                    let fate = store.handle.feature(FluxFamilyFate.self, FluxFamilyFate.init)
                    // Saved first while it is attached: a store that cannot be saved then misses no action.
                    var error = await store.handle.failure()
                    var (dispatcher, name, place): (FluxDispatcher?, String?, UInt64?)
                    if error == nil {
                        // Detached before the last save: an action that arrived after it would not be saved. Read only
                        // now, and again if the store has been moved in the meantime.
                        repeat {
                            (dispatcher, name) = (info.dispatcher, info.name)
                        } while dispatcher?.detach(store) == false
                        place = info.place
                        error = await store.handle.failure()
                    }
                    if let error {
                        if fate.isLost {
                            info.dispatcher?.detach(store)
                            await fate.close()
                            throw FluxFamilyLoss(error: error)
                        }
                        fate.look(at: store)
                        // Not if other code has attached it in the meantime. With its name atomically, if the name is
                        // still free.
                        if let dispatcher, info.dispatcher == nil, info.place == place {
                            let isNamed = name.map { (try? dispatcher.attach(store, as: $0)) != nil } ?? false
                            if !isNamed { dispatcher.attach(store) }
                        }
                        throw error
                    }
                    await store.flush()
                    await fate.close()
                }, onFailure: onFailure))
    }

    // MARK: - Using members

    /// The keys whose members are open.
    ///
    /// - Complexity: O(*n*) for *n* open keys.
    public var keys: Swift.Set<Key> {
        FluxPureCode.forbid("keys of a FluxFamily")
        // Not read from `state`: a copy would keep the members in memory while the next member of a key may be created.
        return open.handle.withAccess { Swift.Set($0.state.members.keys) }
    }

    /// Runs a closure with the member of a key, which stays open while the closure runs.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - actor: Where the closure runs: the caller's isolation.
    ///   - body: Receives the member; must not keep it.
    /// - Returns: What the closure returns.
    /// - Throws: The error of the closure; the error from creating the member; a ``FluxFamilyError``;
    ///   `CancellationError`, immediately, if the task is cancelled before the closure runs.
    /// - Complexity: O(1) for an open member.
    @discardableResult public func with<Result>(
        _ key: Key, isolation actor: isolated (any _Concurrency.Actor)? = #isolation,
        _ body: (_ member: Member) async throws -> Result
    ) async throws -> Result {
        let slot = try await ask(for: key, isolation: actor)
        defer { release(slot) }
        // The task may have been cancelled since it was given the slot.
        try _Concurrency.Task.checkCancellation()
        // Not kept in a constant: once the slot is released, the member may be released and a new one created.
        return try await body(member(of: slot))
    }

    /// Takes a lease on the member of a key, which stays open until `release()` is called or the lease is deallocated.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - actor: Where the call resumes: the caller's isolation.
    /// - Returns: The lease.
    /// - Throws: The error from creating the member; a ``FluxFamilyError``; `CancellationError`, immediately, if the
    ///   task is cancelled.
    /// - Complexity: O(1) for an open member.
    public func lease(
        _ key: Key, isolation actor: isolated (any _Concurrency.Actor)? = #isolation
    ) async throws -> FluxLease<Member> {
        let slot = try await ask(for: key, isolation: actor)
        return FluxLease(member(of: slot)) { self.release(slot) }
    }

    // MARK: - Closing

    /// Closes the member of a key and evicts it, as soon as no lease on it is left.
    ///
    /// Waits until all leases have ended, but does not stop other callers from taking new ones. Inside
    /// ``with(_:isolation:_:)`` of the same key, it therefore waits forever. Returns immediately if the key has no
    /// member and none is being created.
    ///
    /// - Parameter key: The key.
    /// - Throws: The error from closing the member, or the reason why its store could not be saved. The member then
    ///   stays, unless an earlier attempt has shown that it can never be saved. `CancellationError`, immediately, if
    ///   the task is cancelled; a closing that has begun continues.
    public func close(_ key: Key) async throws {
        try _Concurrency.Task.checkCancellation()
        let waiter = FluxFamilyPromise<Bool>()
        let (place, effects) = machine.withLock { $0.close(key, waiter) }
        perform(effects)
        guard let place else { return }
        defer { machine.withLock { $0.withdraw(place.id, from: place.slot) } }
        _ = try await waiter.wait()
    }

    /// Creates no more members, closes all existing ones, and waits for this for a limited time.
    ///
    /// Members in use are closed once their leases are released, even if this call has returned by then. Members that
    /// are being created are closed once they exist, and the callers that wait for them are refused at once.
    ///
    /// - Parameter duration: How long to wait, by the family's clock; cancelling the task ends the wait earlier.
    /// - Returns: The outcome for each member.
    /// - Complexity: O(*n*) for *n* members, which are all closed concurrently.
    @discardableResult public func shutdown(within duration: Swift.Duration) async -> FluxFamilyShutdown<Key> {
        let deadline = timer.now() + Self.checked(duration)
        let (told, effects) = machine.withLock { $0.shutDown { FluxFamilyPromise() } }
        perform(effects)
        let latches = told.map(\.waiter.latch)
        // Not awaited: a user's clock may continue to sleep despite the cancellation. So it keeps no key.
        let sleeping = _Concurrency.Task { [timer] in
            await timer.sleep(deadline)
            for latch in latches { latch.open() }
        }
        for latch in latches { await latch.wait() }
        sleeping.cancel()
        var report = FluxFamilyShutdown<Key>()
        for (key, waiter) in told {
            switch waiter.answer {
            case .success(true): report.closed.append(key)
            case .success(false): break
            case .failure(let error): report.failed[key] = error
            case nil: report.late.append(key)
            }
        }
        return report
    }

    // MARK: - Carrying out what the machine decides

    /// Takes a lease and returns its slot; runs in the caller's isolation, so an open member costs no switch of
    /// threads.
    private func ask(for key: Key, isolation actor: isolated (any _Concurrency.Actor)?) async throws -> Int {
        if key != key { throw FluxFamilyError.unequalToItself(key: "\(key)") }
        try _Concurrency.Task.checkCancellation()
        let (answer, effects) = machine.withLock { $0.ask(key) { FluxFamilyPromise() } }
        perform(effects)
        guard let (slot, id, visitor) = answer else { throw FluxFamilyError.shutDown(key: "\(key)") }
        guard let visitor else { return slot }
        defer { machine.withLock { $0.withdraw(id, from: slot) } }
        return try await visitor.wait()
    }

    /// The member of a slot that is leased or being closed, which therefore has one.
    private func member(of slot: Int) -> Member { machine.withLock { $0.member(of: slot)! } }

    private func release(_ slot: Int) {
        let now = timer.now()
        perform(machine.withLock { $0.release(slot, at: now) })
    }

    /// Carries out effects; one party at a time updates the store of the open members for a key.
    ///
    /// It is updated by the task that created the member, then by the caller that begins to close it, then by the task
    /// that finds that it has to stay.
    private func perform(_ effects: [Machine.Effect]) {
        for effect in effects {
            switch effect {
            // Detached, because the member is not only for the task that happens to request it first.
            case .make(let slot, let key):
                _Concurrency.Task.detached { self.perform(await self.make(slot, key)) }
            case .close(let slot, let key):
                // First of all, so that observers are notified and can release the member.
                open.dispatch(action: .closed(key))
                _Concurrency.Task.detached { await self.putAway(slot, key) }
            case .admit(let visitors, let slot):
                // A visitor that has given up in the meantime has no use for the lease.
                for visitor in visitors where !visitor.give(.success(slot)) { release(slot) }
            case .refuse(let visitors, let error): for visitor in visitors { visitor.give(.failure(error)) }
            case .turnAway(let visitors, let key):
                for visitor in visitors { visitor.give(.failure(FluxFamilyError.shutDown(key: "\(key)"))) }
            case .answer(let waiters, let result): for waiter in waiters { waiter.give(result) }
            case .sleep: sleep()
            case .end: open.dispatch(action: .ended)
            }
        }
    }

    /// Creates the member of a slot; once this has returned, its task no longer keeps the member.
    private func make(_ slot: Int, _ key: Key) async -> [Machine.Effect] {
        var result: Swift.Result<Member, any Swift.Error>?
        do {
            let member = try await ways.make(key)
            open.dispatch(action: .opened(key, member))
            result = .success(member)
        } catch {
            result = .failure(error)
        }
        let now = timer.now()
        // The machine takes the member over: from here on it may be closed and another one created.
        return machine.withLock { $0.made(slot, Swift.exchange(&result, with: nil)!, at: now) }
    }

    private func putAway(_ slot: Int, _ key: Key) async {
        guard let error = await close(slot, key) else { return perform(closed(slot)) }
        let (loss, now) = ((error as? FluxFamilyLoss)?.error, timer.now())
        // The waiting callers are answered first: the report of a shutdown must not depend on how long the user's
        // function takes.
        perform(loss.map { closed(slot, .failure($0)) } ?? machine.withLock { $0.kept(slot, error, at: now) })
        ways.onFailure?(key, loss ?? error)
    }

    /// Closes a member, which this task does not keep any more when this returns; returns the error if it has to stay.
    private func close(_ slot: Int, _ key: Key) async -> (any Swift.Error)? {
        let member = member(of: slot)
        do {
            try await ways.close(member)
            return nil
        } catch {
            // Before the machine is updated, as when the member was created.
            if !(error is FluxFamilyLoss) { open.dispatch(action: .opened(key, member)) }
            return error
        }
    }

    /// Releases a member before another one is created in its place: it may hold an exclusive resource.
    private func closed(
        _ slot: Int, _ result: Swift.Result<Bool, any Swift.Error> = .success(true)
    ) -> [Machine.Effect] {
        _ = machine.withLock { $0.takeMember(of: slot, result) }
        return machine.withLock { $0.closed(slot, result) }
    }

    private func sleep() {
        // Started while the lock is held: otherwise a task that ends before it is stored here could replace its
        // successor.
        sleeper.withLock { sleeper in
            sleeper = _Concurrency.Task.detached { [weak self, timer] in
                while let due = self?.machine.withLock({ $0.nextDue() }) {
                    await timer.sleep(due)
                    self?.wake(Swift.max(due, timer.now()))
                }
            }
        }
    }

    private func wake(_ now: Swift.Duration) { perform(machine.withLock { $0.wake(at: now) }) }

    // MARK: - Following

    /// The open members by key; a copy keeps them in memory, but not open.
    ///
    /// - Complexity: O(1); while a copy is kept, the next opened or closed key costs O(*n*) for *n* open members.
    public var state: [Key: Member] { open.state.members }

    /// A number that grows with each key that is opened or closed.
    public var stamp: UInt64 { open.stamp }

    /// The store that holds the open members.
    public var stores: [FluxStoreInfo] { open.stores }

    /// Reads the open members for a cut.
    ///
    /// - Parameter cut: The cut, with what it has read so far.
    /// - Returns: A closure that returns the members.
    public func capture(in cut: FluxCut) -> @Sendable () -> [Key: Member] {
        let read = open.capture(in: cut)
        return { read().members }
    }

    /// Calls a closure for every key that is opened or closed.
    ///
    /// - Parameter changed: Called at each change while a lock is held. Returns the object to settle once the lock is
    ///   free, before a member is closed.
    /// - Returns: The token; the calls end when it is released.
    public func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
        open.watch(changed)
    }

    /// Calls a handler with the open members whenever one is opened or closed.
    ///
    /// - Parameters:
    ///   - delivery: What to deliver if changes come faster than they are handled; pending deliveries keep their
    ///     members in memory.
    ///   - queue: Where to call the handler; nil for the family's own serial queue.
    ///   - startingWithCurrent: Whether the first call gets the members that are open now.
    ///   - ended: Called after the last change; may be nil.
    ///   - handler: Receives the members by key.
    /// - Returns: The token of the subscription. Keep it: the subscription ends when the token is released.
    /// - Complexity: O(*n*) for *n* open members with each key that is opened or closed while a call of the handler is
    ///   running or pending, because that call holds the members from before. If many members come and go, ``changes``
    ///   costs O(1) for each.
    public func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable ([Key: Member]) -> Void
    ) -> FluxSubscription {
        open.subscribe(delivery, on: queue, startingWithCurrent: startingWithCurrent, ended: ended) {
            handler($0.members)
        }
    }

    /// Waits until every key opened or closed so far has been delivered to every subscription, or the task is
    /// cancelled.
    ///
    /// Subscriptions to parts and bounded subscriptions, of `FluxObservation`, have accepted the change by then, but
    /// may not have delivered it yet. This does not flush the members; see ``flush(within:)``.
    public func flush() async { await open.flush() }

    /// Flushes all stores within a time limit, and closes none.
    ///
    /// Stores that are being closed are included, and stores that are being created are not.
    ///
    /// If the family was given its own `close`, a store is kept in memory while it is flushed, even if it is closed and
    /// another one created in the meantime.
    ///
    /// - Parameter duration: The time limit, by the family's clock.
    /// - Returns: Whether everything was flushed.
    public func flush<State>(within duration: Swift.Duration) async -> Bool where Member == FluxStore<State> {
        let deadline = timer.now() + Self.checked(duration)
        var isDone = true
        let (keys, losses) = machine.withLock { ($0.members.map(\.key), $0.losses) }
        // One after the other: each store writes independently, so this takes no longer than the slowest one. A store
        // that waits for its turn is not retained here, so it may be closed (and thereby flushed) and created again.
        for key in keys {
            let fate = machine.withLock { machine in
                let fate = machine.member(for: key)?.handle.feature(FluxFamilyFate.self, FluxFamilyFate.init)
                // A lost store may still wait for another flush to end before it is counted as a loss.
                if fate?.isLost == true { isDone = false }
                return fate?.enter() == true ? fate : nil
            }
            guard let fate else { continue }
            isDone = await isFlushed(key, until: deadline) && isDone
            fate.leave()
        }
        return isDone && machine.withLock { $0.losses } == losses
    }

    /// A separate function, so that nothing keeps the store after it returns.
    private func isFlushed<State>(
        _ key: Key, until deadline: Swift.Duration
    ) async -> Bool where Member == FluxStore<State> {
        guard let store = machine.withLock({ $0.member(for: key) }) else { return true }
        return await store.flush(within: Swift.max(.zero, deadline - timer.now()), clock: clock)
    }

    private static func checked(_ duration: Swift.Duration) -> Swift.Duration {
        if duration >= .zero { return Swift.min(duration, FluxFamilyTimer.longest) }
        fatalError("FluxCore: FluxFamily: a duration cannot be negative (\(duration)). Give .zero or more.")
    }
}

/// Reports that a store that can never be saved was released, with its unsaved changes.
nonisolated private struct FluxFamilyLoss: Swift.Error {
    let error: any Swift.Error
}

/// The outcome of shutting down a ``FluxFamily``, key by key.
///
/// Thread safety: a value.
nonisolated public struct FluxFamilyShutdown<Key: Hashable & Sendable>: Sendable {
    /// The keys whose members were closed and released.
    public internal(set) var closed: [Key] = []
    /// The keys that could not be closed, with the errors; they are tried again, except stores that can never be saved.
    public internal(set) var failed: [Key: any Swift.Error] = [:]
    /// The keys that were still in use, being created or being closed; they are evicted once that has ended.
    public internal(set) var late: [Key] = []
}

/// Why a ``FluxFamily`` refuses a request.
///
/// Thread safety: a value.
nonisolated public enum FluxFamilyError: Swift.Error, Equatable, CustomStringConvertible {
    /// The family was shut down, so it has no member of the key any more.
    case shutDown(key: String)
    /// The key does not equal itself (a NaN, for example), so its member would not be found again.
    case unequalToItself(key: String)

    /// A message for a log that says what happened and what to do instead.
    public var description: String {
        switch self {
        case .shutDown(let key):
            "The family was shut down, so \"\(key)\" cannot be opened: ask for members before you call shutdown(within:)."
        case .unequalToItself(let key):
            "The key \"\(key)\" does not equal itself, so its member could not be found again: use another key."
        }
    }
}
