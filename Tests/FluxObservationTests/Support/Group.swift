import Dispatch
import FluxCore
import FluxObservation
import TestSupport

/// Members that come and go, as a source of all of them by key.
struct Group<Member: Sendable>: FluxSource {
    struct Members: FluxState {
        enum Action: FluxAction {
            case open(Int, Member)
            case close(Int)
        }

        var all: [Int: Member] = [:]

        mutating func handle(action: Action) -> Members? {
            switch action {
            case .open(let key, let member): all[key] = member
            case .close(let key): all[key] = nil
            }
            return self
        }
    }

    let store = FluxStore(initialState: Members(), dispatcher: nil)
    /// Called whenever the members are read.
    var reading: @Sendable (FluxStore<Members>) -> Void = { _ in }

    func open(_ key: Int, _ member: Member) { store.dispatch(action: .open(key, member)) }
    func close(_ key: Int) { store.dispatch(action: .close(key)) }

    var state: [Int: Member] {
        reading(store)
        return store.state.all
    }
    var stamp: UInt64 { store.stamp }
    var stores: [FluxStoreInfo] { store.stores }

    func capture(in cut: FluxCut) -> @Sendable () -> [Int: Member] {
        let members = store.capture(in: cut)
        return { members().all }
    }

    func watch(_ changed: @escaping @Sendable () -> (any FluxSettling)?) -> FluxSubscription { store.watch(changed) }

    func subscribe(
        _ delivery: FluxDelivery, on queue: DispatchQueue?, startingWithCurrent: Bool, ended: (@Sendable () -> Void)?,
        _ handler: @escaping @Sendable ([Int: Member]) -> Void
    ) -> FluxSubscription {
        store.subscribe(delivery, on: queue, startingWithCurrent: startingWithCurrent, ended: ended) { handler($0.all) }
    }

    func flush() async { await store.flush() }
}
