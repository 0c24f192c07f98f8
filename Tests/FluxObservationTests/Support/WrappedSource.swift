import Dispatch
import FluxCore
import TestSupport

/// A source that wraps another one and by default changes nothing.
protocol WrappedSource<State>: FluxSource where State == Base.State {
    associatedtype Base: FluxSource
    var base: Base { get }
}

extension WrappedSource {
    var state: State { base.state }
    var stamp: UInt64 { base.stamp }
    var stores: [FluxStoreInfo] { base.stores }

    func capture(in cut: FluxCut) -> @Sendable () -> State { base.capture(in: cut) }

    func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription { base.watch(changed) }

    func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable (State) -> Void
    ) -> FluxSubscription {
        base.subscribe(delivery, on: queue, startingWithCurrent: startingWithCurrent, ended: ended, handler)
    }

    func flush() async { await base.flush() }
}

/// Changes just before each subscription to it.
struct Changing: WrappedSource {
    let base = FluxStore(initialState: Counter(), dispatcher: nil)

    func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable (Counter) -> Void
    ) -> FluxSubscription {
        base.dispatch(action: .add(1))
        return base.subscribe(delivery, on: queue, startingWithCurrent: startingWithCurrent, ended: ended, handler)
    }
}
