import AccessLog
import FluxCore
import FluxInspector

/// Serves the inspector on a port of this machine.
struct Inspection {
    /// The address of the page.
    let address: String
    private let inspector: FluxInspector
    private let server: Task<Void, any Error>

    /// Starts the server, and returns once it listens.
    init(port: Int) async throws {
        let inspector = FluxInspector()
        let (listening, continuation) = AsyncStream.makeStream(of: Int.self)
        server = Task {
            defer { continuation.finish() }
            try await inspector.serve(port: port) { port in continuation.yield(port) }
        }
        var ports = listening.makeAsyncIterator()
        guard let port = await ports.next() else {
            try await server.value
            throw CancellationError()
        }
        self.inspector = inspector
        address = "http://127.0.0.1:\(port)/inspect"
    }

    func show(_ store: FluxStore<AccessSummary>) {
        inspector.inspect(store, name: "summary")
    }

    func stop() {
        server.cancel()
    }
}
