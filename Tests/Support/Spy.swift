import FluxCore
import FluxRouting

/// Middleware that is an object, to be removed by instance.
public final class Spy: FluxMiddleware {
    /// What passed, described, after the name.
    public let seen = Recorder<String>()
    let name: String

    /// Middleware of some name, or none.
    public init(_ name: String = "") {
        self.name = name
    }

    /// Takes note of an action and passes it on.
    public func handle(action: any FluxAction, next: FluxNext) {
        seen.record("\(name)\(action)")
        next(action)
    }
}
