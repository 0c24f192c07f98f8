/// What each store that has middleware of its own gets in place of an action: nil is nothing.
typealias FluxPlans = [ObjectIdentifier: FluxPlan?]

/// What a store gets, and by which way.
nonisolated struct FluxPlan {
    let action: any FluxAction
    let entrance: FluxEntrance
}

/// Takes an action past the middleware of single stores before the lock of their dispatcher, one within the other.
///
/// So all stores get their actions in one step, and every store sees the dispatcher's order (C4). What a store's middleware
/// sends besides, or later, or from another thread, goes to that store alone.
nonisolated final class FluxCrossing: Sendable {
    private let dispatcher: FluxDispatcher
    private let action: any FluxAction
    private let guards: ContiguousArray<FluxRoutes.Guard>
    private let position: Int
    private let thread: UInt
    // Touched only on the thread that dispatches, while it is in the middleware of this store.
    nonisolated(unsafe) private var plans: FluxPlans
    nonisolated(unsafe) private var isOpen = true

    init(
        _ dispatcher: FluxDispatcher, _ action: any FluxAction, _ guards: ContiguousArray<FluxRoutes.Guard>,
        at position: Int = 0, plans: FluxPlans = [:]
    ) {
        self.dispatcher = dispatcher
        self.action = action
        self.guards = guards
        self.position = position
        self.plans = plans
        thread = UInt(bitPattern: FluxThreads.shared.current)
    }

    func start() {
        let chain = guards[position].resident.pipeline.chain
        FluxNext(chain, to: .crossing(self), origin: FluxThreads.shared.current.pointee.origin).proceed(action)
        // Stopped, or to go on later.
        if isOpen { goOn(with: nil) }
    }

    func cross(_ action: any FluxAction) {
        let (core, resident) = (guards[position].core, guards[position].resident)
        guard UInt(bitPattern: FluxThreads.shared.current) == thread, isOpen else {
            return resident.apply(action, to: core, by: dispatcher)
        }
        goOn(with: resident.entrance(of: action).map { FluxPlan(action: action, entrance: $0) })
    }

    private func goOn(with plan: FluxPlan?) {
        isOpen = false
        plans[ObjectIdentifier(guards[position].core)] = .some(plan)
        if position + 1 == guards.count { return dispatcher.apply(action, plans: plans) }
        FluxCrossing(dispatcher, action, guards, at: position + 1, plans: plans).start()
    }
}
