import Dispatch
import Synchronization

/// The part of a store that lives as long as anything is due; its handle, ``FluxStore``, may go before.
@usableFromInline
nonisolated final class FluxStoreCore<State: FluxState>: FluxResiding, FluxFeeding {
    @usableFromInline typealias Outlet = FluxOutlet<State>
    @usableFromInline typealias Member = Unmanaged<FluxSubscriber<State>>
    @usableFromInline typealias Machine = FluxStoreMachine<State, Outlet, Member, FluxLatch>

    /// What is done on behalf of code that does not know the client's types.
    @usableFromInline
    enum Work {
        case drain(Outlet)
        case leave(FluxSubscriber<State>)
        case end
        /// Puts the state into memory that is not initialised, and the revision that it has.
        case read(UnsafeMutablePointer<State>, UnsafeMutablePointer<UInt64>)
        case stamp(UnsafeMutablePointer<UInt64>)
    }

    @usableFromInline let lock: FluxLock<Machine>
    @usableFromInline let threads = FluxThreads.shared
    /// What keeps an action from the short way, as bits of ``FluxDetours``.
    @usableFromInline let detours = Synchronization.Atomic<UInt8>(0)
    let lazyExtras = FluxOnce<FluxStoreExtras>()
    /// Calls ``perform(_:)`` as the client's module has specialised it: unspecialised it takes 20 times as long.
    @usableFromInline let work: @Sendable (FluxStoreCore, Work) -> Void

    @inlinable
    init(initialState: State, work: @escaping @Sendable (FluxStoreCore, Work) -> Void) {
        lock = FluxLock(Machine(state: initialState))
        self.work = work
    }

    @inlinable
    func perform(_ work: Work) {
        switch work {
        case .drain(let outlet): outlet.drain()
        case .leave(let subscriber): leave(subscriber)
        case .end:
            endExtras()
            letGo(of: lock.withLock { $0.end() })
        case .read(let state, let stamp):
            read { machine in
                state.initialize(to: machine.state)
                stamp.pointee = machine.revision
            }
        case .stamp(let stamp): stamp.pointee = read { $0.revision }
        }
    }

    /// What few stores need, made on first use.
    var extras: FluxStoreExtras {
        lazyExtras.load() ?? lazyExtras.storeIfNil(FluxStoreExtras())
    }

    /// Makes the extras, with a keeper; the core must be known to no other thread yet.
    func keep(by keeper: FluxKeeper<State>) {
        _ = lazyExtras.storeIfNil(FluxStoreExtras(keeper: keeper))
        detours.bitwiseOr(FluxDetours.kept, ordering: .relaxed)
    }

    /// The extras if anybody has needed them.
    var extrasIfAny: FluxStoreExtras? { lazyExtras.load() }

    @usableFromInline
    func endExtras() {
        extrasIfAny?.endCommands()
    }

    // MARK: - Dispatching

    /// Applies an action that comes by way of a dispatcher; returns the revision that announces it, 0 if none.
    @inlinable @inline(__always)
    func apply(
        _ action: State.Action, waking wakes: inout FluxWakes<FluxWake>, through passage: inout FluxPassage
    ) -> UInt64 {
        if passage.watch != nil || detours.load(ordering: .relaxed) != 0 {
            return applyInDetail(action, waking: &wakes, through: &passage)
        }
        let applied = apply(action, on: threads.current)
        applied.wakes.forEach { wakes.append($0) }
        return applied.revision ?? 0
    }

    /// Applies an action under the lock; the caller wakes what it says once it holds no lock.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - thread: The record of the calling thread, on which no `handle` runs.
    /// - Returns: What came of it.
    @inlinable @inline(__always)
    func apply(_ action: State.Action, on thread: UnsafeMutablePointer<FluxThread>) -> Machine.Applied {
        lock.withLock { machine in
            thread.pointee.handling = UnsafeRawPointer(fluxIdentity: self)
            defer { thread.pointee.handling = nil }
            return machine.apply(action)
        }
    }

    /// Reads from the machine, also inside the `handle(action:)` of another store.
    @inlinable @inline(__always)
    func read<Value>(_ body: (Machine) -> Value) -> Value {
        if threads.current.pointee.handling != nil { return readInsideHandle(body) }
        return lock.withLock { body($0) }
    }

    /// Reads with the lock of another store held, so it must not wait for good: two stores may read each other.
    @usableFromInline
    func readInsideHandle<Value>(_ body: (Machine) -> Value) -> Value {
        if threads.current.pointee.handling == UnsafeRawPointer(fluxIdentity: self) {
            fluxStopImpureHandle("state or revision of the same store")
        }
        var value: Value?
        fluxWait(upTo: .seconds(10)) {
            value = lock.withLockIfAvailable { body($0) }
            return value != nil
        }
        if let value { return value }
        fluxStopImpureHandle("state of a store that in turn reads this one, or whose handle takes ten seconds,")
    }

    // MARK: - Subscribing

    @inlinable
    func subscribe(_ wish: FluxWish, _ handler: @escaping @Sendable (State) -> Void) -> FluxSubscription {
        FluxSubscription(admit(wish, handler), keeping: wish.bound?.drops)
    }

    @inlinable
    func admit(_ wish: FluxWish, _ handler: @escaping @Sendable (State) -> Void) -> FluxSubscriber<State> {
        if threads.current.pointee.handling != nil { fluxStopImpureHandle("subscribe") }
        let (subscriber, due) = lock.withLock { machine in
            let rule = Machine.Mailbox.Rule(wish.delivery.kind, bound: wish.bound)
            let outlet =
                machine.outlet(rule) { fluxIsSame($0.queue, wish.queue) }
                ?? open(wish.queue, in: &machine, mailbox: Machine.Mailbox(rule, bound: wish.bound))
            let subscriber = FluxSubscriber(id: machine.makeID(), outlet: outlet, handler: handler)
            let isDue = machine.join(
                .passRetained(subscriber), id: subscriber.id, outlet: outlet.id,
                startingWithCurrent: wish.startsWithCurrent)
            return (subscriber, isDue ? outlet : nil)
        }
        due?.wake()
        return subscriber
    }

    @inlinable
    func open(
        _ queue: DispatchQueue?, in machine: inout Machine, mailbox: consuming Machine.Mailbox = Machine.Mailbox()
    ) -> Outlet {
        let outlet = Outlet(core: self, id: machine.makeID(), queue: queue)
        machine.open(outlet, id: outlet.id, mailbox: mailbox)
        return outlet
    }

    /// Removes a subscriber that is no longer live; it is retired now, or by the drain that has it.
    @inlinable
    func leave(_ subscriber: FluxSubscriber<State>) {
        let outlet = subscriber.outlet._withUnsafeGuaranteedRef { $0.id }
        letGo(of: lock.withLock { $0.leave(id: subscriber.id, outlet: outlet) })
    }

    /// Releases, outside the lock, what was taken out under it.
    @inlinable
    func letGo(of remains: Machine.Remains) {
        for member in remains.members { member.retire() }
        for entry in remains.entries {
            for waiter in entry.mailbox.waiters { waiter.leave() }
        }
    }

    @usableFromInline
    func flush() async {
        await keeper?.loaded()
        await flushDeliveries()
        for tap in extrasIfAny?.taps.withLock({ $0.all }) ?? [] { await tap.flush() }
        await keeper?.flush()
    }

    private func flushDeliveries() async {
        let latch = FluxLatch()
        lock.withLock { machine in
            latch.enter(machine.flush(latch))
        }
        await latch.wait()
    }
}
