/// The reason why a line does not belong to an access log.
public enum AccessLogFlaw: Error, Sendable, Equatable {
    /// The line is empty.
    case empty
    /// The line is longer than ``LineSplitter/longestLine``.
    case tooLong
    /// The line ends, or has another space, where a field should be.
    case missing(Field)
    /// There is no `[` where the time should be.
    case noTime
    /// The text in brackets does not have the form `10/Oct/2000:13:55:36 -0700`.
    case badTime(String)
    /// A field that should be quoted does not begin with a quote.
    case notQuoted(Field, String)
    /// A quoted field does not end.
    case noClosingQuote(Field)
    /// The status is not three digits.
    case badStatus(String)
    /// The size is neither a number nor `-`.
    case badSize(String)
    /// The size is a number that no response can have.
    case sizeTooLarge(String)
    /// Something follows the field that neither format allows there.
    case unexpected(String, after: Field)

    /// A field of the format.
    public enum Field: String, Sendable {
        /// `%h`: the client's host.
        case host
        /// `%l`: the user according to the client's machine, nearly always `-`.
        case identity
        /// `%u`: the user who logged in.
        case user
        /// `%t`: when the request was received.
        case time
        /// `%r`: the first line of the request.
        case request
        /// `%>s`: the status of the response.
        case status
        /// `%b`: the size of the response.
        case size
        /// `%{Referer}i`: the page from which the client comes.
        case referer
        /// `%{User-agent}i`: the client software.
        case userAgent = "user agent"
    }
}

extension AccessLogFlaw: CustomStringConvertible {
    /// The reason, as text for people.
    public var description: String {
        switch self {
        case .empty: "the line is empty"
        case .tooLong: "the line is longer than \(LineSplitter.longestLine) bytes"
        case .missing(let field): "no \(field.rawValue)"
        case .noTime: "no time in brackets"
        case .badTime(let text): "the time is not like 10/Oct/2000:13:55:36 -0700: \(text)"
        case .notQuoted(let field, let text): "no opening quote before the \(field.rawValue): \(text)"
        case .noClosingQuote(let field): "no closing quote after the \(field.rawValue)"
        case .badStatus(let text): "the status is not three digits: \(text)"
        case .badSize(let text): "the size is not a number: \(text)"
        case .sizeTooLarge(let text): "the size is too large: \(text)"
        case .unexpected(let text, let field): "unexpected after the \(field.rawValue): \(text)"
        }
    }
}
