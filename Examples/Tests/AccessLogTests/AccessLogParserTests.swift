import AccessLog
import Testing

@Suite("AccessLogParser")
struct AccessLogParserTests {
    static let head = #"192.0.2.7 - - [10/Oct/2000:13:55:36 -0700]"#

    static let entries: [(line: String, entry: AccessLogEntry)] = [
        // The examples from the documentation of mod_log_config.
        (
            #"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#,
            AccessLogEntry(path: "/apache_pb.gif", status: 200, bytes: 2326)
        ),
        (
            #"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326 "#
                + #""http://www.example.com/start.html" "Mozilla/4.08 [en] (Win98; I ;Nav)""#,
            AccessLogEntry(path: "/apache_pb.gif", status: 200, bytes: 2326)
        ),
        (#"\#(head) "GET /a?b=c HTTP/1.1" 304 -"#, AccessLogEntry(path: "/a", status: 304, bytes: 0)),
        ("\(head) \"GET /a HTTP/1.1\" 200 1\r", AccessLogEntry(path: "/a", status: 200, bytes: 1)),
        (#"\#(head) "GET / HTTP/2.0" 200 1 "\"x\"" "a \\\" b""#, AccessLogEntry(path: "/", status: 200, bytes: 1)),
        (#"\#(head) "GET /\"a\"?\" HTTP/1.0" 400 1"#, AccessLogEntry(path: #"/\"a\""#, status: 400, bytes: 1)),
        (#"\#(head) "GET /caf\xC3\xA9 HTTP/1.0" 404 1"#, AccessLogEntry(path: #"/caf\xC3\xA9"#, status: 404, bytes: 1)),
        (#"\#(head) "GET /a b HTTP/1.1" 400 1"#, AccessLogEntry(path: "/a b", status: 400, bytes: 1)),
        (#"\#(head) "GET /\\" 400 1"#, AccessLogEntry(path: #"/\\"#, status: 400, bytes: 1)),
        (#"\#(head) "GET /old" 009 1"#, AccessLogEntry(path: "/old", status: 9, bytes: 1)),
        (#"\#(head) "GET / HTTP/1.1" - -"#, AccessLogEntry(path: "/", status: 0, bytes: 0)),
        (#"\#(head) "OPTIONS * HTTP/1.1" 200 -"#, AccessLogEntry(path: "*", status: 200, bytes: 0)),
        (#"\#(head) "CONNECT a.b:443 HTTP/1.1" 405 1"#, AccessLogEntry(path: "a.b:443", status: 405, bytes: 1)),
        (#"\#(head) "GET http://a.b/c?d HTTP/1.1" 200 1"#, AccessLogEntry(path: "/c", status: 200, bytes: 1)),
        (#"\#(head) "GET http://a.b?d HTTP/1.1" 200 1"#, AccessLogEntry(path: "/", status: 200, bytes: 1)),
        (#"\#(head) "-" 408 -"#, AccessLogEntry(path: nil, status: 408, bytes: 0)),
        (#"\#(head) "" 400 0 "-" "-""#, AccessLogEntry(path: nil, status: 400, bytes: 0)),
        (#"\#(head) "\x16\x03\x01 \x02" 400 157 "-" "-""#, AccessLogEntry(path: nil, status: 400, bytes: 157)),
        (#"\#(head) "SSH-2.0-OpenSSH_9.2" 400 1"#, AccessLogEntry(path: nil, status: 400, bytes: 1)),
        (#"\#(head) "EHLO /a" 400 1"#, AccessLogEntry(path: nil, status: 400, bytes: 1)),
        (#"\#(head) "GET a HTTP/1.1" 400 1"#, AccessLogEntry(path: nil, status: 400, bytes: 1)),
        (#"\#(head) "GET  HTTP/1.1" 400 1"#, AccessLogEntry(path: nil, status: 400, bytes: 1)),
        (
            #"2001:db8::1 - maria [x] garc\x22ia [10/Oct/2000:13:55:36 +0000] "GET / HTTP/1.1" 401 1 "-" "-""#,
            AccessLogEntry(path: "/", status: 401, bytes: 1)
        ),
        (#"\#(head) "GET / HTTP/1.1" 200 1 "-" "-" "::1" 0.02"#, AccessLogEntry(path: "/", status: 200, bytes: 1)),
        (#"\#(head) "GET / HTTP/1.1" 200 9223372036854775807"#, AccessLogEntry(path: "/", status: 200, bytes: .max)),
    ]

    @Test("The parser reads every line that a server may record", arguments: entries)
    func reads(line: String, entry: AccessLogEntry) throws {
        #expect(try AccessLogParser.parse(Array(line.utf8)[...]) == entry)
    }

    static let flaws: [(line: String, reason: String)] = [
        ("", "the line is empty"),
        ("\r", "the line is empty"),
        (" x", "no host"),
        ("x", "no identity"),
        ("x  y", "no identity"),
        ("x -", "no user"),
        ("x - - y", "no time in brackets"),
        ("x - [10/Oct/2000:13:55:36 -0700] \"", "no user"),
        ("x -  [10/Oct/2000:13:55:36 -0700] \"", "no user"),
        ("x - - [10/Okt/2000 13:55:36]", "the time is not like 10/Oct/2000:13:55:36 -0700: [10/Okt/2000 13:55:36]"),
        (
            "x - - [10/Oct/2000:13:55:36 -07]",
            "the time is not like 10/Oct/2000:13:55:36 -0700: [10/Oct/2000:13:55:36 -07]"
        ),
        (head, "no request"),
        (head + "x", "unexpected after the time: x"),
        (head + " GET / HTTP/1.1 200 5", "no opening quote before the request: GET / HTTP/1.1 200 5"),
        (head + #" "GET / HTTP/1.1 200 5"#, "no closing quote after the request"),
        (head + #" "GET / HTTP/1.1\" 200 5"#, "no closing quote after the request"),
        (head + #" "GET / HTTP/1.1\"#, "no closing quote after the request"),
        (head + #" "GET / HTTP/1.1"200 5"#, "unexpected after the request: 200 5"),
        (head + #" "GET / HTTP/1.1""#, "no status"),
        (head + #" "GET / HTTP/1.1" abc 5"#, "the status is not three digits: abc"),
        (head + #" "GET / HTTP/1.1" 20 5"#, "the status is not three digits: 20"),
        (head + #" "GET / HTTP/1.1" +20 5"#, "the status is not three digits: +20"),
        (head + #" "GET / HTTP/1.1" 200"#, "no size"),
        (head + #" "GET / HTTP/1.1" 200 -5"#, "the size is not a number: -5"),
        (head + #" "GET / HTTP/1.1" 200 1 2"#, "unexpected after the size: 2"),
        (head + #" "GET / HTTP/1.1" 200 9223372036854775808"#, "the size is too large: 9223372036854775808"),
        (head + #" "GET / HTTP/1.1" 200 1 "-"#, "no closing quote after the referer"),
        (head + #" "GET / HTTP/1.1" 200 1 "-""#, "no user agent"),
        (head + #" "GET / HTTP/1.1" 200 1 "-" -"#, "no opening quote before the user agent: -"),
        (head + #" "GET / HTTP/1.1" 200 1 "-" "-"#, "no closing quote after the user agent"),
        (head + #" "GET / HTTP/1.1" 200 1 "-" "-"-"#, "unexpected after the user agent: -"),
        (
            head + #" "GET / HTTP/1.1" 0123456789012345678901234567890123456789x 1"#,
            "the status is not three digits: 0123456789012345678901234567890123456789…"
        ),
    ]

    @Test("The parser reports what is wrong with a line", arguments: flaws)
    func rejects(line: String, reason: String) {
        let flaw = #expect(throws: AccessLogFlaw.self) { try AccessLogParser.parse(Array(line.utf8)[...]) }
        #expect(flaw?.description == reason)
    }

    @Test("The parser repairs a path that is not UTF-8")
    func repairsPath() throws {
        let line = Array("\(Self.head) \"GET /".utf8) + [0xFF] + Array(" HTTP/1.1\" 200 1".utf8)
        #expect(try AccessLogParser.parse(line[...]).path == "/\u{FFFD}")
    }
}
