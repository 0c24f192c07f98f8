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
@usableFromInline nonisolated final class FluxSubscriber<State: FluxState>: FluxCancellable, @unchecked Sendable {
    @usableFromInline let id: UInt64
    /// It gets the states of higher revisions; none once it has ended.
    @usableFromInline let start: Synchronization.Atomic<UInt64>
    /// Borrowed by each call, and taken away only by who was handed this by the mailbox: then no call is under way.
    @exclusivity(unchecked) @usableFromInline nonisolated(unsafe) var handler: FluxCall<State>?
    /// Where it is delivered, without the type of the state, which would be looked up as it ends; nil once it is retired.
    @usableFromInline let leaving: FluxLock<(any FluxLeaving)?>

    @inlinable init(id: UInt64, after: UInt64, leaving: any FluxLeaving, handler: @escaping @Sendable (State) -> Void) {
        self.id = id
        self.start = Synchronization.Atomic(after)
        self.handler = FluxCall(handler)
        self.leaving = FluxLock(leaving)
    }

    /// Ends it: from here on no call of it is decided on (C7).
    @usableFromInline override func cancel() {
        // Relaxed: one of several goes on. All that it shows anybody is that this one has ended, which need be in no order with others.
        if start.exchange(.max, ordering: .relaxed) == .max { return }
        guard let leaving = leaving.withLock({ $0 }) else { return }
        FluxPureCode.after { [id] in leaving.leave(id) }
    }

    @usableFromInline override func finish() async { await leaving.withLock { $0 }?.waitForCall() }

    /// Lets go of the handler and of the delivery: the mailbox has let go of this.
    @inlinable func retire() {
        handler = nil
        // Let go of outside the lock.
        _ = leaving.withLock { Swift.exchange(&$0, with: nil) }
    }

    /// Whether it gets a state: it began before that was announced, and has not ended.
    @inlinable @inline(__always) func takes(_ revision: UInt64 = .max) -> Bool {
        // Relaxed: where no call may follow an end, on its own queue and in the handler, that orders the two (C7). Any other
        // thread may have decided on a call before; whoever ends it asks the mailbox after that, under the lock of the store.
        start.load(ordering: .relaxed) < revision
    }

    /// Calls the handler if it gets the state.
    @inlinable @inline(__always) func call(_ state: State, _ revision: UInt64 = .max) {
        if takes(revision) { handler?(state) }
    }
}

nonisolated extension FluxList {
    /// Calls those that began before a state was announced, in their order.
    ///
    /// The mailbox holds them, so none is retained here: that would cost more than the call.
    @inlinable @inline(__always)
    func call<State>(_ state: State, revision: UInt64) where Element == Unmanaged<FluxSubscriber<State>> {
        firstElement?._withUnsafeGuaranteedRef { $0.call(state, revision) }
        rest.withUnsafeBufferPointer { slots in
            for slot in slots { slot.element?._withUnsafeGuaranteedRef { $0.call(state, revision) } }
        }
    }
}
