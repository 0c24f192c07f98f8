import Dispatch

#if canImport(FluxCore)
    import FluxCore
#endif

/// A member for each key, made when it is first asked for and put away when nobody needs it any longer: a store for each room,
/// session or document.
///
/// ```swift
/// let rooms = FluxFamily(idle: .seconds(60), limit: 10_000) { (id: String) in
///     try await FluxStore.restored(from: file(of: id), initialState: Room())
/// }
/// try await rooms.with("r1") { store in store.dispatch(action: .bid(7)) }  // open for as long as the closure runs
/// let report = await rooms.shutdown(within: .seconds(10))
/// ```
///
/// A key is made once however many ask for it at the same time. A member is open as long as anybody has a lease, and for a while
/// after that. Then its key is open no longer, it is closed (a store is flushed), and let go of. Who asks meanwhile waits until that is
/// done and gets it anew, so that no two members of one key are there at once. A member that cannot be closed stays, is told of, and is
/// tried again after the same while; it holds up nobody but those who ask for its key.
///
/// As a source its state is the open members by their keys: what watches it is told before a member is closed, and keeps none of them
/// open. It may be handed old members for a moment, and `state` keeps in memory what it had.
///
/// Making and closing run in tasks of their own, and may ask the family for another key; one that asks for its own waits for itself, until
/// it is cancelled. Keys are hashed and compared under a lock of the family, so that may not use it. One task sleeps for all
/// members, while any is open and not in use.
///
/// When the family is let go of, it closes what nobody uses at once, and the others when their leases are released. A program that
/// ends right after that does not wait for it: ``shutdown(within:)`` does.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public final class FluxFamily<Key: Hashable & Sendable, Member: Sendable>: FluxSource {
    let core: FluxFamilyCore<Key, Member>

    private init(
        _ idle: Swift.Duration, _ limit: Int, _ clock: any _Concurrency.Clock<Swift.Duration>,
        _ ways: FluxFamilyCore<Key, Member>.Ways
    ) {
        FluxRoutingMessages.require(idle >= .zero, "FluxFamily: idle cannot be negative (\(idle)).")
        FluxRoutingMessages.require(limit >= 0, "FluxFamily: limit cannot be negative (\(limit)).")
        core = FluxFamilyCore(
            idle: Swift.min(idle, FluxFamilyTimer.longest), limit: limit, FluxFamilyTimer(clock), ways)
    }

    deinit { core.letGo() }

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
    ///   - onFailure: Told of each member that could not be closed, on any thread; by default it goes to standard error.
    ///   - make: Makes the member of a key. What it throws is thrown to all who wait for it, and the next who asks tries again.
    ///   - close: Does what is to be done before a member is let go of, such as saving it; throws where it has to stay.
    public convenience init(
        idle: Swift.Duration = .seconds(60),
        limit: Int = .max,
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ key: Key, _ error: any Error) -> Void)? = nil,
        make: @escaping @Sendable (_ key: Key) async throws -> Member,
        close: @escaping @Sendable (_ member: Member) async throws -> Void
    ) {
        self.init(
            idle, limit, clock, FluxFamilyCore.Ways(make: make, close: { try await close($1) }, onFailure: onFailure))
    }

    /// Makes a family of stores, each of which is flushed before it is let go of.
    ///
    /// - Parameters:
    ///   - idle: How long a store that nobody uses stays open.
    ///   - limit: How many stores are to be open at most: where there are more, those that nobody uses go at once, the one
    ///     used longest ago first. One in use never goes, so there may be more for a while.
    ///   - clock: What durations are measured with.
    ///   - onFailure: Told of each store that could not be saved, on any thread; by default it goes to standard error.
    ///   - make: Makes the store of a key. What it throws is thrown to all who wait for it, and the next who asks tries again.
    public convenience init<State>(
        idle: Swift.Duration = .seconds(60),
        limit: Int = .max,
        clock: any _Concurrency.Clock<Swift.Duration> = _Concurrency.ContinuousClock(),
        onFailure: (@Sendable (_ key: Key, _ error: any Error) -> Void)? = nil,
        make: @escaping @Sendable (_ key: Key) async throws -> Member
    ) where Member == FluxStore<State> {
        self.init(
            idle, limit, clock, FluxFamilyCore.Ways(make: make, close: { await $1.flush() }, onFailure: onFailure))
    }

    // MARK: - Using members

    /// The keys that are open.
    ///
    /// - Complexity: O(*n*) for *n* of them.
    public var keys: Set<Key> { Set(state.keys) }

    /// Runs a closure on the member of a key, which is open for as long as that runs.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - actor: Where the closure runs: where this is called.
    ///   - body: Gets the member; may not keep it.
    /// - Returns: What the closure returns.
    /// - Throws: What the closure throws; what making the member has thrown; ``FluxFamilyError/shutDown(key:)``;
    ///   `CancellationError`, at once, where the task is cancelled before the closure runs.
    /// - Complexity: O(1) for one that is open.
    public func with<Result>(
        _ key: Key, isolation actor: isolated (any _Concurrency.Actor)? = #isolation,
        _ body: (_ member: Member) async throws -> Result
    ) async throws -> Result {
        let (slot, member) = try await core.ask(for: key)
        defer { core.release(slot) }
        return try await body(member)
    }

    /// Takes a lease of the member of a key, which is open until that is released or let go of.
    ///
    /// - Parameter key: The key.
    /// - Returns: The lease.
    /// - Throws: What making the member has thrown; ``FluxFamilyError/shutDown(key:)``; `CancellationError`, at once, where the
    ///   task is cancelled.
    /// - Complexity: O(1) for one that is open.
    public func lease(_ key: Key) async throws -> FluxLease<Member> {
        let (slot, member) = try await core.ask(for: key)
        return FluxLease(member) { [core] in core.release(slot) }
    }

    // MARK: - Putting away

    /// Puts the member of a key away, as soon as nobody has a lease of it.
    ///
    /// It waits for those who have one, and does not keep others from taking one meanwhile; so it waits for good inside ``with(_:isolation:_:)``
    /// of the same key. A key that is not open is none to wait for.
    ///
    /// - Parameter key: The key.
    /// - Throws: What closing the member has thrown: it stays then; `CancellationError`, at once, where the task is cancelled: a
    ///   member that is being closed then still is.
    public func close(_ key: Key) async throws { try await core.close(key) }

    /// Makes no more members, puts away all that are there, and waits for that for so long.
    ///
    /// Those that are in use are put away once their leases are released, after this has returned too. Those that are being made
    /// are put away once they are made, and who waits for one is refused at once.
    ///
    /// - Parameter duration: How long to wait, by the clock of the family; the task may be cancelled before.
    /// - Returns: What has become of each member.
    /// - Complexity: O(*n*) for *n* members, which are closed all at once.
    @discardableResult public func shutdown(within duration: Swift.Duration) async -> FluxFamilyShutdown<Key> {
        FluxRoutingMessages.require(
            duration >= .zero, "shutdown(within:) was given a negative duration, \(duration).")
        return await core.shutDown(within: duration)
    }

    // MARK: - Following

    /// The open members by their keys; keeps them in memory, but not open.
    ///
    /// - Complexity: O(1); the next key that is opened or closed meanwhile costs O(*n*) for *n* of them.
    public var state: [Key: Member] { core.open.state.members }

    /// Grows with each key that is opened or closed.
    public var stamp: UInt64 { core.open.stamp }

    /// What holds the open members.
    public var stores: [FluxStoreInfo] { core.open.stores }

    /// Reads the open members for a cut.
    ///
    /// - Parameter cut: What was read before.
    /// - Returns: Hands out the members.
    public func capture(in cut: FluxCut) -> @Sendable () -> [Key: Member] {
        let read = core.open.capture(in: cut)
        return { read().members }
    }

    /// Tells of every key that is opened or closed.
    ///
    /// - Parameters:
    ///   - ended: Called once the family was let go of and the last of its members is put away.
    ///   - changed: Called under a lock at each change; returns whom to settle once that is free, before a member is closed.
    /// - Returns: The token, which ends it when it goes.
    public func watch(
        ended: @escaping @Sendable () -> Void, _ changed: @escaping @Sendable () -> (any FluxSettling)?
    ) -> FluxSubscription {
        core.open.watch(ended: ended, changed)
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
    public func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable ([Key: Member]) -> Void
    ) -> FluxSubscription {
        core.open.subscribe(delivery, on: queue, startingWithCurrent: startingWithCurrent, ended: ended) {
            handler($0.members)
        }
    }

    /// Waits until every key that was opened or closed before has been handed to every subscription, or the task is cancelled.
    public func flush() async { await core.open.flush() }
}

/// What has become of the members of a ``FluxFamily`` that was shut down.
///
/// Thread safety: a value.
nonisolated public struct FluxFamilyShutdown<Key: Hashable & Sendable>: Sendable {
    /// Those that were closed and let go of.
    public internal(set) var closed: [Key] = []
    /// Those that could not be closed, and why; they stay, and are tried again.
    public internal(set) var failed: [Key: any Error] = [:]
    /// Those that were still in use, being made or being closed; they are put away once that has ended.
    public internal(set) var late: [Key] = []
}

/// Why a ``FluxFamily`` does not do what it was asked to.
///
/// Thread safety: a value.
nonisolated public enum FluxFamilyError: Error, Equatable, CustomStringConvertible {
    /// The family was shut down, and so has no member of the key any more.
    case shutDown(key: String)

    /// What happened and what to do instead, for a log.
    public var description: String {
        switch self {
        case .shutDown(let key):
            "The family was shut down, so \"\(key)\" is not opened any more: ask for members before shutdown(within:) is called."
        }
    }
}
