import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTP1

/// What went wrong with a request, as a problem document of RFC 9457.
struct Problem: Error {
    var kind: String
    var status: HTTPResponse.Status
    var title: String
    var detail = ""
    /// Added by the kind `stale`: the revision of the board, and the current card.
    var revision: Int?
    var card: Board.Card?
    var allow: String?
    /// Whether the rest of the request may never arrive, or cannot be found: the connection ends after the response.
    var endsConnection = false

    static let notFound = Problem(kind: "not-found", status: .notFound, title: "There is nothing at this address")
    static let unknownBoard = Problem(kind: "unknown-board", status: .notFound, title: "There is no such board")
    static let tooSlow = Problem(
        kind: "too-slow", status: .requestTimeout, title: "The request took too long to arrive", endsConnection: true)
    static let mediaType = Problem(
        kind: "media-type", status: .unsupportedMediaType, title: "The body must be application/json")
    static let busy = Problem(
        kind: "busy", status: .tooManyRequests, title: "Another edit of this card is in progress",
        detail: "Nothing was changed. Try again.")
    static let overloaded = Problem(
        kind: "overloaded", status: .serviceUnavailable, title: "Too many commands are in progress",
        detail: "Nothing was changed. Try again in a moment.")
    static let overtaken = Problem(
        kind: "overtaken", status: .conflict, title: "The board has been changed in the meantime",
        detail: "Nothing was changed. Try again.")
    static let closing = Problem(kind: "closing", status: .serviceUnavailable, title: "The server is shutting down")
    static let failed = Problem(
        kind: "failed", status: .internalServerError, title: "Internal error", detail: "The error was logged.")

    /// The disk does not accept the change.
    static func unsaved(_ detail: String) -> Problem {
        Problem(
            kind: "unsaved", status: .serviceUnavailable, title: "Nothing can be saved at the moment", detail: detail)
    }

    /// The command may already be on the shared log, or may still reach it.
    static func unconfirmed(_ detail: String) -> Problem {
        Problem(
            kind: "unsaved", status: .serviceUnavailable, title: "It is not known whether this was saved",
            detail: detail)
    }

    /// The log that several servers share does not accept the command.
    static func unavailable(_ detail: String) -> Problem {
        Problem(
            kind: "unavailable", status: .serviceUnavailable, title: "The log cannot be reached at the moment",
            detail: "Nothing was changed. \(detail)")
    }

    static func malformed(_ detail: String) -> Problem {
        Problem(kind: "malformed", status: .badRequest, title: "The request cannot be understood", detail: detail)
    }

    static func invalid(_ detail: String) -> Problem {
        Problem(kind: "invalid", status: .unprocessableContent, title: "A value is not allowed", detail: detail)
    }

    static func tooLarge(_ limit: Int) -> Problem {
        Problem(
            kind: "too-large", status: .contentTooLarge, title: "The body is too large",
            detail: "The limit is \(limit) bytes.")
    }

    static func method(allow: String) -> Problem {
        Problem(
            kind: "method", status: .methodNotAllowed, title: "This method is not allowed here",
            detail: "Allowed: \(allow).", allow: allow)
    }
}

extension Problem: CustomStringConvertible {
    /// One line for a log or the program's last words.
    var description: String { detail.isEmpty ? title : "\(title). \(detail)" }
}

// MARK: - From an error

/// An error of another part of the program that provides its own problem document.
protocol KnownError: Error {
    var problem: Problem { get }
}

extension Problem {
    /// The problem document for an error; nil: the program does not know the error.
    init?(_ error: any Error) {
        switch error {
        case let problem as Problem: self = problem
        case let refusal as Refusal: self.init(refusal)
        case let error as any KnownError: self = error.problem
        case is CancellationError: self = .closing
        case let error as HTTPError where error.status == .notFound: self = .notFound
        case let error as HTTPError:
            self.init(kind: "http", status: error.status, title: error.status.reasonPhrase, detail: error.body ?? "")
        // One of the server's own making is logged as any unknown error.
        case let error as any HTTPResponseError where error.status.code < 500:
            self.init(kind: "http", status: error.status, title: error.status.reasonPhrase)
        case let error as DecodingError: self = .malformed(error.reason)
        case is HTTPParserError:
            self = .malformed("Its body is not valid HTTP, or ends too early.")
            endsConnection = true
        default: return nil
        }
    }

