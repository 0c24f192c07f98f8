import HTTPTypes
import Hummingbird
import NIOCore
import ServiceLifecycle

/// Admits only authorised requests, and sets headers that restrict what a page may do.
struct Guardian<Context: RemoteAddressRequestContext>: RouterMiddleware {
    private let token: String?
    /// The value of the cookie, in place of the token: it is worthless once the program has ended.
    private let session = (0..<4).map { _ in String(UInt64.random(in: 0 ... .max), radix: 36) }.joined()

    init(token: String?) {
        if token == "" {
            fatalError("FluxInspector.mount(token: \"\") admits everyone: pass a token that is not empty.")
        }
        self.token = token
    }

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        if let refusal = refusal(of: request, from: context.remoteAddress) {
            return request.method == .head ? refusal.createHeadResponse() : refusal
        }
        // With an unread body, a stream would not notice that its client goes, and the server could not end.
        let body = request.body
        var request = request
        // The next handlers have to know that the body was read.
        request.body = RequestBody(
            buffer: try await cancelWhenGracefulShutdown { try await body.collect(upTo: 0) })
        var response = try await next(request, context)
        for (name, value) in [
            (
                "Content-Security-Policy",
                "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
            ),
            ("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("Cache-Control", "no-store"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
        ] {
            if let name = HTTPField.Name(name) { response.headers[name] = value }
        }
        return response
    }

    /// Returns the first page, with a cookie if the request has the token in its address.
    func admitting(_ request: Request, to page: Response) -> Response {
        guard let token, isSame(request.uri.queryParameters["token"] ?? "", token) else { return page }
        var page = page
        let path = request.uri.path
        page.setCookie(
            Cookie(
                name: cookieName(in: request), value: session,
                path: path.count > 1 && path.hasSuffix("/") ? String(path.dropLast()) : path,
                httpOnly: true, sameSite: .strict))
        return page
    }

    /// The name of the cookie, which has the requested port.
    ///
    /// For a browser, all servers of one machine are one site, where their cookies would otherwise replace each other.
    private func cookieName(in request: Request) -> String {
        let port = request.head.authority?.split(separator: ":").last.flatMap { UInt16($0) }
        return port.map { "flux-inspector-\($0)" } ?? "flux-inspector"
    }

    private func refusal(of request: Request, from peer: SocketAddress?) -> Response? {
        if let token {
            let bearer = request.headers[.authorization].flatMap { field in
                field.lowercased().hasPrefix("bearer ") ? field.dropFirst("bearer ".count) : nil
            }
            if isSame(bearer ?? "", token) || isSame(request.uri.queryParameters["token"] ?? "", token)
                || isSame(request.cookies[cookieName(in: request)]?.value ?? "", session)
            {
                return nil
            }
            return refusal(.unauthorized, "Add ?token= and the token to the inspector's address.")
        }
        let isForwarded = request.headers.contains { field in
            let name = field.name.canonicalName
            return ["via", "forwarded", "x-real-ip"].contains(name) || name.hasPrefix("x-forwarded-")
        }
        if isLoopback(peer?.ipAddress ?? "") && !isForwarded && isLoopback(host(of: request.head.authority ?? "")) {
            return nil
        }
        return refusal(
            .forbidden, "Without a token the inspector is for this machine alone: open it as localhost or 127.0.0.1."
        )
    }

    private func refusal(_ status: HTTPResponse.Status, _ reason: String) -> Response {
        var response = Response(
            status: status, headers: [.contentType: "text/plain; charset=utf-8"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: reason + "\n")))
        if status == .unauthorized { response.headers[.wwwAuthenticate] = "Bearer" }
        return response
    }

    /// The requested host, without its port and the brackets of an IPv6 address.
    private func host(of authority: String) -> String {
        if authority.hasPrefix("[") { return String(authority.dropFirst().prefix { $0 != "]" }) }
        return String(authority.prefix { $0 != ":" })
    }

    private func isLoopback(_ host: String) -> Bool {
        if host.lowercased() == "localhost" || host == "::1" { return true }
        // An IPv4 peer has such an address on a socket that serves both IPv4 and IPv6.
        let address = host.hasPrefix("::ffff:") ? host.dropFirst("::ffff:".count) : host[...]
        let parts = address.split(separator: ".", omittingEmptySubsequences: false)
        return parts.count == 4 && parts.first == "127" && parts.allSatisfy { UInt8($0) != nil }
    }

    /// Compares in a time that reveals nothing about the secret except its length.
    private func isSame(_ given: some StringProtocol, _ secret: String) -> Bool {
        let (given, secret) = (Array(given.utf8), Array(secret.utf8))
        var difference = given.count ^ secret.count
        for (index, byte) in given.enumerated() { difference |= Int(byte ^ secret[index % secret.count]) }
        return difference == 0
    }
}
