/// Reads the fields of a line one after the other.
struct FieldReader {
    private var rest: ArraySlice<UInt8>

    init(_ line: ArraySlice<UInt8>) {
        rest = line
    }

    var isAtEnd: Bool { rest.isEmpty }

    /// Reads up to the next space or the end, and skips the space.
    mutating func word(_ field: AccessLogFlaw.Field) throws(AccessLogFlaw) -> ArraySlice<UInt8> {
        let word = rest[..<(rest.find(.space) ?? rest.endIndex)]
        if word.isEmpty { throw .missing(field) }
        rest = rest[word.endIndex...].dropFirst()
        return word
    }

    /// Skips a space.
    mutating func skipSpace(after field: AccessLogFlaw.Field) throws(AccessLogFlaw) {
        if let first = rest.first, first != .space { throw .unexpected(excerpt(rest), after: field) }
        rest = rest.dropFirst()
    }

    /// Skips the user and the time, and the space after each.
    ///
    /// A user name may contain spaces and brackets, as the client chooses it. So the first bracket proves nothing: the
    /// user ends before the first bracket that opens a time.
    mutating func skipUserAndTime() throws(AccessLogFlaw) {
        if rest.isEmpty { throw .missing(.user) }
        var firstBracket: ArraySlice<UInt8>.Index?
        var index = rest.startIndex
        while let bracket = rest[index...].find(UInt8(ascii: "[")) {
            index = bracket + 1
            guard bracket > rest.startIndex, rest[bracket - 1] == .space else { continue }
            if Self.isTime(rest[bracket...]) {
                if bracket == rest.startIndex + 1 { throw .missing(.user) }
                rest = rest[(bracket + Self.time.count)...]
                return try skipSpace(after: .time)
            }
            firstBracket = firstBracket ?? bracket
        }
        if let firstBracket { throw .badTime(excerpt(rest[firstBracket...])) }
        if rest.first == UInt8(ascii: "[") { throw .missing(.user) }
        throw .noTime
    }

    /// Reads the text between two quotes; a backslash escapes the quote after it.
    ///
    /// With `previous`, the field is optional: anything else in its place is reported as unexpected after the previous
    /// field, not as a badly formed field that was never meant.
    mutating func quoted(
        _ field: AccessLogFlaw.Field,
        orUnexpectedAfter previous: AccessLogFlaw.Field? = nil
    ) throws(AccessLogFlaw) -> ArraySlice<UInt8> {
        guard let first = rest.first else { throw .missing(field) }
        guard first == .quote else {
            if let previous { throw .unexpected(excerpt(rest), after: previous) }
            throw .notQuoted(field, excerpt(rest))
        }
        let start = rest.startIndex + 1
        var index = start
        while let quote = rest[index...].find(.quote) {
            index = quote + 1
            if Self.isEscaped(rest[start..<quote]) { continue }
            defer { rest = rest[index...] }
            return rest[start..<quote]
        }
        throw .noClosingQuote(field)
    }

    /// The pattern of a time: `0` stands for a digit, `a` for a letter, `+` for a sign.
    private static let time = Array("[00/aaa/0000:00:00:00 +0000]".utf8)

    private static func isTime(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard bytes.count >= time.count else { return false }
        for index in time.indices {
            let (pattern, byte) = (time[index], bytes[bytes.startIndex + index])
            let fits =
                switch pattern {
                case UInt8(ascii: "0"): byte.isDigit
                case UInt8(ascii: "a"): byte.isLetter
                case UInt8(ascii: "+"): byte == UInt8(ascii: "+") || byte == UInt8(ascii: "-")
                default: byte == pattern
                }
            if !fits { return false }
        }
        return true
    }

    /// Whether the byte after these is escaped: an odd number of backslashes precedes it, as each escapes the next.
    private static func isEscaped(_ bytes: ArraySlice<UInt8>) -> Bool {
        var backslashes = 0
        for byte in bytes.reversed() {
            if byte != .backslash { break }
            backslashes += 1
        }
        return !backslashes.isMultiple(of: 2)
    }
}

/// The beginning of a text, short enough for a message.
func excerpt(_ bytes: ArraySlice<UInt8>) -> String {
    let limit = 40
    return String(decoding: bytes.prefix(limit), as: UTF8.self) + (bytes.count > limit ? "…" : "")
}

extension UInt8 {
    static let space = UInt8(ascii: " ")
    static let quote = UInt8(ascii: "\"")
    static let backslash = UInt8(ascii: "\\")

    var isDigit: Bool { UInt8(ascii: "0")...UInt8(ascii: "9") ~= self }
    var isLetter: Bool { UInt8(ascii: "a")...UInt8(ascii: "z") ~= self | 0x20 }
}
