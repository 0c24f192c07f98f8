import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// A member for each key, made when it is first asked for and put away when nobody needs it any longer: a store for each room,
/// session or document.
///
/// ```swift
/// let rooms = FluxFamily(idle: .seconds(60), limit: 10_000) { (id: String) in
///     try await FluxStore.restored(from: file(of: id), initialState: Room(), dispatcher: nil)
/// }
/// try await rooms.with("r1") { store in store.dispatch(action: .bid(7)) }  // open for as long as the closure runs
/// let report = await rooms.shutdown(within: .seconds(10))
/// ```
///
/// A key is made once however many ask for it at the same time. A member is open as long as anybody has a lease, and for a while
/// after that. Then its key is open no longer, it is closed (a store is flushed), and let go of. Who asks meanwhile waits until that is
/// done and gets it anew, so that no two members of one key are there at once. A member that cannot be closed stays, is told of, and is
/// tried again after the same while; it holds up nobody but those who ask for its key. A store that can never be saved any more, as
/// its `flush()` ends and it is not, is let go of at the next attempt, which fails too: who asks then has it made anew of what is stored.
///
/// As a source its state is the open members by their keys: what watches it is told before a member is closed, and keeps none of them
/// open. It may be handed old members for a moment, and `state` keeps in memory what it had; so does a view while it reads, and the
/// next member of a key may be made meanwhile.
///
/// Making and closing run in tasks of their own, and may ask the family for another key; one that asks for its own waits for itself, until
/// it is cancelled. Keys are hashed and compared under a lock of the family, so that may use neither it nor any store. One task sleeps
/// for all members, while any is open and not in use.
///
/// A lease keeps the family, and so does what is being made or closed. When the last reference is gone, all that is open is closed
/// once; but a program that ends right after that does not wait for it: ``shutdown(within:)`` does.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxFamily<Key: Hashable & Sendable, Member: Sendable>: FluxSource {
    typealias Machine = FluxFamilyMachine<Key, Member, FluxFamilyPromise<Int>, FluxFamilyPromise<Bool>>

    /// What the user gave.
    private struct Ways: Sendable {
        let make: @Sendable (Key) async throws -> Member
        let close: @Sendable (Member) async throws -> Void
        let onFailure: (@Sendable (Key, any Swift.Error) -> Void)?
    }

    /// The open members: a store, so that it is read and watched in all the ways a store is.
    let open = FluxStore(initialState: FluxFamilyMembers<Key, Member>(), dispatcher: nil)
    private let ways: Ways
    private let clock: any _Concurrency.Clock<Swift.Duration>
    private let timer: FluxFamilyTimer
    private let machine: FluxLock<Machine>
    /// Sleeps until the next is due, for all of them.
    private let sleeper = FluxLock<_Concurrency.Task<Void, Never>?>(nil)

    private init(
        _ idle: Swift.Duration, _ limit: Int, _ clock: any _Concurrency.Clock<Swift.Duration>, _ ways: Ways
    ) {
        if idle < .zero { fatalError("FluxCore: FluxFamily was given a negative idle, \(idle). Give .zero or more.") }
        if limit < 0 { fatalError("FluxCore: FluxFamily was given a negative limit, \(limit). Give 0 or more.") }
        (self.ways, self.clock, timer) = (ways, clock, FluxFamilyTimer(clock))
        machine = FluxLock(Machine(idle: idle, limit: limit))
    }

    /// Nobody has a lease, and nothing is being made or closed: each of these keeps the family.
    deinit {
        let (sleeping, members) = (sleeper.withLock { $0 }, machine.withLock { $0.members })
        // It may be let go of in a `handle(action:)`, and a clock of the user's is told of the cancellation.
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

    /// Makes a family of members of any type.
    ///
    /// ```swift
    /// let desks = FluxFamily { (id: String) in try await Desk(id) } close: { desk in try await desk.save() }
    /// ```
    ///
    /// - Parameters:
    ///   - idle: How long a member that nobody uses stays open.
    ///   - limit: How many members are to be open at most: where there are more, those that nobody uses go at once, the one
    ///     used longest ago first. One in use never goes, so there may be more for a while.
    ///   - clock: What durations are measured with.
    ///   - onFailure: Told of each member that could not be closed, on any thread, once those who wait for that were.
    ///   - make: Makes the member of a key, another at each call. What it throws is thrown to all who wait for it, and the next who
    ///     asks tries again.
    ///   - close: Does what is to be done before a member is let go of, such as saving it; throws where it has to stay.
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

    /// Makes a family of stores, each of which is flushed before it is let go of.
    ///
    /// Then it is detached from its dispatcher, and what came meanwhile is saved too. One that cannot be saved stays where it is. Only
    /// where that shows after it was detached, it is attached again, with priority 0, under the name that it had unless another has
    /// got that meanwhile, and not at all if it was attached to one meanwhile.
    ///
    /// - Parameters:
    ///   - idle: How long a store that nobody uses stays open.
    ///   - limit: How many stores are to be open at most: where there are more, those that nobody uses go at once, the one
    ///     used longest ago first. One in use never goes, so there may be more for a while.
    ///   - clock: What durations are measured with.
    ///   - onFailure: Told of each store that could not be saved, on any thread, once those who wait for that were; its persistence tells
    ///     of what failed anyway.
    ///   - make: Makes the store of a key, another at each call. What it throws is thrown to all who wait for it, and the next who
    ///     asks tries again.
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
                    // First where it is: one that cannot be saved misses nothing.
                    var error = await store.handle.failure()
                    // Only now: it may have been moved meanwhile.
                    var (dispatcher, name) = error == nil ? (info.dispatcher, info.name) : (nil, nil)
                    var place: UInt64?
                    if error == nil {
                        // What is dispatched from here on is not for it: it would come after what is saved.
                        while let home = dispatcher, !home.detach(store) {
                            (dispatcher, name) = (info.dispatcher, info.name)
                        }
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
                        // Unless somebody has attached it meanwhile; by its name in one step, if no other has got that.
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

    /// The keys that are open.
    ///
    /// - Complexity: O(*n*) for *n* of them.
    public var keys: Swift.Set<Key> {
        FluxPureCode.forbid("keys of a FluxFamily")
        // Not from `state`: a copy would keep the members in memory, and the next of a key could be made meanwhile.
        return open.handle.withAccess { Swift.Set($0.state.members.keys) }
    }

    /// Runs a closure on the member of a key, which is open for as long as that runs.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - actor: Where the closure runs: where this is called.
    ///   - body: Gets the member; may not keep it.
    /// - Returns: What the closure returns.
    /// - Throws: What the closure throws; what making the member has thrown; a ``FluxFamilyError``;
    ///   `CancellationError`, at once, where the task is cancelled before the closure runs.
    /// - Complexity: O(1) for one that is open.
    @discardableResult public func with<Result>(
        _ key: Key, isolation actor: isolated (any _Concurrency.Actor)? = #isolation,
        _ body: (_ member: Member) async throws -> Result
    ) async throws -> Result {
        let slot = try await ask(for: key, isolation: actor)
        defer { release(slot) }
        // It may have been cancelled since it was given the slot.
        try _Concurrency.Task.checkCancellation()
        // Not kept here: with the release it may be let go of, and be made anew.
        return try await body(member(of: slot))
    }

    /// Takes a lease of the member of a key, which is open until that is released or let go of.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - actor: Where to come back to: where this is called.
    /// - Returns: The lease.
    /// - Throws: What making the member has thrown; a ``FluxFamilyError``; `CancellationError`, at once, where the
    ///   task is cancelled.
    /// - Complexity: O(1) for one that is open.
    public func lease(
        _ key: Key, isolation actor: isolated (any _Concurrency.Actor)? = #isolation
    ) async throws -> FluxLease<Member> {
        let slot = try await ask(for: key, isolation: actor)
        return FluxLease(member(of: slot)) { self.release(slot) }
    }

    // MARK: - Putting away

    /// Puts the member of a key away, as soon as nobody has a lease of it.
    ///
    /// It waits for those who have one, and does not keep others from taking one meanwhile; so it waits for good inside ``with(_:isolation:_:)``
    /// of the same key. A key that is not open is none to wait for.
    ///
    /// - Parameter key: The key.
    /// - Throws: What closing the member has thrown, or why its store could not be saved: it stays then, unless that is known to be for
    ///   good from an attempt before; `CancellationError`, at once, where the task is cancelled: a member that is being closed then still is.
    public func close(_ key: Key) async throws {
        try _Concurrency.Task.checkCancellation()
        let closer = FluxFamilyPromise<Bool>()
        let (place, effects) = machine.withLock { $0.close(key, closer) }
        perform(effects)
        guard let place else { return }
        defer { machine.withLock { $0.withdraw(place.id, from: place.slot) } }
        _ = try await closer.wait()
    }

    /// Makes no more members, puts away all that are there, and waits for that for so long.
    ///
    /// Those that are in use are put away once their leases are released, after this has returned too. Those that are being made
    /// are put away once they are made, and who waits for one is refused at once.
    ///
    /// - Parameter duration: How long to wait, by the clock of the family; the task may be cancelled before.
    /// - Returns: What has become of each member.
    /// - Complexity: O(*n*) for *n* members, which are closed all at once.
    @discardableResult public func shutdown(within duration: Swift.Duration) async -> FluxFamilyShutdown<Key> {
        let deadline = timer.now() + Self.checked(duration)
        let (told, effects) = machine.withLock { $0.shutDown { FluxFamilyPromise() } }
        perform(effects)
        let waiting = _Concurrency.Task { for (_, closer) in told { await closer.latch.wait() } }
        // Not waited for: a clock of the user's may go on sleeping all the same.
        let sleeping = _Concurrency.Task { [timer] in
            await timer.sleep(deadline)
            waiting.cancel()
        }
        await withTaskCancellationHandler {
            await waiting.value
        } onCancel: {
            waiting.cancel()
        }
        sleeping.cancel()
        var report = FluxFamilyShutdown<Key>()
        for (key, closer) in told {
            switch closer.answer {
            case .success(true): report.closed.append(key)
            case .success(false): break
            case .failure(let error): report.failed[key] = error
            case nil: report.late.append(key)
            }
        }
        return report
    }

    // MARK: - What the machine decides

    /// Takes a lease, and returns its slot; where it is called, so that an open member costs no way to another thread and back.
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

    /// The member of a slot that there is a lease of, or that is being closed, so that it is there.
    private func member(of slot: Int) -> Member { machine.withLock { $0.member(of: slot)! } }

    private func release(_ slot: Int) {
        let now = timer.now()
        perform(machine.withLock { $0.release(slot, at: now) })
    }

    /// Of each key one at a time tells the store of the open members: who has made it, then who begins to close it, then who has found
    /// that it stays.
    private func perform(_ effects: [Machine.Effect]) {
        for effect in effects {
            switch effect {
            // Detached: it is not for the task alone that happens to be the first.
            case .make(let slot, let key):
                _Concurrency.Task.detached { self.perform(await self.make(slot, key)) }
            case .close(let slot, let key):
                // First of all: who watches is told, and lets go of the member soon.
                open.dispatch(action: .closed(key))
                _Concurrency.Task.detached { await self.putAway(slot, key) }
            case .admit(let visitors, let slot):
                // Who gave up in the meantime has no use for it.
                for visitor in visitors where !visitor.give(.success(slot)) { release(slot) }
            case .refuse(let visitors, let error): for visitor in visitors { visitor.give(.failure(error)) }
            case .turnAway(let visitors, let key):
                for visitor in visitors { visitor.give(.failure(FluxFamilyError.shutDown(key: "\(key)"))) }
            case .answer(let closers, let result): for closer in closers { closer.give(result) }
            case .sleep: sleep()
            case .end: open.dispatch(action: .ended)
            }
        }
    }

    /// Makes a member, which nobody but the machine keeps when this returns.
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
        // Handed over: from here on it may be closed and another made.
        return machine.withLock { $0.made(slot, Swift.exchange(&result, with: nil)!, at: now) }
    }

    private func putAway(_ slot: Int, _ key: Key) async {
        guard let error = await close(slot, key) else { return perform(closed(slot)) }
        let (loss, now) = ((error as? FluxFamilyLoss)?.error, timer.now())
        // Those who wait are answered first: what a shutdown finds must not hang on how long the user's function takes.
        perform(loss.map { closed(slot, .failure($0)) } ?? machine.withLock { $0.kept(slot, error, at: now) })
        ways.onFailure?(key, loss ?? error)
    }

    /// Closes a member, which nobody but the machine keeps when this returns; the error that it stays with.
    private func close(_ slot: Int, _ key: Key) async -> (any Swift.Error)? {
        let member = member(of: slot)
        do {
            try await ways.close(member)
            return nil
        } catch {
            // Before the machine says so, as when it was made.
            if !(error is FluxFamilyLoss) { open.dispatch(action: .opened(key, member)) }
            return error
        }
    }

    /// Lets go of a member, before another is made in its place: it may hold what there is only one of.
    private func closed(
        _ slot: Int, _ result: Swift.Result<Bool, any Swift.Error> = .success(true)
    ) -> [Machine.Effect] {
        _ = machine.withLock { $0.takeMember(of: slot, result) }
        return machine.withLock { $0.closed(slot, result) }
    }

    private func sleep() {
        // Started with the lock held: else one that ended before it was noted here would be noted in the place of the next.
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

    /// The open members by their keys; keeps them in memory, but not open.
    ///
    /// - Complexity: O(1); the next key that is opened or closed meanwhile costs O(*n*) for *n* of them.
    public var state: [Key: Member] { open.state.members }

    /// Grows with each key that is opened or closed.
    public var stamp: UInt64 { open.stamp }

    /// What holds the open members.
    public var stores: [FluxStoreInfo] { open.stores }

    /// Reads the open members for a cut.
    ///
    /// - Parameter cut: What was read before.
    /// - Returns: Hands out the members.
    public func capture(in cut: FluxCut) -> @Sendable () -> [Key: Member] {
        let read = open.capture(in: cut)
        return { read().members }
    }

    /// Tells of every key that is opened or closed.
    ///
    /// - Parameter changed: Called under a lock at each change; returns whom to settle once that is free, before a member is closed.
    /// - Returns: The token, which ends it when it goes.
    public func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription {
        open.watch(changed)
    }

    /// Calls a handler with the open members whenever one is opened or closed.
    ///
    /// - Parameters:
    ///   - delivery: What to get where changes come faster than they are taken; what waits keeps its members in memory.
    ///   - queue: Where to call the handler; nil: on a serial queue of the family's own.
    ///   - startingWithCurrent: Whether to be called with the members that are open first.
    ///   - ended: Called after the last change; nil where nobody asks.
    ///   - handler: Gets the members by their keys.
    /// - Returns: The token of the subscription, which ends when the token goes: keep it.
    /// - Complexity: O(*n*) for *n* open members with each key that is opened or closed while the handler runs or is due, as it
    ///   has those of before; where many come and go, ``changes`` costs O(1) for each.
    public func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable ([Key: Member]) -> Void
    ) -> FluxSubscription {
        open.subscribe(delivery, on: queue, startingWithCurrent: startingWithCurrent, ended: ended) {
            handler($0.members)
        }
    }

    /// Waits until every key that was opened or closed before has been handed to every subscription, or the task is cancelled.
    ///
    /// Those to parts and those with a bound, of `FluxObservation`, have taken it by then, and may not have delivered it yet. The
    /// members are not flushed by it: see ``flush(within:)``.
    public func flush() async { await open.flush() }

    /// Waits until all stores are flushed, those being put away too and those being made not, for so long at most; they stay open.
    ///
    /// Of a family that was given its own `close` it keeps each store while it flushes that, though it be closed and another made.
    ///
    /// - Parameter duration: How long, by the clock of the family.
    /// - Returns: Whether all of it was done.
    public func flush<State>(within duration: Swift.Duration) async -> Bool where Member == FluxStore<State> {
        let deadline = timer.now() + Self.checked(duration)
        var isDone = true
        let (keys, losses) = machine.withLock { ($0.members.map(\.key), $0.losses) }
        // One after the other: each writes by itself, so nobody waits for longer than the slowest takes. One that waits for its turn is
        // kept by nobody here: it may be closed, and so be flushed, and made anew.
        for key in keys {
            let fate = machine.withLock { machine in
                let fate = machine.member(for: key)?.handle.feature(FluxFamilyFate.self, FluxFamilyFate.init)
                // One that is lost may still wait for another flush before it is counted as that.
                if fate?.isLost == true { isDone = false }
                return fate?.enter() == true ? fate : nil
            }
            guard let fate else { continue }
            isDone = await isFlushed(key, until: deadline) && isDone
            fate.leave()
        }
        return isDone && machine.withLock { $0.losses } == losses
    }

    /// A function of its own, so that nothing keeps the store when it returns.
    private func isFlushed<State>(
        _ key: Key, until deadline: Swift.Duration
    ) async -> Bool where Member == FluxStore<State> {
        guard let store = machine.withLock({ $0.member(for: key) }) else { return true }
        return await store.flush(within: Swift.max(.zero, deadline - timer.now()), clock: clock)
    }

    private static func checked(_ duration: Swift.Duration) -> Swift.Duration {
        if duration >= .zero { return Swift.min(duration, FluxFamilyTimer.longest) }
        fatalError("FluxCore: a FluxFamily was to flush or shut down within \(duration). Give it .zero or more.")
    }
}

