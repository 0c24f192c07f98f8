import FluxCore
import FluxInspector
import HTTPTypes
import Hummingbird
import HummingbirdTesting
import NIOCore
import Testing

/// A request that seems to come from another address.
private struct PeerContext: RequestContext, RemoteAddressRequestContext {
    @TaskLocal static var peer: String?

    var coreContext: CoreRequestContextStorage
    let remoteAddress: SocketAddress?

    init(source: ApplicationRequestContextSource) {
        coreContext = CoreRequestContextStorage(source: source)
        remoteAddress = Self.peer.flatMap { try? SocketAddress(ipAddress: $0, port: 4711) }
    }
}

@Suite("Access to the inspector", .timeLimit(.minutes(3)))
struct GuardianTests {
    /// Sends a request to a router, as if from another address.
    private func answer(
        _ method: HTTPRequest.Method = .get, to path: String = "/inspect", from peer: String?, token: String? = nil,
        headers: HTTPFields = [:]
    ) async throws -> TestResponse {
        let router = Router(context: PeerContext.self)
        let inspector = FluxInspector(limit: 10)
        inspector.mount(on: router, token: token)
        return try await Application(router: router).test(.router) { client in
            try await PeerContext.$peer.withValue(peer) {
                try await client.execute(uri: path, method: method, headers: headers)
            }
        }
    }

    private static let paths = [
        "/inspect", "/inspect/inspector.js", "/inspect/inspector.css", "/inspect/inspector.svg", "/inspect/stores",
        "/inspect/stores/1",
        "/inspect/stream", "/inspect/rows/1", "/inspect/rows/1/state",
    ]

    @Test(
        "HEAD is answered like GET, without a body and for the same clients",
        arguments: paths.filter { $0 != "/inspect/stream" })
    func head(path: String) async throws {
        let (get, head) = (try await answer(to: path, from: "::1"), try await answer(.head, to: path, from: "::1"))
        #expect(head.status == get.status)
        if head.status == .ok {
            #expect(head.headers[.contentType] == get.headers[.contentType])
            #expect(head.body.readableBytes == 0)
        }
        let refused = try await answer(.head, to: path, from: "192.168.0.7")
        #expect(refused.status == .forbidden && refused.body.readableBytes == 0)
    }

    @Test("Without a token this machine has access", arguments: ["127.0.0.1", "127.8.7.6", "::1", "::ffff:127.0.0.1"])
    func loopback(peer: String) async throws {
        #expect(try await answer(from: peer).status == .ok)
    }

    @Test("Without a token no other machine has access, on any path", arguments: paths)
    func elsewhere(path: String) async throws {
        for peer in ["192.168.0.7", "10.127.0.1", "1.127.0.0", "::2", "::ffff:8.8.8.8", nil] {
            #expect(try await answer(to: path, from: peer).status == .forbidden, "\(peer ?? "unknown")")
        }
    }

