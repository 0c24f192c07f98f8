import Synchronization

/// A closure that a call borrows instead of copying it: retaining what it captured would often cost more than the call.
@usableFromInline nonisolated struct FluxCall<Argument>: ~Copyable, Sendable {
    @usableFromInline let call: @Sendable (Argument) -> Void

    @inlinable init(_ call: @escaping @Sendable (Argument) -> Void) { self.call = call }

    @inlinable @inline(__always) borrowing func callAsFunction(_ argument: Argument) { call(argument) }
}

/// One subscription as its mailbox sees it: a handler, and whether it may still be called.
///
/// Its mailbox and its token hold it. The code that takes it out of the mailbox retires it, so that the token keeps
/// neither the handler nor the store. The token then keeps an empty object, which costs every subscription less than a
/// weak reference.
@usableFromInline nonisolated final class FluxSubscriber<State: FluxState>: FluxCancellable, @unchecked Sendable {
    @usableFromInline let id: UInt64
    /// It receives the states with a higher revision than this; none once it has ended.
    @usableFromInline let start: Synchronization.Atomic<UInt64>
    /// Borrowed by each call; removed only by the code that took this out of the mailbox, when no call is running.
    @exclusivity(unchecked) @usableFromInline nonisolated(unsafe) var handler: FluxCall<State>?
    /// What delivers to it; nil once it is retired.
    ///
    /// It does not name the type of the state, because that would be looked up when the subscription ends.
    @usableFromInline let deliverer: FluxLock<(any FluxDeliverer)?>

    @inlinable init(id: UInt64, after: UInt64, from: any FluxDeliverer, handler: @escaping @Sendable (State) -> Void) {
        self.id = id
        self.start = Synchronization.Atomic(after)
        self.handler = FluxCall(handler)
        self.deliverer = FluxLock(from)
    }

    /// Ends the subscription: from here on, no further call of the handler is decided on (C7).
    @usableFromInline override func cancel() {
        // Relaxed: only one of several calls proceeds. Other threads learn from it only that the subscription has
        // ended, and need no order for that.
        if start.exchange(.max, ordering: .relaxed) == .max { return }
        guard let deliverer = deliverer.withLock({ $0 }) else { return }
        FluxPureCode.after { [id] in deliverer.leave(id) }
    }

    @usableFromInline override func finish() async { await deliverer.withLock { $0 }?.waitForCall() }

    /// Releases the handler and the deliverer; called once this is out of the mailbox.
    @inlinable func retire() {
        handler = nil
        // Released outside the lock.
        _ = deliverer.withLock { Swift.exchange(&$0, with: nil) }
    }

    /// Returns whether it receives a state: it began before the state was announced, and has not ended.
    @inlinable @inline(__always) func takes(_ revision: UInt64 = .max) -> Bool {
        // Relaxed: where no call may follow the end, on its own queue and in the handler, the queue or the handler
        // orders the two (C7). Any other thread may already have decided on a call. The thread that ends the
        // subscription goes to the mailbox afterwards, under the lock of the store.
        start.load(ordering: .relaxed) < revision
    }

    /// Calls the handler if it receives the state.
    @inlinable @inline(__always) func call(_ state: State, _ revision: UInt64 = .max) {
        if takes(revision) { handler?(state) }
    }
}

nonisolated extension FluxList {
    /// Calls the subscribers that began before a state was announced, in order.
    ///
    /// The mailbox retains them, so they are not retained here: that would cost more than the call.
    @inlinable @inline(__always)
    func call<State>(_ state: State, revision: UInt64) where Element == Unmanaged<FluxSubscriber<State>> {
        firstElement?._withUnsafeGuaranteedRef { $0.call(state, revision) }
        rest.withUnsafeBufferPointer { slots in
            for slot in slots { slot.element?._withUnsafeGuaranteedRef { $0.call(state, revision) } }
        }
    }
}