/// A store that can never be saved is let go of, with what it has not saved.
nonisolated private struct FluxFamilyLoss: Swift.Error {
    let error: any Swift.Error
}

/// What has become of the members of a ``FluxFamily`` that was shut down.
///
/// Thread safety: a value.
nonisolated public struct FluxFamilyShutdown<Key: Hashable & Sendable>: Sendable {
    /// Those that were closed and let go of.
    public internal(set) var closed: [Key] = []
    /// Those that could not be closed, and why; they stay, and are tried again, but for stores that can never be saved.
    public internal(set) var failed: [Key: any Swift.Error] = [:]
    /// Those that were still in use, being made or being closed; they are put away once that has ended.
    public internal(set) var late: [Key] = []
}

/// Why a ``FluxFamily`` does not do what it was asked to.
///
/// Thread safety: a value.
nonisolated public enum FluxFamilyError: Swift.Error, Equatable, CustomStringConvertible {
    /// The family was shut down, and so has no member of the key any more.
    case shutDown(key: String)
    /// The key does not equal itself, such as one that is no number, so that its member would not be found again.
    case unequalToItself(key: String)

    /// What happened and what to do instead, for a log.
    public var description: String {
        switch self {
        case .shutDown(let key):
            "The family was shut down, so \"\(key)\" is not opened any more: ask for members before shutdown(within:) is called."
        case .unequalToItself(let key):
            "The key \"\(key)\" does not equal itself, so that its member would not be found again: give it another."
        }
    }
}
