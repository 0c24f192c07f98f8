import FluxCore

/// Runs the closure that its event is; for conversions that use creators themselves.
enum NestedConverter: FluxAsyncActionConverter {
    struct Event: FluxEvent {
        let name: String
        let body: @Sendable () async throws -> Void

        init(_ name: String, _ body: @escaping @Sendable () async throws -> Void = {}) {
            self.name = name
            self.body = body
        }

        /// One that waits for its debounce.
        var isSlow: Bool { name.hasPrefix("slow") }
    }

    static func convert(
        event: Event, dependency: Void, send: @escaping @Sendable (Counter.Action) -> Void
    ) async throws {
        try await event.body()
    }
}
