/// Reads several stores at one moment between two actions.
///
/// It reads each store once, however many of the views in between read it: what is dispatched to a store itself, past
/// its dispatcher, might otherwise come between two readings.
@usableFromInline
nonisolated final class FluxCut {
    private var readings: ContiguousArray<(core: AnyObject, reading: Any)> = []

    /// What was read of a store before, or is now.
    func reading<Reading>(of core: AnyObject, _ read: () -> Reading) -> Reading {
        for known in readings where known.core === core {
            if let reading = known.reading as? Reading { return reading }
        }
        let reading = read()
        readings.append((core, reading))
        return reading
    }

    /// The dispatchers to stop for a cut through sources, each once and in the order that all cuts take them in.
    static func dispatchers<each State: Sendable>(_ feed: repeat FluxFeed<each State>) -> [FluxDispatcher] {
        var all: [ObjectIdentifier: FluxDispatcher] = [:]
        for feed in repeat each feed {
            for dispatcher in feed.dispatchers { all[ObjectIdentifier(dispatcher)] = dispatcher }
        }
        return all.sorted { $0.key < $1.key }.map(\.value)
    }

    /// Runs a closure while no action is under way in any of the dispatchers.
    static func take<Result>(_ dispatchers: ArraySlice<FluxDispatcher>, _ body: (FluxCut) -> Result) -> Result {
        guard let first = dispatchers.first else { return body(FluxCut()) }
        return first.routes.withLock { _ in take(dispatchers.dropFirst(), body) }
    }
}
