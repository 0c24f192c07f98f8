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
/// Its mailbox and its token hold it. So that the token keeps neither the handler nor the store, the mailbox retires it
/// on letting go of it: a token then keeps an object with nothing in it, which costs every subscription less than a weak
/// reference would.
@usableFromInline nonisolated final class FluxSubscriber<Owner: FluxMailboxOwner>: FluxCancellable {
    @usableFromInline let id: UInt64
    /// Borrowed by each call, and taken away only by who was handed this by the mailbox: then no call is under way.
    @exclusivity(unchecked) @usableFromInline nonisolated(unsafe) var handler: FluxCall<Owner.Element>?
    @usableFromInline let live = Synchronization.Atomic<Bool>(true)
    /// Where it is delivered; nil once it is retired.
    @usableFromInline let outlet: FluxLock<FluxOutlet<Owner>?>

    @inlinable init(id: UInt64, outlet: FluxOutlet<Owner>, handler: @escaping @Sendable (Owner.Element) -> Void) {
        self.id = id
        self.handler = FluxCall(handler)
        self.outlet = FluxLock(outlet)
    }

    /// Ends it: from here on no call of it is decided on (C7).
    @usableFromInline func cancel() {
        guard live.exchange(false, ordering: .acquiringAndReleasing), let outlet = outlet.withLock({ $0 }) else {
            return
        }
        if FluxThreads.shared.current.pointee.pure == nil { return outlet.owner.leave(id, outlet) }
        // A token dropped with some lock held: it ends now, and is cleared away once there is none.
        DispatchQueue.global().async { [id] in outlet.owner.leave(id, outlet) }
    }

    @usableFromInline func finish() async {
        cancel()
        guard let outlet = outlet.withLock({ $0 }) else { return }
        await FluxLatch.wait { latch in
            outlet.owner.withMailboxes { $0.waitForCall(latch, outlet: outlet.id) }
        } withdrawing: { id in
            outlet.owner.withMailboxes { $0.withdraw(id) }
        }
    }

    /// Lets go of the handler and of the outlet: the mailbox has let go of this.
    @usableFromInline func retire() {
        handler = nil
        // Let go of outside the lock.
        let outlet = outlet.withLock { fluxTake(&$0) }
        withExtendedLifetime(outlet) {}
    }
}

nonisolated extension Unmanaged {
    /// Calls a handler unless its subscription has ended: then it returns false.
    ///
    /// The mailbox holds the subscriber, so none is retained here: that would cost more than the call.
    @inlinable @inline(__always)
    func call<Owner>(_ element: Owner.Element) -> Bool where Instance == FluxSubscriber<Owner> {
        _withUnsafeGuaranteedRef { subscriber in
            guard subscriber.live.load(ordering: .relaxed) else { return false }
            switch subscriber.handler {
            case .some(let handler): handler(element)
            case .none: break
            }
            return true
        }
    }

    /// Lets go of a subscriber that a mailbox held, outside the lock.
    @inlinable func retire<Owner>() where Instance == FluxSubscriber<Owner> {
        _withUnsafeGuaranteedRef { $0.retire() }
        release()
    }
}

nonisolated extension FluxList {
    /// Calls the first so many of those behind the first; false if the subscription of one has ended.
    @inlinable func callRest<Owner>(_ count: Int, _ element: Owner.Element) -> Bool
    where Element == Unmanaged<FluxSubscriber<Owner>> {
        rest.withUnsafeBufferPointer { slots in
            var areLive = true
            for index in 0..<count {
                if let member = slots[index].element, !member.call(element) { areLive = false }
            }
            return areLive
        }
    }
}
