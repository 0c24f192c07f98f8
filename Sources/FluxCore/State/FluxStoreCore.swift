import Dispatch

/// The part of a store that lives as long as anything is due; its handle, ``FluxStore``, may go before.
@usableFromInline
final class FluxStoreCore<State: FluxState>: Sendable {
    @usableFromInline typealias Outlet = FluxOutlet<State>
    @usableFromInline typealias Member = Unmanaged<FluxSubscriber<State>>
    @usableFromInline typealias Machine = FluxStoreMachine<State, Outlet, Member, FluxLatch>

    @usableFromInline let lock: FluxLock<Machine>
    @usableFromInline let threads = FluxThreads.shared
    private let ownQueue = FluxLock<DispatchQueue?>(nil)

    @inlinable
    init(initialState: State) {
        lock = FluxLock(Machine(state: initialState))
    }

    /// The queue of this store, made on first use: a store that delivers nothing has none.
    ///
    /// It targets a global queue rather than the overcommitting default, so that thousands of busy stores share a few
    /// threads.
    var queue: DispatchQueue {
        ownQueue.withLock { queue in
            if let queue { return queue }
            let made = DispatchQueue(label: "FluxStore", autoreleaseFrequency: .workItem, target: .global())
            queue = made
            return made
        }
    }

    // MARK: - Dispatching

    /// Applies an action under the lock; returns the new revision, or nil if nothing is announced.
    ///
    /// - Parameters:
    ///   - action: The change to make.
    ///   - thread: The record of the calling thread, on which no `handle` runs.
    ///   - wakes: Gets the outlets that the caller has to wake once it holds no lock.
    @inlinable @inline(__always)
    func apply(
        _ action: State.Action,
        on thread: UnsafeMutablePointer<FluxThread>,
        waking wakes: inout FluxWakes<Outlet>
    ) -> UInt64? {
        lock.withLock { machine in
            thread.pointee.handling = UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque())
            defer { thread.pointee.handling = nil }
            return machine.apply(action, waking: &wakes)
        }
    }

    /// Reads from the machine, also inside the `handle(action:)` of another store.
    @inlinable @inline(__always)
    func read<Value>(_ body: (Machine) -> Value) -> Value {
        if threads.current.pointee.handling == UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque()) {
            fluxStopImpureHandle("state or revision of the same store")
        }
        return lock.withLock { body($0) }
    }

    // MARK: - Subscribing

    @inlinable
    func subscribe(
        on queue: DispatchQueue?,
        startingWithCurrent: Bool,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription {
        if threads.current.pointee.handling != nil { fluxStopImpureHandle("subscribe") }
        let (subscriber, isDue) = lock.withLock { machine in
            let outlet = machine.outlet { $0.queue === queue } ?? open(queue, in: &machine)
            let subscriber = FluxSubscriber(id: machine.makeID(), outlet: outlet, handler: handler)
            let isDue = machine.join(
                .passRetained(subscriber), id: subscriber.id, outlet: outlet.id,
                startingWithCurrent: startingWithCurrent)
            return (subscriber, isDue)
        }
        if isDue { subscriber.outlet.wake() }
        return FluxSubscription(subscriber)
    }

    /// Made where the client's types are known, so that the drain that the outlet runs is specialised for them.
    @inlinable
    func open(_ queue: DispatchQueue?, in machine: inout Machine) -> Outlet {
        let outlet = Outlet(core: self, id: machine.makeID(), queue: queue) { $0.drain() }
        machine.open(outlet, id: outlet.id)
        return outlet
    }

    func unsubscribe(id: UInt64, outlet: UInt64) -> Bool {
        letGo(of: lock.withLock { $0.leave(id: id, outlet: outlet) })
    }

    func flush() async {
        let latch = FluxLatch()
        lock.withLock { machine in
            latch.enter(machine.flush(latch))
        }
        await latch.wait()
    }

    /// Ends all subscriptions after what is due.
    func end() {
        _ = letGo(of: lock.withLock { $0.end() })
    }

    /// Releases, outside the lock, what was taken out under it; true if that was a member.
    private func letGo(of remains: Machine.Remains) -> Bool {
        for member in remains.members { member.release() }
        for entry in remains.entries {
            for waiter in entry.mailbox.waiters { waiter.leave() }
        }
        return !remains.members.isEmpty
    }
}
