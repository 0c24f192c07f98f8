import Dispatch
import Synchronization

/// What a token ends, without its type.
@usableFromInline
nonisolated protocol FluxCancellable: AnyObject, Sendable {
    func cancel()
}

/// One subscription as its store sees it: a handler, and whether it may still be called.
///
/// The mailbox holds it, the token refers to it weakly: so the handler is released as soon as the store lets go of it,
/// even while the token is kept.
@usableFromInline
nonisolated final class FluxSubscriber<State: FluxState>: FluxCancellable {
    @usableFromInline let handler: @Sendable (State) -> Void
    @usableFromInline let isLive = Synchronization.Atomic<Bool>(true)
    @usableFromInline let id: UInt64
    @usableFromInline let outlet: FluxOutlet<State>

    @inlinable
    init(id: UInt64, outlet: FluxOutlet<State>, handler: @escaping @Sendable (State) -> Void) {
        self.id = id
        self.outlet = outlet
        self.handler = handler
    }

    @usableFromInline
    func cancel() {
        let core = outlet.core
        guard isLive.exchange(false, ordering: .sequentiallyConsistent) else {
            // Another thread is at it: a call may be about to begin for this caller as well.
            if core.threads.current.pointee.handling == nil { outlet.awaitCall(of: self) }
            return
        }
        if core.threads.current.pointee.handling == nil { return core.work(core, .leave(self)) }
        // A token dropped inside handle, with some lock held: it ends now, and is cleared away once there is none.
        DispatchQueue.global().async { core.work(core, .leave(self)) }
    }
}
