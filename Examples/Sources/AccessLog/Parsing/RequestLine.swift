/// Finds the path in the request line that a server recorded.
///
/// A server records what it received, and on the open internet that is not always HTTP: `-` or nothing if a connection
/// was closed early, the first bytes of a TLS handshake, commands of other protocols. Such a line is still a request
/// that was answered with a status. It only has no path.
///
///     request   = method SP target SP "HTTP/" anything
///               / "GET" SP path                          ; HTTP/0.9
///     target    = path / scheme "://" authority [ path ] / "*" / authority
///
/// The target may contain spaces, because servers record it as it arrived. Escapes stay as recorded, so a path can be
/// found again in the log. `*` and the authority of a `CONNECT` count as paths.
enum RequestLine {
    /// The path of a request line, without its query; nil if it has none.
    static func path(of line: ArraySlice<UInt8>) -> String? {
        target(of: line).map { String(decoding: path(ofTarget: $0), as: UTF8.self) }
    }

    private static func target(of line: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard let methodEnd = line.find(.space), line[..<methodEnd].allSatisfy(\.isToken) else { return nil }
        let method = line[..<methodEnd]
        let rest = line[(methodEnd + 1)...]
        if let space = rest.lastIndex(of: .space), rest[(space + 1)...].starts(with: "HTTP/".utf8) {
            let target = rest[..<space]
            let isAuthority = method.elementsEqual("CONNECT".utf8) && !target.isEmpty
            return isAuthority || target.looksLikeTarget ? target : nil
        }
        return method.elementsEqual("GET".utf8) && rest.first == .slash ? rest : nil
    }

    private static func path(ofTarget target: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let path = target[..<(target.find(UInt8(ascii: "?")) ?? target.endIndex)]
        guard target.first != .slash, let authority = path.endOfScheme else { return path }
        let afterAuthority = path[authority...].drop { $0 != .slash }
        return afterAuthority.isEmpty ? [.slash] : afterAuthority
    }
}

extension ArraySlice<UInt8> {
    fileprivate var looksLikeTarget: Bool {
        first == .slash || elementsEqual("*".utf8) || endOfScheme != nil
    }

    /// The index at which the authority of an absolute URI begins; nil if this is not an absolute URI.
    fileprivate var endOfScheme: Index? {
        let scheme = prefix { $0.isLetter || $0.isDigit }
        guard !scheme.isEmpty, self[scheme.endIndex...].starts(with: "://".utf8) else { return nil }
        return scheme.endIndex + 3
    }
}

extension UInt8 {
    fileprivate static let slash = UInt8(ascii: "/")

    /// Whether a method name may contain this byte (RFC 9110, 5.6.2); a backslash, which begins an escape, may not
    /// occur.
    fileprivate var isToken: Bool {
        isLetter || isDigit || "!#$%&'*+-.^_`|~".utf8.contains(self)
    }
}
