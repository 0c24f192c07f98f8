/// Parses one line in Common or Combined Log Format.
///
/// The formats are those of Apache httpd's `mod_log_config` (<https://httpd.apache.org/docs/2.4/mod/mod_log_config.html>);
/// nginx writes the second as `combined`:
///
///     common    %h %l %u %t "%r" %>s %b
///     combined  %h %l %u %t "%r" %>s %b "%{Referer}i" "%{User-agent}i"
///
/// The accepted grammar, in the notation of RFC 5234:
///
///     line      = host SP identity SP user SP time SP quoted SP status SP size [ combined ] [ CR ]
///     combined  = SP quoted SP quoted [ SP anything ]
///     host      = 1*no-space                  ; an IPv6 address has no brackets
///     identity  = 1*no-space
///     user      = 1*octet                     ; may have spaces: it ends where a time follows
///     time      = "[" 2DIGIT "/" 3ALPHA "/" 4DIGIT 3( ":" 2DIGIT ) SP ( "+" / "-" ) 4DIGIT "]"
///     quoted    = DQUOTE *( no-quote / "\" octet ) DQUOTE
///     status    = 3DIGIT / "-"                ; 000 and 009 are nginx's own
///     size      = 1*DIGIT / "-"
///
/// `anything` is allowed because many servers append their own fields to the combined format. A client may send
/// something that is not a request at all, so the quoted request line may hold anything: see ``RequestLine``.
public enum AccessLogParser {
    /// Parses a line.
    ///
    /// - Parameter line: The line without its line feed.
    /// - Returns: The content of the line.
    /// - Throws: The first flaw, from left to right.
    /// - Complexity: O(*n*) for *n* bytes of the line.
    public static func parse(_ line: ArraySlice<UInt8>) throws(AccessLogFlaw) -> AccessLogEntry {
        var fields = FieldReader(line.last == UInt8(ascii: "\r") ? line.dropLast() : line)
        if fields.isAtEnd { throw .empty }
        _ = try fields.word(.host)
        _ = try fields.word(.identity)
        try fields.skipUserAndTime()
        let request = try fields.quoted(.request)
        try fields.skipSpace(after: .request)
        let status = try status(fields.word(.status))
        let size = try size(fields.word(.size))
        if !fields.isAtEnd {
            _ = try fields.quoted(.referer, orUnexpectedAfter: .size)
            try fields.skipSpace(after: .referer)
            _ = try fields.quoted(.userAgent)
            if !fields.isAtEnd { try fields.skipSpace(after: .userAgent) }
        }
        return AccessLogEntry(path: RequestLine.path(of: request), status: status, bytes: size)
    }

    private static func status(_ word: ArraySlice<UInt8>) throws(AccessLogFlaw) -> Int {
        if word.elementsEqual("-".utf8) { return 0 }
        guard word.count == 3, let status = number(word) else { throw .badStatus(excerpt(word)) }
        return status
    }

    private static func size(_ word: ArraySlice<UInt8>) throws(AccessLogFlaw) -> Int {
        if word.elementsEqual("-".utf8) { return 0 }
        guard word.allSatisfy(\.isDigit) else { throw .badSize(excerpt(word)) }
        guard let size = number(word) else { throw .sizeTooLarge(excerpt(word)) }
        return size
    }

    /// The value of digits; nil if there is any other byte or the value does not fit.
    private static func number(_ digits: ArraySlice<UInt8>) -> Int? {
        var value = 0
        for digit in digits {
            guard digit.isDigit else { return nil }
            let (tens, isTooLarge) = value.multipliedReportingOverflow(by: 10)
            let (sum, isTooLargeNow) = tens.addingReportingOverflow(Int(digit - UInt8(ascii: "0")))
            if isTooLarge || isTooLargeNow { return nil }
            value = sum
        }
        return value
    }
}
