import FluxCore
import FluxRouting

/// Middleware that is an object, so it can be removed by instance.
public final class Spy: FluxMiddleware {
    /// The actions that passed, described, each after the name.
    public let seen = Recorder<String>()
    let name: String

    /// Creates middleware with a name, or without.
    public init(_ name: String = "") {
        self.name = name
    }

    /// Records an action and passes it on.
    public func handle(action: any FluxAction, next: FluxNext) {
        seen.record("\(name)\(action)")
        next(action)
    }
}
