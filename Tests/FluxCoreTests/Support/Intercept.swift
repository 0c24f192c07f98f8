import FluxCore
import TestSupport

/// An interceptor that is a closure.
struct Intercept: FluxDispatchInterceptor {
    let body: @Sendable (any FluxAction, FluxNext) -> Int

    init(_ body: @escaping @Sendable (any FluxAction, FluxNext) -> Int) {
        self.body = body
    }

    /// Keeps `next`, and stops the action there.
    static func keeping(_ kept: Locked<FluxNext?>) -> Intercept {
        Intercept { _, next in
            kept.withLock { $0 = next }
            return 0
        }
    }

    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        body(action, next)
    }
}