    private init(_ refusal: Refusal) {
        switch refusal {
        case .unknownList(let id):
            self.init(
                kind: "unknown-list", status: .notFound, title: "There is no such list", detail: "The id was \(id).")
        case .unknownCard(let id):
            self.init(
                kind: "unknown-card", status: .notFound, title: "There is no such card", detail: "The id was \(id).")
        case .stale(let revision, let card):
            self.init(
                kind: "stale", status: .conflict, title: "This card has been changed in the meantime",
                detail: "The edit is not based on the newest revision of the card, \(card.revision).",
                revision: revision, card: card)
        case .nothingToUndo:
            self.init(kind: "nothing-to-undo", status: .conflict, title: "There is nothing to undo")
        case .full(let detail):
            self.init(
                kind: "full", status: HTTPResponse.Status(code: 507, reasonPhrase: "Insufficient Storage"),
                title: "There is no room for more", detail: detail)
        case .invalid(let detail): self = .invalid(detail)
        }
    }
}

extension DecodingError {
    /// One line for the sender that names the place.
    fileprivate var reason: String {
        func place(_ path: [any CodingKey]) -> String {
            path.isEmpty ? "The body" : path.map(\.stringValue).joined(separator: ".")
        }
        return switch self {
        case .keyNotFound(let key, _): "\(key.stringValue) is missing."
        case .typeMismatch(_, let context): "\(place(context.codingPath)) has the wrong type."
        case .valueNotFound(_, let context): "\(place(context.codingPath)) is null."
        case .dataCorrupted(let context):
            context.codingPath.isEmpty
                ? "The body is not JSON, or has a number out of range."
                : "\(place(context.codingPath)) has an invalid value."
        @unknown default: "The body is not valid."
        }
    }
}

// MARK: - To a response

extension Problem: Encodable {
    private enum Key: String, CodingKey { case type, title, status, detail, revision, card }

    func encode(to encoder: any Encoder) throws {
        var fields = encoder.container(keyedBy: Key.self)
        try fields.encode("urn:live-board:\(kind)", forKey: .type)
        try fields.encode(title, forKey: .title)
        try fields.encode(status.code, forKey: .status)
        if !detail.isEmpty { try fields.encode(detail, forKey: .detail) }
        try fields.encodeIfPresent(revision, forKey: .revision)
        try fields.encodeIfPresent(card, forKey: .card)
    }

    var response: Response {
        var headers: HTTPFields = [.contentType: "application/problem+json", .cacheControl: "no-store"]
        if let allow { headers[.allow] = allow }
        let bytes = ByteBuffer(bytes: encoded(self))
        guard endsConnection else {
            return Response(status: status, headers: headers, body: .init(byteBuffer: bytes))
        }
        // The error thrown below ends the connection, after the response is written.
        headers[.connection] = "close"
        headers[.contentLength] = "\(bytes.readableBytes)"
        return Response(
            status: status, headers: headers,
            body: ResponseBody { writer in
                try await writer.write(bytes)
                try await writer.finish(nil)
                throw self
            })
    }
}

/// Turns every error into a problem document.
struct ProblemMiddleware<Context: RequestContext>: RouterMiddleware {
    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch {
            let known = Problem(error)
            if known == nil {
                context.logger.error(
                    "A request failed", metadata: ["path": "\(request.uri.path)", "error": "\(error)"])
            }
            let problem = known ?? .failed
            // A client that asked for the head alone would take a body for the next response.
            let isWhole = request.method != .head || problem.endsConnection
            return isWhole ? problem.response : problem.response.createHeadResponse()
        }
    }
}

/// Reads the body of a request before the request is handled, and limits its size and the time it may take.
///
/// A body of which nothing arrives is left to the server, which closes idle connections; see `SlowSenders`.
struct BodyMiddleware<Context: RequestContext>: RouterMiddleware {
    var limit = 16 * 1_024
    var patience = Duration.seconds(4)

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        guard request.headers.contains(.contentLength) || request.headers.contains(.transferEncoding) else {
            return try await next(request, context)
        }
        let deadline = ContinuousClock.now + patience
        var body = ByteBuffer()
        var size = 0
        for try await var part in request.body {
            if ContinuousClock.now > deadline { throw Problem.tooSlow }
            size += part.readableBytes
            // A body that is too large is read to its end, but not kept; otherwise the client might miss the response.
            if size <= limit { body.writeBuffer(&part) }
        }
        if size > limit { throw Problem.tooLarge(limit) }
        var request = request
        request.body = RequestBody(buffer: body)
        return try await next(request, context)
    }
}
