import FluxCore

/// Runs the closure that its event is; for conversions that use creators themselves.
public enum NestedConverter: FluxAsyncActionConverter {
    /// A closure with a name.
    public struct Event: FluxEvent {
        let name: String
        let body: @Sendable () async throws -> Void

        /// An event of some name; without a closure it sends nothing and ends.
        public init(_ name: String, _ body: @escaping @Sendable () async throws -> Void = {}) {
            self.name = name
            self.body = body
        }

        /// One that waits for its debounce.
        public var isSlow: Bool { name.hasPrefix("slow") }
    }

    /// Runs the closure of the event.
    public static func convert(
        event: Event, dependency: Void, send: @escaping @Sendable (Counter.Action) -> Void
    ) async throws {
        try await event.body()
    }
}
