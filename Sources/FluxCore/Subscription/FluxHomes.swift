/// The dispatchers that a cut has to stop, each once and in the order that all cuts take them in; for one it allocates
/// nothing.
@usableFromInline
nonisolated struct FluxHomes {
    /// Finds the dispatcher that a store is attached to at the moment.
    @usableFromInline typealias Finder = @Sendable () -> FluxDispatcher?

    private var first: FluxDispatcher?
    private var others: ContiguousArray<FluxDispatcher> = []

    private init() {}

    private mutating func add(_ finders: ContiguousArray<Finder>) {
        for find in finders {
            if let dispatcher = find() { add(dispatcher) }
        }
    }

    private mutating func add(_ dispatcher: FluxDispatcher) {
        guard let first else { return self.first = dispatcher }
        if first === dispatcher || others.contains(where: { $0 === dispatcher }) { return }
        let isFirst = ObjectIdentifier(dispatcher) < ObjectIdentifier(first)
        others.append(isFirst ? first : dispatcher)
        others.sort { ObjectIdentifier($0) < ObjectIdentifier($1) }
        if isFirst { self.first = dispatcher }
    }

    /// Runs a closure while no action is under way in any of the dispatchers.
    ///
    /// A store may move while the locks are taken, so it is looked where they are again once they are held.
    @usableFromInline
    static func stop(_ finders: ContiguousArray<Finder>, while body: () -> Void) {
        while true {
            // Let go of outside the locks: it may be the last reference to a dispatcher and to its middleware.
            var (homes, again) = (FluxHomes(), FluxHomes())
            homes.add(finders)
            let isDone = homes.withLocks(0) {
                again.add(finders)
                if !again.isSame(as: homes) { return false }
                body()
                return true
            }
            if isDone { return }
        }
    }

    private func withLocks(_ position: Int, _ body: () -> Bool) -> Bool {
        guard let first else { return body() }
        if position > others.count { return body() }
        let dispatcher = position == 0 ? first : others[position - 1]
        return dispatcher.routes.withLock { _ in withLocks(position + 1, body) }
    }

    private func isSame(as other: FluxHomes) -> Bool {
        first === other.first && others.elementsEqual(other.others) { $0 === $1 }
    }
}
