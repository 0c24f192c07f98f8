import FluxCore

/// Runs the closure in its event, for conversions that use creators themselves.
public enum NestedConverter: FluxAsyncActionConverter {
    /// A closure with a name.
    public struct Event: FluxEvent {
        let name: String
        let body: @Sendable () async throws -> Void

        /// Creates an event with a name; without a closure, it ends without sending an action.
        public init(_ name: String, _ body: @escaping @Sendable () async throws -> Void = {}) {
            self.name = name
            self.body = body
        }
    }

    /// Runs the event's closure.
    public static func convert(
        event: Event, dependency: Void, send: @escaping @Sendable (Counter.Action) -> Void
    ) async throws {
        try await event.body()
    }
}
