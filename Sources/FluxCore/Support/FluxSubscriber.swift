import Dispatch
import Synchronization

/// A closure that is borrowed and not copied where it is called: to retain what it captured costs more than many a call.
@usableFromInline nonisolated struct FluxCall<Argument>: ~Copyable, Sendable {
    @usableFromInline let call: @Sendable (Argument) -> Void

    @inlinable init(_ call: @escaping @Sendable (Argument) -> Void) { self.call = call }

    @inlinable @inline(__always) borrowing func callAsFunction(_ argument: Argument) { call(argument) }
}

/// One subscription as its mailbox sees it: a handler, and whether it may still be called.
///
/// Its mailbox and its token hold it. So that the token keeps neither the handler nor the store, whoever takes it out of the
/// mailbox retires it: a token then keeps an object with nothing in it, which costs every subscription less than a weak
/// reference would.
@usableFromInline nonisolated final class FluxSubscriber<State: FluxState>: FluxCancellable {
    @usableFromInline let id: UInt64
    /// It gets the states of higher revisions.
    @usableFromInline let start: UInt64
    /// Borrowed by each call, and taken away only by who was handed this by the mailbox: then no call is under way.
    @exclusivity(unchecked) @usableFromInline nonisolated(unsafe) var handler: FluxCall<State>?
    @usableFromInline let live = Synchronization.Atomic<Bool>(true)
    // Relaxed: whoever ends it asks the mailbox after that, under the lock of the store.
    @inlinable var isLive: Bool { live.load(ordering: .relaxed) }
    /// Where it is delivered; nil once it is retired.
    @usableFromInline let outlet: FluxLock<FluxOutlet<State>?>

    @inlinable
    init(id: UInt64, after start: UInt64, outlet: FluxOutlet<State>, handler: @escaping @Sendable (State) -> Void) {
        (self.id, self.start) = (id, start)
        self.handler = FluxCall(handler)
        self.outlet = FluxLock(outlet)
    }

    /// Ends it: from here on no call of it is decided on (C7).
    @usableFromInline func cancel() {
        // One of several goes on. All that it shows anybody is that this one has ended: it need be in no order with others.
        guard live.exchange(false, ordering: .acquiringAndReleasing), let outlet = outlet.withLock({ $0 }) else {
            return
        }
        FluxPureCode.after { [id] in _ = outlet.handle.work(.leave(id, outlet)) }
    }

    @usableFromInline func finish() async {
        cancel()
        guard let outlet = outlet.withLock({ $0 }) else { return }
        await outlet.handle.wait(for: outlet.id, forCall: true)
    }

    /// It has no bound.
    @usableFromInline var dropped: Int { 0 }

    /// Lets go of the handler and of the outlet: the mailbox has let go of this.
    @usableFromInline func retire() {
        handler = nil
        // Let go of outside the lock.
        _ = outlet.withLock { fluxTake(&$0) }
    }

    /// Calls the handler unless the subscription has ended.
    @inlinable @inline(__always) func call(_ state: State) {
        // Relaxed: where no call may follow an end, on its own queue and in the handler, that orders the two (C7). Any other
        // thread may have decided on a call before.
        guard isLive else { return }
        switch handler {
        case .some(let handler): handler(state)
        case .none: break
        }
    }
}

nonisolated extension Unmanaged {
    /// Lets go of a subscriber that a mailbox held, outside the lock.
    @usableFromInline func retire<State>() where Instance == FluxSubscriber<State> {
        _withUnsafeGuaranteedRef { $0.retire() }
        release()
    }

    /// Calls a subscriber, if it began before a state was announced.
    ///
    /// The mailbox holds it, so it is not retained here: that would cost more than the call.
    @inlinable @inline(__always)
    func call<State>(_ state: State, _ revision: UInt64) where Instance == FluxSubscriber<State> {
        _withUnsafeGuaranteedRef { if $0.start < revision { $0.call(state) } }
    }
}

nonisolated extension FluxList {
    /// Calls those that began before a state was announced, in their order.
    @inlinable @inline(__always)
    func call<State>(_ state: State, revision: UInt64) where Element == Unmanaged<FluxSubscriber<State>> {
        firstElement?.call(state, revision)
        rest.withUnsafeBufferPointer { slots in
            for slot in slots { slot.element?.call(state, revision) }
        }
    }
}
