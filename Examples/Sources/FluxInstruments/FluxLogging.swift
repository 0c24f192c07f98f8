import FluxCore
import FluxDiagnostics
import Logging

/// Logs the events and actions of a dispatcher or a store with swift-log.
///
/// Copy this file into your program.
///
///     let registration = dispatcher.instrument(FluxLogging(Logger(label: "flux")))
struct FluxLogging: FluxInstrumentation {
    private let logger: Logger
    private let level: Logger.Level

    /// - Parameters:
    ///   - logger: The logger to write to.
    ///   - level: The level for what succeeds; a failure is logged as an error, a retry as a warning.
    init(_ logger: Logger, level: Logger.Level = .debug) {
        self.logger = logger
        self.level = level
    }

    func fired(_ event: any FluxEvent, origin: FluxOrigin) {
        logger.log(level: level, "fired", metadata: ["event": "\(event)", "origin": "\(origin.id)"])
    }

    func failed(_ event: any FluxEvent, error: any Error, origin: FluxOrigin) {
        logger.error("failed", metadata: ["event": "\(event)", "origin": "\(origin.id)", "error": "\(error)"])
    }

    func retried(_ event: any FluxEvent, attempt: Int, error: any Error, origin: FluxOrigin) {
        logger.warning(
            "tried again",
            metadata: [
                "event": "\(event)", "origin": "\(origin.id)", "attempt": "\(attempt)", "error": "\(error)",
            ])
    }

    func dispatched(_ action: any FluxAction, origin: FluxOrigin?) {
        logger.log(level: level, "dispatched", metadata: metadata(action, origin))
    }

    func applied(_ action: any FluxAction, to store: FluxStoreInfo, revision: UInt64?, in duration: Duration) {
        var metadata = metadata(action, FluxOrigin.current)
        metadata["store"] = "\(store)"
        metadata["duration"] = "\(duration)"
        if let revision { metadata["revision"] = "\(revision)" }
        logger.log(level: level, "applied", metadata: metadata)
    }

    private func metadata(_ action: any FluxAction, _ origin: FluxOrigin?) -> Logger.Metadata {
        var metadata: Logger.Metadata = ["action": "\(action)"]
        if let origin { metadata["origin"] = "\(origin.id)" }
        return metadata
    }
}
