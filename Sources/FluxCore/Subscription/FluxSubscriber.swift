import Dispatch
import Synchronization

/// What a token ends, without its type.
@usableFromInline
nonisolated protocol FluxCancellable: AnyObject, Sendable {
    /// Ends it without waiting.
    ///
    /// - Parameter unsettled: Gets each subscription whose handler may be called at this moment; it has to be settled.
    func end(_ unsettled: inout ContiguousArray<any FluxUnsettled>)
}

/// A subscription that has ended while another thread may be about to call its handler.
@usableFromInline
nonisolated protocol FluxUnsettled: AnyObject, Sendable {
    /// Waits until no call can begin any more, at most until a moment; to be called once.
    func settle(by deadline: DispatchTime)
}

nonisolated extension FluxCancellable {
    /// Ends it; once this returns, no call begins (C7).
    ///
    /// All that it is made of has ended before the first wait, so that many blocked handlers are given the time of one.
    @usableFromInline
    func cancel() {
        var unsettled: ContiguousArray<any FluxUnsettled> = []
        end(&unsettled)
        if unsettled.isEmpty { return }
        // A tenth of a second is far longer than a scheduler keeps a thread from its next instruction.
        let deadline = DispatchTime.now() + .milliseconds(100)
        for subscription in unsettled { subscription.settle(by: deadline) }
    }
}

/// One subscription as its store sees it: a handler, and whether it may still be called.
///
/// Its mailbox and its token hold it. So that the token keeps neither the handler nor the store, the mailbox retires it
/// on letting go of it: a token then keeps an object with nothing in it, which costs every subscription less than a weak
/// reference would.
@usableFromInline
nonisolated final class FluxSubscriber<State: FluxState>: FluxCancellable, FluxUnsettled {
    @usableFromInline let id: UInt64
    /// Borrowed by each call, and taken away only by who was handed this by the mailbox: then no call is under way.
    @exclusivity(unchecked) @usableFromInline nonisolated(unsafe) var handler: FluxCall<State>?
    /// There for as long as anybody counts in `marks`; the last of them lets go of it.
    @usableFromInline let outlet: Unmanaged<FluxOutlet<State>>
    /// Twice the number of those who need the outlet, the mailbox and who cancels this at the moment; odd once cancelled.
    @usableFromInline let marks = Synchronization.Atomic<UInt32>(2)

    @inlinable
    init(id: UInt64, outlet: FluxOutlet<State>, handler: @escaping @Sendable (State) -> Void) {
        self.id = id
        self.handler = FluxCall(handler)
        self.outlet = .passRetained(outlet)
    }

    @inlinable @inline(__always) var isLive: Bool { marks.load(ordering: .relaxed) & 1 == 0 }

    @usableFromInline
    func end(_ unsettled: inout ContiguousArray<any FluxUnsettled>) {
        guard let isFirst = enter() else { return }
        let core = outlet._withUnsafeGuaranteedRef { $0.core }
        if core.threads.current.pointee.handling != nil {
            // A token dropped with some lock held: it ends now, and is cleared away once there is none.
            if !isFirst { return exit() }
            return DispatchQueue.global().async {
                core.work(core, .leave(self))
                self.exit()
            }
        }
        // Where another thread is at it, a call may be about to begin for this caller as well.
        if isFirst { core.work(core, .leave(self)) }
        if isNeededByNobodyElse { exit() } else { unsettled.append(self) }
    }

    @usableFromInline
    func settle(by deadline: DispatchTime) {
        outlet._withUnsafeGuaranteedRef { $0.awaitCall(of: self, until: deadline) }
        exit()
    }

    /// Whether the mailbox has let go of it, with one who cancels it left: then no call is under way.
    private var isNeededByNobodyElse: Bool { marks.load(ordering: .acquiring) < 4 }

    /// Marks it cancelled and needs the outlet; returns whether it was live, nil if the outlet is gone.
    private func enter() -> Bool? {
        var known = marks.load(ordering: .relaxed)
        while known > 1 {
            let (isDone, now) = marks.weakCompareExchange(
                expected: known, desired: (known | 1) + 2, ordering: .sequentiallyConsistent)
            if isDone { return known & 1 == 0 }
            known = now
        }
        return nil
    }

    /// Needs the outlet no longer.
    private func exit() {
        if marks.subtract(2, ordering: .acquiringAndReleasing).newValue < 2 { outlet.release() }
    }

    /// Lets go of the handler, and needs the outlet no longer: the mailbox has let go of this.
    @usableFromInline
    func retire() {
        handler = nil
        exit()
    }
}

nonisolated extension Unmanaged {
    /// Lets go of a subscriber that a mailbox held, outside the lock.
    @inlinable
    func retire<State>() where Instance == FluxSubscriber<State> {
        _withUnsafeGuaranteedRef { $0.retire() }
        release()
    }
}
