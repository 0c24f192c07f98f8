/// Goes on with an action: through the middleware that is left, and then to the stores.
///
/// It is a value that may be kept, called later and from another thread; it keeps what it leads to alive, so the action is
/// applied even if everybody else has let go of the dispatcher meanwhile.
///
/// Thread safety: all of it may be used from any thread.
nonisolated public struct FluxNext: Sendable {
    let chain: FluxChain
    let position: Int
    let goal: FluxGoal
    let origin: UInt64

    init(_ chain: FluxChain, at position: Int = 0, to goal: FluxGoal, origin: UInt64) {
        self.chain = chain
        self.position = position
        self.goal = goal
        self.origin = origin
    }

    /// Goes on; when it returns, the action has been applied, unless middleware behind stopped or postponed it.
    ///
    /// Inside `FluxState.handle(action:)` it stops the program with a message (C6).
    ///
    /// - Parameter action: The action at hand, or any other in its place.
    /// - Returns: How many stores announced a change.
    /// - Complexity: O(*m* + *n*) for *m* middleware behind and *n* stores.
    @discardableResult
    public func callAsFunction(_ action: any FluxAction) -> Int {
        let thread = FluxThreads.shared.current
        if thread.pointee.handling != nil { fluxStopImpureHandle("next") }
        let outer = (announced: thread.pointee.tally.announced, origin: thread.pointee.origin)
        thread.pointee.origin = origin
        proceed(action)
        thread.pointee.origin = outer.origin
        return thread.pointee.tally.announced - outer.announced
    }

    /// Goes on as a call of it does, and tells which stores changed, each as the action left it.
    ///
    /// What another thread changed since is not in there. It costs a copy of each changed state, so ask only where the answer
    /// is used. What middleware behind postponed is not in the answer.
    ///
    /// - Parameter action: The action at hand, or any other in its place.
    /// - Returns: The announced changes, in the order made; those that middleware behind made in place of it among them.
    /// - Complexity: O(*m* + *n*) for *m* middleware behind and *n* stores.
    public func changes(by action: any FluxAction) -> [FluxChange] {
        let thread = FluxThreads.shared.current
        let report = FluxReport(outer: thread.pointee.report)
        thread.pointee.report = UnsafeRawPointer(fluxIdentity: report)
        defer { thread.pointee.report = report.outer }
        self(action)
        return report.changes
    }

    func proceed(_ action: any FluxAction) {
        var position = position
        while position < chain.stations.count {
            position += 1
            let next = FluxNext(chain, at: position, to: goal, origin: origin)
            if chain.stations[position - 1].handle(action, next) { return }
        }
        goal.reach(action)
    }
}

/// Where an action goes once it has passed all middleware.
nonisolated enum FluxGoal: Sendable {
    case everybody(FluxDispatcher)
    case name(FluxDispatcher, String)
    /// The dispatcher is the one it came by, if it did.
    case store(FluxAnyCore, FluxResident, FluxDispatcher?)
    /// To the stores of a dispatcher that works for another one, and on from there.
    indirect case worker(FluxDispatcher, FluxNext)
    case crossing(FluxCrossing)

    /// Whether it is one store that has a name: then the stores of workers on the way get nothing.
    var isNamed: Bool {
        switch self {
        case .name: true
        case .worker(_, let next): next.goal.isNamed
        case .everybody, .store, .crossing: false
        }
    }

    func reach(_ action: any FluxAction) {
        switch self {
        case .everybody(let dispatcher): dispatcher.deliver(action)
        case .name(let dispatcher, let name): dispatcher.deliver(action, to: name)
        case .store(let core, let resident, let dispatcher): resident.apply(action, to: core, by: dispatcher)
        case .worker(let dispatcher, let next):
            if !next.goal.isNamed { dispatcher.deliver(action) }
            next(action)
        case .crossing(let crossing): crossing.cross(action)
        }
    }
}

/// A store that an action changed, and the state that the action left.
///
/// Thread safety: a value.
nonisolated public struct FluxChange: Sendable {
    /// Which store.
    public let store: FluxStoreInfo
    /// The revision of the change.
    public let revision: UInt64
    /// The state as the action left it.
    public let state: any FluxState
}

nonisolated extension Sequence<FluxChange> {
    /// The state of a store after the last of these changes to it; nil if none of them is.
    ///
    /// - Parameter store: Which store.
    /// - Returns: Its state as the action left it.
    public func state<State>(of store: FluxStore<State>) -> State? {
        var found: State?
        for change in self where change.store.isOf(store) { found = change.state as? State }
        return found
    }
}

/// Collects the changes that are made while one `next` is under way, on the thread that called it.
nonisolated final class FluxReport {
    let outer: UnsafeRawPointer?
    private(set) var changes: [FluxChange] = []

    init(outer: UnsafeRawPointer?) {
        self.outer = outer
    }

    func add(_ change: FluxChange) {
        changes.append(change)
        if let outer { FluxReport.at(outer).add(change) }
    }

    static func at(_ address: UnsafeRawPointer) -> FluxReport {
        Unmanaged<FluxReport>.fromOpaque(address).takeUnretainedValue()
    }
}