    @Test("Without a token, a request forwarded by a proxy of this machine is refused")
    func forwarded() async throws {
        for name in ["Forwarded", "Via", "x-forwarded-for", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-IP"] {
            let headers: HTTPFields = [try #require(HTTPField.Name(name)): "8.8.8.8"]
            #expect(try await answer(from: "127.0.0.1", headers: headers).status == .forbidden, "\(name)")
        }
    }

    @Test("Without a token, a request to a foreign host name is refused")
    func rebinding() async throws {
        try await serving(FluxInspector(limit: 10)) { served in
            for host in ["localhost:\(served.port)", "127.0.0.1", "[::1]:80", "LocalHost"] {
                try await #expect(served.get("/inspect", headers: ["Host": host]).status == .ok, "\(host)")
            }
            for host in [
                "evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "127.evil.0.1", "[::2]",
            ] {
                for path in ["/inspect", "/inspect/stores", "/inspect/stream"] {
                    try await #expect(served.get(path, headers: ["Host": host]).status == .forbidden, "\(host)")
                }
            }
        }
    }

    @Test("With a token, each client that has it has access from anywhere, and no other", arguments: paths)
    func token(path: String) async throws {
        #expect(try await answer(to: path, from: "127.0.0.1", token: "open sesame").status == .unauthorized)
        for wrong in ["Bearer open", "Bearer open sesamE", "Bearer ", "open sesame", "Basic open sesame"] {
            let answer = try await answer(
                to: path, from: "8.8.8.8", token: "open sesame", headers: [.authorization: wrong])
            #expect(answer.status == .unauthorized, "\(wrong)")
            #expect(answer.headers[.wwwAuthenticate] == "Bearer")
        }
        if path.hasSuffix("stream") { return }
        let known = try await answer(
            to: path, from: "8.8.8.8", token: "open sesame", headers: [.authorization: "bearer open sesame"])
        #expect(known.status == (path.contains("1") ? .notFound : .ok))
    }

    @Test("A token in the address sets a cookie that no script and no other site gets")
    func cookie() async throws {
        try await serving(FluxInspector(limit: 10), token: "open sesame") { served in
            try await #expect(served.get("/inspect?token=open").status == .unauthorized)
            let page = try await served.get("/inspect?token=open%20sesame")
            #expect(page.status == .ok)
            let cookie = try #require(page.headers.first(name: "Set-Cookie"))
            let parts = Set(cookie.split(separator: ";").map { $0.trimmingPrefix(" ") })
            #expect(parts.isSuperset(of: ["HttpOnly", "SameSite=Strict", "Path=/inspect"]), "\(cookie)")
            #expect(!cookie.contains("sesame"))
            let pair = try #require(cookie.split(separator: ";").first)
            try await #expect(served.get("/inspect/stores", headers: ["Cookie": String(pair)]).status == .ok)
            let other = pair.dropLast() + (pair.hasSuffix("0") ? "1" : "0")
            try await #expect(
                served.get("/inspect/stores", headers: ["Cookie": String(other)]).status == .unauthorized)
            try await #expect(served.get("/inspect/stores").status == .unauthorized)
        }
    }

    @Test("The cookies of other servers on this machine stay valid")
    func neighbours() async throws {
        @Sendable func cookie(_ served: Served) async throws -> Substring {
            let page = try await served.get("/inspect?token=secret")
            return try #require(page.headers.first(name: "Set-Cookie")?.split(separator: ";").first)
        }
        try await serving(FluxInspector(limit: 10), token: "secret") { one in
            try await serving(FluxInspector(limit: 10), token: "secret") { other in
                let cookies = [try await cookie(one), try await cookie(other)]
                #expect(Set(cookies.map { $0.prefix { $0 != "=" } }).count == 2)
                let all = ["Cookie": cookies.joined(separator: "; ")]
                try await #expect(one.get("/inspect/stores", headers: all).status == .ok)
                try await #expect(other.get("/inspect/stores", headers: all).status == .ok)
            }
        }
    }

    @Test("The page has no script or style in it, and its policy allows only its own files")
    func page() async throws {
        let page = try await answer(from: "127.0.0.1")
        let html = String(buffer: page.body)
        #expect(html.contains(#"<script type="module" src="inspect/inspector.js"></script>"#))
        #expect(html.contains(#"<link rel="stylesheet" href="inspect/inspector.css">"#))
        #expect(!html.contains("<style") && !html.contains("style=") && !html.contains(" on"))
        let policy = try #require(page.headers[.contentSecurityPolicy])
        #expect(policy.contains("default-src 'self'") && !policy.contains("unsafe"))
        #expect(page.headers[.xContentTypeOptions] == "nosniff")
        let below = try await answer(to: "/inspect/", from: "127.0.0.1")
        #expect(String(buffer: below.body).contains(#"src="inspector.js""#))
        let script = String(buffer: try await answer(to: "/inspect/inspector.js", from: "127.0.0.1").body)
        // Content from the program is only ever inserted as text.
        for way in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            #expect(!script.contains(way))
        }
    }
}
