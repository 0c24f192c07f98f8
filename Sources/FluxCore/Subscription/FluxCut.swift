/// Reads several stores at one moment between two actions.
nonisolated enum FluxCut {
    /// The dispatchers to stop for a cut through sources, each once and in the order that all cuts take them in.
    ///
    /// None for one store: it is at one moment by itself.
    static func dispatchers<each State: Sendable>(_ feed: repeat FluxFeed<each State>) -> [FluxDispatcher] {
        var all: [ObjectIdentifier: FluxDispatcher] = [:]
        var count = 0
        for feed in repeat each feed {
            count += 1
            for dispatcher in feed.dispatchers { all[ObjectIdentifier(dispatcher)] = dispatcher }
        }
        let isOneStore = count == 1 && all.count <= 1
        return isOneStore ? [] : all.sorted { $0.key < $1.key }.map(\.value)
    }

    /// Runs a closure while no action is under way in any of the dispatchers.
    static func take<Result>(_ dispatchers: ArraySlice<FluxDispatcher>, _ body: () -> Result) -> Result {
        guard let first = dispatchers.first else { return body() }
        return first.routes.withLock { _ in take(dispatchers.dropFirst(), body) }
    }
}
