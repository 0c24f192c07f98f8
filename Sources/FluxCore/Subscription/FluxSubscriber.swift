import Synchronization

/// What a token ends, without its type.
@usableFromInline
protocol FluxCancellable: AnyObject, Sendable {
    func cancel()
}

/// One subscription as its store sees it: a handler, and whether it may still be called.
///
/// The mailbox holds it, the token refers to it weakly: so the handler is released as soon as the store lets go of it,
/// even while the token is kept.
@usableFromInline
final class FluxSubscriber<State: FluxState>: FluxCancellable {
    @usableFromInline let id: UInt64
    @usableFromInline let outlet: FluxOutlet<State>
    @usableFromInline let handler: @Sendable (State) -> Void
    @usableFromInline let isLive = Synchronization.Atomic<Bool>(true)

    @inlinable
    init(id: UInt64, outlet: FluxOutlet<State>, handler: @escaping @Sendable (State) -> Void) {
        self.id = id
        self.outlet = outlet
        self.handler = handler
    }

    @usableFromInline
    func cancel() {
        if isLive.exchange(false, ordering: .sequentiallyConsistent) { outlet.remove(self) }
    }
}
