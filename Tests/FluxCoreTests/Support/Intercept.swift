import FluxCore

/// An interceptor that is a closure.
struct Intercept: FluxDispatchInterceptor {
    let body: @Sendable (any FluxAction, FluxNext) -> Int

    init(_ body: @escaping @Sendable (any FluxAction, FluxNext) -> Int) {
        self.body = body
    }

    func dispatch(_ action: any FluxAction, on dispatcher: FluxDispatcher, next: FluxNext) -> Int {
        body(action, next)
    }
}
